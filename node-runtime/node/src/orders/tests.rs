#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::Utc;
use mfaas_delivery::{Availability, Ban, Condition, NODE_PROTOCOL, Orders};

use super::{BanKey, Standing};
use crate::agent::ImageKey;
use crate::agent::testing::key;
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

fn orders(availability: Availability, bans: Vec<Ban>) -> Orders {
    Orders { protocol: NODE_PROTOCOL, availability, bans }
}

#[test]
fn a_draining_node_lets_nobody_in_and_is_drained_when_the_last_one_left() {
    let standing = Standing::default();
    let first = standing.enter();
    assert!(first.is_some());
    standing.obey(orders(Availability::Cordoned, Vec::new()));
    let second = standing.enter();
    assert_eq!(
        (second.is_some(), standing.condition(true)),
        (true, Condition::Cordoned),
        "cordoned takes calls"
    );
    standing.obey(orders(Availability::Draining, Vec::new()));
    assert!(standing.enter().is_none());
    assert_eq!(standing.condition(true), Condition::Draining);
    drop((first, second));
    assert_eq!(standing.condition(false), Condition::Draining, "the caller has hung up, the call still runs");
    assert_eq!(standing.condition(true), Condition::Drained);
    standing.obey(orders(Availability::Active, Vec::new()));
    assert!(standing.enter().is_some());
    assert_eq!(standing.condition(true), Condition::Active);
}

#[test]
fn a_ban_is_the_nodes_until_the_server_has_it_and_then_the_servers() {
    let standing = Standing::default();
    let crashed = key("hello", 1);
    let held = |standing: &Standing| standing.bans().contains_key(&BanKey::of(&crashed));
    standing.ban_spoken(&crashed, 3);
    assert!(held(&standing), "before anybody was told");
    standing.obey(orders(Availability::Active, Vec::new()));
    assert!(held(&standing), "orders from before it was told do not lift it");
    let notice = standing.first_untold().unwrap();
    standing.was_told(notice.clone(), true);
    assert!(held(&standing), "told, and not in the orders yet");
    assert!(standing.first_untold().is_none());
    standing.obey(orders(Availability::Active, vec![notice.ban]));
    assert!(held(&standing));
    assert!(!standing.bans().contains_key(&BanKey::of(&key("hello", 2))), "other bytes are another matter");
    standing.obey(orders(Availability::Active, Vec::new()));
    assert!(!held(&standing), "lifted");

    standing.ban_spoken(&crashed, 3);
    let again = standing.first_untold().unwrap();
    standing.was_told(again, false);
    standing.obey(orders(Availability::Active, Vec::new()));
    assert!(held(&standing), "what the server does not take holds on this node");
}

#[test]
fn a_start_without_a_server_keeps_orders_and_bans() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    let before = Standing::default();
    before.recall(&state).unwrap();
    assert_eq!(before.availability(), Availability::Active);
    before.obey(orders(Availability::Draining, vec![ban(&key("ordered", 1))]));
    before.ban_spoken(&key("told", 1), 3);
    let told = before.first_untold().unwrap();
    before.was_told(told, true);
    before.ban_spoken(&key("untold", 1), 3);
    before.keep(&state).unwrap();

    let after = Standing::default();
    after.recall(&state).unwrap();
    assert!(after.enter().is_none());
    assert_eq!(after.availability(), Availability::Draining);
    for name in ["ordered", "untold", "told"] {
        assert!(after.bans().contains_key(&BanKey::of(&key(name, 1))), "{name}");
    }
    state.store_orders(b"{ damaged").unwrap();
    let damaged = Standing::default();
    damaged.recall(&state).unwrap();
    assert!(damaged.enter().is_none(), "what is not known may have been forbidden");
    damaged.obey(orders(Availability::Active, Vec::new()));
    assert!(damaged.enter().is_some(), "until the server has told it again");
}
