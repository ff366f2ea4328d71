#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{Config, SpeculationControls};
use crate::grant::LocalGrants;
use crate::serving::{BulkWorkers, Sharing};

const COMPLETE: &[(&str, &str)] = &[
    ("MFAAS_NODE_NAME", "node-1"),
    ("MFAAS_SERVER", "https://127.0.0.1:7701/"),
    ("MFAAS_CA_FILE", "/ca.pem"),
    ("MFAAS_STATE_DIR", "/state"),
    ("MFAAS_ROOT_KEY_FILE", "/root.pub"),
];

/// Reads [`COMPLETE`] with one variable changed, or taken away.
fn with(name: &str, value: Option<&str>) -> Result<Config, String> {
    let others = COMPLETE.iter().copied().filter(|(known, _)| *known != name);
    let variables = others.chain(value.map(|value| (name, value))).collect();
    Config::read(&variables).map_err(|e| e.to_string())
}

#[test]
fn defaults_fill_what_may_be_left_out() {
    let config = with("MFAAS_READY_FILE", None).unwrap();
    assert_eq!(config.ingress.listen.to_string(), "127.0.0.1:7800");
    assert_eq!(config.membership.servers, ["https://127.0.0.1:7701"]);
    let several = with("MFAAS_SERVER", Some("https://a:7701, https://[fd00::5]:7701/,")).unwrap();
    assert_eq!(
        several.membership.servers,
        ["https://a:7701", "https://[fd00::5]:7701"],
        "in the order that was given"
    );
    assert_eq!(config.ingress.advertise, None);
    let advertised = with("MFAAS_INGRESS_ADVERTISE", Some("https://n1.example/")).unwrap().ingress.advertise;
    assert_eq!(advertised.as_deref(), Some("https://n1.example"));
    assert!(config.workers.count >= 1);
    assert_eq!(config.local_api.socket, None, "off unless configured");
    let open = with("MFAAS_LOCAL_SOCKET", Some("/run/local.sock")).unwrap();
    assert_eq!(open.local_api.socket.as_deref(), Some(std::path::Path::new("/run/local.sock")));
    assert!(config.workers.isolated.is_empty());
    assert!(config.workers.cores.is_empty());
    let cores = with("MFAAS_WORKER_CORES", Some("3, 2,")).unwrap().workers.cores;
    assert_eq!(cores.into_iter().collect::<Vec<_>>(), [2, 3]);
    let isolated = with("MFAAS_ISOLATED_TENANTS", Some("umbrella, acme,")).unwrap().workers.isolated;
    assert_eq!(isolated.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["acme", "umbrella"]);
    assert_eq!((config.ingress.caller_share.rate, config.ingress.caller_share.concurrency), (100_000, 2_048));
    assert_eq!(config.local_api.grants, LocalGrants::default(), "nothing but what is public");
    assert_eq!(with("MFAAS_CALLER_RATE", Some("7")).unwrap().ingress.caller_share.rate, 7);
    assert_eq!(with("MFAAS_CALLER_CONCURRENCY", Some("3")).unwrap().ingress.caller_share.concurrency, 3);
    let granted = with("MFAAS_LOCAL_CALLS", Some("acme/*")).unwrap().local_api.grants;
    assert_eq!(granted, LocalGrants::parse("acme/*").unwrap());
    assert_eq!(config.workers.speculation, SpeculationControls::ALL);
    let none = with("MFAAS_SPECULATION_CONTROLS", Some("none")).unwrap();
    assert_eq!(none.workers.speculation, SpeculationControls::NONE);
    assert_eq!(config.workers.sharing, Sharing::WithProtectionKeys);
    for sharing in [Sharing::Never, Sharing::WithProtectionKeys, Sharing::WithVerifiedCode] {
        let said = with("MFAAS_SHARE_WORKERS", Some(&sharing.to_string())).unwrap();
        assert_eq!(said.workers.sharing, sharing);
    }
    assert!(config.workers.processes_max > config.workers.count, "a second tenant finds room");
    assert_eq!(with("MFAAS_WORKER_PROCESSES", Some("300")).unwrap().workers.processes_max, 300);
    let before = with("MFAAS_PRIVATE_CORDONS", Some("4")).unwrap();
    assert_eq!(before.workers.processes_max, config.workers.processes_max, "it has no effect any more");
}

/// Bulk workers and their memory fit together, or the node does not start; what is not said follows from the machine.
#[test]
fn bulk_workers_have_the_memory_that_they_may_use() {
    let workers = |variables: &[(&'static str, &str)]| {
        let variables = COMPLETE.iter().copied().chain(variables.iter().copied()).collect();
        Config::read(&variables).map(|config| config.workers.bulk).map_err(|e| e.to_string())
    };
    let (count, memory) = ("MFAAS_BULK_WORKERS", "MFAAS_BULK_MEMORY_MIB");
    assert_eq!(workers(&[(memory, "0")]), Ok(None));
    assert_eq!(workers(&[(count, "0")]), Ok(None), "the operator wants none");
    assert_eq!(workers(&[(memory, "400")]), Ok(BulkWorkers::within(400 << 20, 1)));
    assert_eq!(workers(&[(count, "2"), (memory, "800")]), Ok(BulkWorkers::within(800 << 20, 2)));
    assert_ne!(workers(&[(count, "2"), (memory, "800")]), Ok(None));
    for (variables, named) in [
        (
            &[(count, "2"), (memory, "700")][..],
            "MFAAS_BULK_WORKERS: 2 bulk workers do not fit into the 700 MiB",
        ),
        (&[(count, "129")][..], "MFAAS_BULK_WORKERS"),
        (&[(count, "many")][..], "MFAAS_BULK_WORKERS"),
        (&[(memory, "4GiB")][..], "MFAAS_BULK_MEMORY_MIB"),
        (&[(memory, "999999999999")][..], "MFAAS_BULK_MEMORY_MIB"),
    ] {
        let error = workers(variables).unwrap_err();
        assert!(error.starts_with(named), "{error}");
    }
}

#[test]
fn variables_with_a_new_name_are_read_under_the_one_before() {
    let socket = with("MFAAS_DOOR_SOCKET", Some("/run/door")).unwrap().local_api.socket;
    assert_eq!(socket.as_deref(), Some(std::path::Path::new("/run/door")));
    let granted = with("MFAAS_DOOR_CALLS", Some("acme/*")).unwrap().local_api.grants;
    assert_eq!(granted, LocalGrants::parse("acme/*").unwrap());
}

#[test]
fn what_is_missing_or_malformed_is_named() {
    for (name, _) in COMPLETE {
        assert_eq!(with(name, None).unwrap_err(), format!("{name} is not set"));
    }
    for (name, value) in [
        ("MFAAS_NODE_NAME", "Node 1"),
        ("MFAAS_SERVER", "http://127.0.0.1:7701"),
        ("MFAAS_SERVER", "https://server/path"),
        ("MFAAS_SERVER", "https://"),
        ("MFAAS_SERVER", ","),
        ("MFAAS_SERVER", "https://a:7701,http://b:7701"),
        (
            "MFAAS_SERVER",
            "https://a,https://a,https://a,https://a,https://a,https://a,https://a,https://a,https://a",
        ),
        ("MFAAS_INGRESS_ADVERTISE", "n1.example:7800"),
        ("MFAAS_INGRESS_ADVERTISE", "https://n1.example/f"),
        ("MFAAS_INGRESS_ADVERTISE", "https://u:p@n1.example"),
        ("MFAAS_INGRESS_LISTEN", "localhost"),
        ("MFAAS_WORKERS", "0"),
        ("MFAAS_WORKERS", "129"),
        ("MFAAS_WORKERS", "many"),
        ("MFAAS_WORKER_CORES", "first"),
        ("MFAAS_ISOLATED_TENANTS", "acme,Not A Name"),
        ("MFAAS_SPECULATION_CONTROLS", "store-bypas"),
        ("MFAAS_CALLER_RATE", "0"),
        ("MFAAS_CALLER_RATE", "unlimited"),
        ("MFAAS_CALLER_CONCURRENCY", "0"),
        ("MFAAS_CALLER_CONCURRENCY", "-1"),
        ("MFAAS_LOCAL_CALLS", "acme"),
        ("MFAAS_LOCAL_CALLS", "*/hello"),
        ("MFAAS_SHARE_WORKERS", "always"),
        ("MFAAS_SHARE_WORKERS", "Never"),
        ("MFAAS_WORKER_PROCESSES", "0"),
        ("MFAAS_WORKER_PROCESSES", "4097"),
        ("MFAAS_WORKER_PROCESSES", "all"),
    ] {
        let error = with(name, Some(value)).unwrap_err();
        assert!(error.starts_with(&format!("{name}: ")), "{value}: {error}");
    }
}
