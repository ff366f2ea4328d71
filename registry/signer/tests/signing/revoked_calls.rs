//! Revoked call tokens: in the next set, in a document beside the shards, until the last of them is over.

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{CallClaims, RevokedCalls, ServingSet};
use mfaas_ident::CallScope;

use crate::world::World;

const TOKEN: &str = "0193a5d0-0000-7000-8000-000000000001";

/// What the set revokes, read as a node does; its document is in use.
fn revoked(world: &mut World, set: &ServingSet) -> RevokedCalls {
    let Some(digest) = set.revoked_calls else { return RevokedCalls::default() };
    let sql = "SELECT body FROM shards WHERE digest = $1 AND unused_since IS NULL";
    let body: String = world.sql.query_one(sql, &[&digest.to_string()]).unwrap().get(0);
    RevokedCalls::read(body.as_bytes(), &digest).unwrap()
}

fn claims(caller: &str, id: &str, issued_at: DateTime<Utc>) -> CallClaims {
    CallClaims {
        tenant: "acme".parse().unwrap(),
        caller: caller.parse().unwrap(),
        functions: CallScope::parse(&["pay"]).unwrap(),
        issued_at,
        expires_at: issued_at + TimeDelta::hours(1),
        id: id.to_owned(),
        rate: None,
        concurrency: None,
    }
}

/// As the server's role, which neither wakes the signer nor changes what is desired.
fn revoke(world: &World, caller: &str, token: Option<&str>, ends: &str) {
    let token = token.map_or("NULL".to_owned(), |token| format!("'{token}'"));
    let sql = format!(
        "INSERT INTO call_revocations (tenant, caller, token, issued_until, ends_at, revoked_by)
         VALUES ('acme', '{caller}', {token}, now() + interval '{ends}' - interval '24 hours',
                 now() + interval '{ends}', 'test')"
    );
    world.connect("mfaas_server").batch_execute(&sql).unwrap();
}

#[test]
fn what_is_revoked_is_in_the_next_set_until_it_is_over() {
    let mut world = World::new();
    let _signer = world.signer();
    let first = world.set_after(0);
    assert_eq!(first.revoked_calls, None, "older nodes take a set that revokes nothing");

    revoke(&world, "shop", Some(TOKEN), "23 hours");
    let second = world.set_after(first.epoch.0);
    let now = Utc::now();
    let told = revoked(&mut world, &second);
    assert!(told.revokes(&claims("shop", TOKEN, now)) && !told.revokes(&claims("shop", "other", now)));

    revoke(&world, "till", None, "24 hours");
    let third = world.set_after(second.epoch.0);
    let told = revoked(&mut world, &third);
    assert!(told.revokes(&claims("shop", TOKEN, now)) && told.revokes(&claims("till", "other", now)));
    assert!(!told.revokes(&claims("till", "other", now + TimeDelta::hours(1))), "issued afterwards");
    let unused = "SELECT count(*) FROM shards WHERE unused_since IS NOT NULL";
    assert_eq!(world.count(unused), 1, "a node may be about to fetch the document before");

    // Another change leaves the document as it is, so that no node fetches it again.
    world.sql.execute("SELECT bump_desired_generation()", &[]).unwrap();
    let fourth = world.set_after(third.epoch.0);
    assert_eq!(fourth.revoked_calls, third.revoked_calls);

    let over = "UPDATE call_revocations SET issued_until = issued_until - interval '26 hours',
                    ends_at = ends_at - interval '26 hours'";
    world.sql.batch_execute(&format!("{over} WHERE token IS NULL")).unwrap();
    world.sql.execute("SELECT bump_desired_generation()", &[]).unwrap();
    let fifth = world.set_after(fourth.epoch.0);
    assert_eq!(fifth.revoked_calls, second.revoked_calls, "the same revocations are the same document");
    assert!(revoked(&mut world, &fifth).revokes(&claims("shop", TOKEN, now)));
    world.sql.batch_execute(over).unwrap();
    world.sql.execute("SELECT bump_desired_generation()", &[]).unwrap();
    let last = world.set_after(fifth.epoch.0);
    assert_eq!((last.revoked_calls, world.count(unused)), (None, 2));
}

/// Whatever happens to the documents in the database, the next set leads to one that is there.
#[test]
fn a_document_that_is_gone_is_written_again() {
    let mut world = World::new();
    let _signer = world.signer();
    let first = world.set_after(0);
    revoke(&world, "shop", Some(TOKEN), "23 hours");
    let mut last = world.set_after(first.epoch.0);
    for damage in [
        "DELETE FROM shards WHERE body LIKE '{\"tenants\"%'",
        "UPDATE shards SET body = '{}' WHERE body LIKE '{\"tenants\"%'",
        "DELETE FROM serving_sets",
    ] {
        world.sql.batch_execute(damage).unwrap();
        world.sql.execute("SELECT bump_desired_generation()", &[]).unwrap();
        let after = if damage.contains("sets") { 0 } else { last.epoch.0 };
        last = world.set_after(after);
        assert!(revoked(&mut world, &last).revokes(&claims("shop", TOKEN, Utc::now())), "{damage}");
        let functions = world.functions(&last);
        assert!(functions.is_empty(), "{damage}");
    }
}
