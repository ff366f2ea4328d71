#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! Variables and changes.

use mfaas_isolation::CoreSet;
use mfaas_isolation_client::{Change, Limit, Mode};
use mfaas_startup::Variables;

use super::{Config, merged};

fn read(more: &[(&str, &str)]) -> Result<Config, String> {
    let given = [("MFAAS_ISOLATION_SOCKET", "/run/x"), ("MFAAS_STATE_DIR", "/var/x")];
    let variables: Variables = given.iter().chain(more).copied().collect();
    Config::read(&variables, &CoreSet::first_cpus(16).unwrap()).map_err(|error| error.to_string())
}

#[test]
fn without_a_word_the_secondary_is_idle_class() {
    let settings = read(&[]).unwrap().settings;
    assert_eq!((settings.mode, settings.buffer_cores, settings.memory_bytes), (Mode::IdleClass, 2, None));
}

#[test]
fn what_no_machine_can_keep_is_refused() {
    for (name, value) in [
        ("MFAAS_ISOLATION_MODE", "nice"),
        ("MFAAS_BUFFER_CORES", "16"),
        ("MFAAS_SECONDARY_MEMORY", "1000"),
        ("MFAAS_DISKS", "vda=1000/1000000"),
        ("MFAAS_DISKS", "254:0=99/1048576"),
        ("MFAAS_EGRESS", "eth0=124999"),
        ("MFAAS_EGRESS", "--batch=125000"),
        ("MFAAS_EGRESS", "sixteen-letters-=125000"),
        ("MFAAS_EGRESS", "eth0=125000,eth0=250000"),
        ("MFAAS_PRIMARY_USERS", "nobody-of-this-name"),
        ("MFAAS_SECONDARY_USERS", "root,4294967296"),
        ("MFAAS_ISOLATION_GROUP", "../system.slice"),
    ] {
        let error = read(&[(name, value)]).unwrap_err();
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn a_command_changes_what_it_names() {
    let settings = read(&[("MFAAS_SECONDARY_MEMORY", "1073741824")]).unwrap().settings;
    let blind = Change { mode: Some(Mode::Blind), buffer_cores: Some(15), ..Change::default() };
    let changed = settings.changed(&blind, 16).unwrap();
    assert_eq!((changed.mode, changed.buffer_cores, changed.memory_bytes), (Mode::Blind, 15, Some(1 << 30)));
    let free = Change { memory_bytes: Some(Limit::None), ..Change::default() };
    assert_eq!(changed.changed(&free, 16).unwrap().memory_bytes, None);
    assert_eq!(merged(&blind, &free), Change { memory_bytes: Some(Limit::None), ..blind });
    // The number of the site's settings outlives a change by command; the kill switch is no setting.
    let of_site = Change { revision: Some(7), off: Some(true), ..blind.clone() };
    assert_eq!(
        merged(&of_site, &free),
        Change { memory_bytes: Some(Limit::None), off: None, ..of_site.clone() }
    );
    for wrong in [
        Change { buffer_cores: Some(16), ..Change::default() },
        Change { memory_bytes: Some(Limit::At(1)), ..Change::default() },
    ] {
        assert!(settings.changed(&wrong, 16).is_err(), "{wrong:?}");
    }
}
