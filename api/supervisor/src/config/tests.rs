#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_startup::{DatabaseAddress, DatabaseHost};

use super::{OWNER_ROLE, SERVER_ROLE, UpConfig, option_of};
use crate::layout::Home;
use crate::ports::Ports;

const PORTS: Ports = Ports { http: 0, node: 0, ingress: 0 };

#[test]
fn passwords_are_made_once_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    let first = UpConfig::load_or_new(&home, PORTS).unwrap();
    first.save(&home).unwrap();
    let second = UpConfig::load_or_new(&home, Ports { http: 7, ..PORTS }).unwrap();
    assert_eq!(first.password(SERVER_ROLE).unwrap(), second.password(SERVER_ROLE).unwrap());
    assert_ne!(first.password(SERVER_ROLE).unwrap(), first.password(OWNER_ROLE).unwrap());
    assert_eq!(second.ports.http, 7);
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(dir.path().join("up.json")).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_damaged_or_newer_file_is_an_error_and_not_a_fresh_start() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    std::fs::write(dir.path().join("up.json"), "{").unwrap();
    assert!(UpConfig::load_or_new(&home, PORTS).is_err());
    let mut config =
        serde_json::to_value(UpConfig::load_or_new(&Home::at("/nowhere".as_ref()), PORTS).unwrap()).unwrap();
    config["format"] = 2.into();
    std::fs::write(dir.path().join("up.json"), config.to_string()).unwrap();
    assert!(UpConfig::load(&home).unwrap_err().to_string().contains("format 2"));
}

#[test]
fn a_file_from_before_tenants_could_ask_for_their_own_workers_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    let config = UpConfig { worker_processes: Some(40), ..UpConfig::load_or_new(&home, PORTS).unwrap() };
    config.save(&home).unwrap();
    assert_eq!(UpConfig::load(&home).unwrap().unwrap().worker_processes, Some(40));
    let mut older = serde_json::to_value(&config).unwrap();
    older.as_object_mut().unwrap().remove("worker_processes").unwrap();
    older["private_cordons"] = 4.into();
    std::fs::write(dir.path().join("up.json"), older.to_string()).unwrap();
    assert_eq!(UpConfig::load(&home).unwrap().unwrap().worker_processes, None);
}

#[test]
fn the_least_sandbox_is_kept_under_its_older_name_and_asked_for_under_its_new_one() {
    let home = Home::at("/nowhere".as_ref());
    let config =
        UpConfig { sandbox_minimum: "landlock".to_owned(), ..UpConfig::load_or_new(&home, PORTS).unwrap() };
    let kept = serde_json::to_value(&config).unwrap();
    assert_eq!(kept["cage_minimum"], "landlock");
    assert_eq!(serde_json::from_value::<UpConfig>(kept).unwrap().sandbox_minimum, "landlock");
    assert_eq!(option_of("cage_minimum"), "--sandbox-minimum");
    assert_eq!(option_of("builds_agreement"), "--builds-agreement");
}

#[test]
fn an_external_database_keeps_its_address_and_changes_its_user() {
    let home = Home::at("/srv/m".as_ref());
    let mut config = UpConfig::load_or_new(&home, PORTS).unwrap();
    let owner = "postgres://boss:x@one:5433,two:5434/site?sslrootcert=/ca.pem";
    config.external_database = Some(owner.to_owned());
    let expected: DatabaseAddress = owner.parse().unwrap();
    assert_eq!(config.database(&home, OWNER_ROLE).unwrap(), expected);
    let server = config.database(&home, SERVER_ROLE).unwrap();
    assert_eq!(server.password.as_deref(), Some(config.password(SERVER_ROLE).unwrap()));
    let expected =
        DatabaseAddress { user: SERVER_ROLE.to_owned(), password: server.password.clone(), ..expected };
    assert_eq!(server, expected);
    config.external_database = Some("postgres://boss:x@one/site?sslmode=prefer".to_owned());
    let error = config.database(&home, SERVER_ROLE).unwrap_err().to_string();
    assert!(error.contains("DATABASE_URL") && error.contains("verify-full"), "{error}");
}

#[test]
fn a_private_cluster_is_reached_through_its_socket() {
    let home = Home::at("/srv/m".as_ref());
    let config = UpConfig::load_or_new(&home, PORTS).unwrap();
    let address = config.database(&home, SERVER_ROLE).unwrap();
    assert_eq!(address.hosts, [DatabaseHost::Socket("/srv/m/run/pg".into(), 5432)]);
    assert_eq!((&*address.user, &*address.database, address.tls), ("mfaas_server", "mfaas", None));
}

#[test]
fn nodes_are_listened_for_where_it_was_said_and_the_certificate_names_that() {
    let config = UpConfig::load_or_new(&Home::at("/nowhere".as_ref()), PORTS).unwrap();
    let cases = [
        (None, "127.0.0.1", "127.0.0.1", vec!["mfaas.example"]),
        (Some("0.0.0.0"), "0.0.0.0", "127.0.0.1", vec!["mfaas.example"]),
        (Some("::"), "::", "::1", vec!["mfaas.example"]),
        (Some("10.0.0.5"), "10.0.0.5", "10.0.0.5", vec!["mfaas.example", "10.0.0.5"]),
    ];
    for (said, listened, reached, names) in cases {
        let node_listen = said.map(|address| address.parse().unwrap());
        let config = UpConfig { node_listen, names: vec!["mfaas.example".to_owned()], ..config.clone() };
        assert_eq!(config.node_addresses(), (listened.parse().unwrap(), reached.parse().unwrap()));
        assert_eq!(config.certificate_names(), names);
    }
    assert_eq!(option_of("names"), "--name");
    assert_eq!(option_of("node_listen"), "--node-listen");
}
