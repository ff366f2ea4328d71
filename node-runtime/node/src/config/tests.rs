#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{Config, SpeculationWish};
use crate::grant::DoorGrants;

const COMPLETE: &[(&str, &str)] = &[
    ("MFAAS_NODE_NAME", "node-1"),
    ("MFAAS_SERVER", "https://127.0.0.1:7701/"),
    ("MFAAS_CA_FILE", "/ca.pem"),
    ("MFAAS_STATE_DIR", "/state"),
    ("MFAAS_ROOT_KEY_FILE", "/root.pub"),
];

/// Reads [`COMPLETE`] with one variable changed, or taken away.
fn with(name: &str, value: Option<&str>) -> Result<Config, String> {
    let lookup = |asked: &str| {
        let given = COMPLETE.iter().find(|(known, _)| *known == asked).map(|(_, value)| *value);
        if asked == name { value } else { given }.map(str::to_owned)
    };
    Config::read(&|asked: &'static str| lookup(asked)).map_err(|e| e.to_string())
}

#[test]
fn defaults_fill_what_may_be_left_out() {
    let config = with("MFAAS_READY_FILE", None).unwrap();
    assert_eq!(config.ingress_listen.to_string(), "127.0.0.1:7800");
    assert_eq!(config.membership.server, "https://127.0.0.1:7701");
    assert!(config.workers >= 1);
    assert_eq!(config.door_socket, None, "off unless configured");
    let open = with("MFAAS_DOOR_SOCKET", Some("/run/door")).unwrap();
    assert_eq!(open.door_socket.as_deref(), Some(std::path::Path::new("/run/door")));
    assert!(config.isolated.is_empty());
    assert!(config.worker_cores.is_empty());
    let cores = with("MFAAS_WORKER_CORES", Some("3, 2,")).unwrap().worker_cores;
    assert_eq!(cores.into_iter().collect::<Vec<_>>(), [2, 3]);
    let isolated = with("MFAAS_ISOLATED_TENANTS", Some("umbrella, acme,")).unwrap().isolated;
    assert_eq!(isolated.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["acme", "umbrella"]);
    assert_eq!((config.caller_share.rate, config.caller_share.concurrency), (100_000, 2_048));
    assert_eq!(config.door_grants, DoorGrants::default(), "nothing but what is public");
    assert_eq!(with("MFAAS_CALLER_RATE", Some("7")).unwrap().caller_share.rate, 7);
    assert_eq!(with("MFAAS_CALLER_CONCURRENCY", Some("3")).unwrap().caller_share.concurrency, 3);
    let granted = with("MFAAS_DOOR_CALLS", Some("acme/*")).unwrap().door_grants;
    assert_eq!(granted, DoorGrants::parse("acme/*").unwrap());
    assert_eq!(config.private_cordons, 32);
    assert_eq!(config.speculation, SpeculationWish::ALL);
    let none = with("MFAAS_SPECULATION_CONTROLS", Some("none")).unwrap();
    assert_eq!(none.speculation, SpeculationWish::NONE);
    assert_eq!(with("MFAAS_PRIVATE_CORDONS", Some("0")).unwrap().private_cordons, 0);
    assert_eq!(with("MFAAS_PRIVATE_CORDONS", Some("128")).unwrap().private_cordons, 128);
    let tenants: Vec<String> = (0..120).map(|number| format!("tenant-{number}")).collect();
    let left = with("MFAAS_ISOLATED_TENANTS", Some(&tenants.join(","))).unwrap();
    assert_eq!(left.private_cordons, 8, "what the operator's own tenants leave");
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
        ("MFAAS_INGRESS_LISTEN", "localhost"),
        ("MFAAS_WORKERS", "0"),
        ("MFAAS_WORKERS", "129"),
        ("MFAAS_WORKERS", "many"),
        ("MFAAS_WORKER_CORES", "first"),
        ("MFAAS_ISOLATED_TENANTS", "acme,Not A Name"),
        ("MFAAS_PRIVATE_CORDONS", "129"),
        ("MFAAS_PRIVATE_CORDONS", "-1"),
        ("MFAAS_PRIVATE_CORDONS", "all"),
        ("MFAAS_SPECULATION_CONTROLS", "store-bypas"),
        ("MFAAS_CALLER_RATE", "0"),
        ("MFAAS_CALLER_RATE", "unlimited"),
        ("MFAAS_CALLER_CONCURRENCY", "0"),
        ("MFAAS_CALLER_CONCURRENCY", "-1"),
        ("MFAAS_DOOR_CALLS", "acme"),
        ("MFAAS_DOOR_CALLS", "*/hello"),
    ] {
        let error = with(name, Some(value)).unwrap_err();
        assert!(error.starts_with(&format!("{name}: ")), "{value}: {error}");
    }
}
