#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::Utc;
use mfaas_delivery::{Availability, Ban, Condition, Directives, NODE_PROTOCOL};

use super::{BanKey, Standing};
use crate::agent::testing::key;
use crate::image::ImageKey;
use crate::state::StateDir;

fn ban(key: &ImageKey) -> Ban {
    Ban {
        tenant: key.tenant.clone(),
        function: key.function.clone(),
        version: key.version,
        digest: key.digest,
        crashes: 3,
        since: Utc::now(),
    }
}

fn directives(availability: Availability, bans: Vec<Ban>) -> Directives {
    Directives { protocol: NODE_PROTOCOL, availability, bans }
}

#[test]
fn a_draining_node_lets_nobody_in_and_is_drained_when_the_last_one_left() {
    let standing = Standing::default();
    let first = standing.enter();
    assert!(first.is_some());
    standing.apply(directives(Availability::Cordoned, Vec::new()));
    let second = standing.enter();
    assert_eq!(
        (second.is_some(), standing.condition(true)),
        (true, Condition::Cordoned),
        "cordoned takes calls"
    );
    standing.apply(directives(Availability::Draining, Vec::new()));
    assert!(standing.enter().is_none());
    assert_eq!(standing.condition(true), Condition::Draining);
    drop((first, second));
    assert_eq!(standing.condition(false), Condition::Draining, "the caller has hung up, the call still runs");
    assert_eq!(standing.condition(true), Condition::Drained);
    standing.apply(directives(Availability::Active, Vec::new()));
    assert!(standing.enter().is_some());
    assert_eq!(standing.condition(true), Condition::Active);
}

#[test]
fn a_ban_is_the_nodes_until_the_server_has_it_and_then_the_servers() {
    let standing = Standing::default();
    let crashed = key("hello", 1);
    let held = |standing: &Standing| standing.bans().contains_key(&BanKey::of(&crashed));
    standing.record_ban(&crashed, 3);
    assert!(held(&standing), "before it was reported");
    standing.apply(directives(Availability::Active, Vec::new()));
    assert!(held(&standing), "directives from before it was reported do not lift it");
    let notice = standing.first_unreported().unwrap();
    standing.acknowledge(notice.clone(), true);
    assert!(held(&standing), "reported, and not in the directives yet");
    assert!(standing.first_unreported().is_none());
    standing.apply(directives(Availability::Active, vec![notice.ban]));
    assert!(held(&standing));
    assert!(!standing.bans().contains_key(&BanKey::of(&key("hello", 2))), "other bytes are another matter");
    standing.apply(directives(Availability::Active, Vec::new()));
    assert!(!held(&standing), "lifted");

    standing.record_ban(&crashed, 3);
    let again = standing.first_unreported().unwrap();
    standing.acknowledge(again, false);
    standing.apply(directives(Availability::Active, Vec::new()));
    assert!(held(&standing), "what the server does not take holds on this node");
}

#[test]
fn a_start_without_a_server_keeps_directives_and_bans() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    let before = Standing::default();
    before.recall(&state).unwrap();
    assert_eq!(before.availability(), Availability::Active);
    before.apply(directives(Availability::Draining, vec![ban(&key("ordered", 1))]));
    before.record_ban(&key("reported", 1), 3);
    let reported = before.first_unreported().unwrap();
    before.acknowledge(reported, true);
    before.record_ban(&key("unreported", 1), 3);
    before.keep(&state).unwrap();

    let after = Standing::default();
    after.recall(&state).unwrap();
    assert!(after.enter().is_none());
    assert_eq!(after.availability(), Availability::Draining);
    for name in ["ordered", "unreported", "reported"] {
        assert!(after.bans().contains_key(&BanKey::of(&key(name, 1))), "{name}");
    }
    state.store_directives(b"{ damaged").unwrap();
    let damaged = Standing::default();
    damaged.recall(&state).unwrap();
    assert!(damaged.enter().is_none(), "what is not known may have been forbidden");
    damaged.apply(directives(Availability::Active, Vec::new()));
    assert!(damaged.enter().is_some(), "until the server has sent them again");
}

/// The names in the file are those of the release before, which reads it after a step back.
#[test]
fn the_file_keeps_the_names_of_the_release_before() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    let file = dir.path().join("orders.json");
    let before = r#"{"orders":{"protocol":2,"availability":"draining","bans":[]},"unreported":[]}"#;
    std::fs::write(&file, before).unwrap();
    let standing = Standing::default();
    standing.recall(&state).unwrap();
    assert_eq!(standing.availability(), Availability::Draining);
    standing.keep(&state).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}
