//! Call tokens on record, and what takes them back.

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use mfaas_attest::{CALL_REVOCATIONS_MAX, KeyId};
use mfaas_catalog::{CatalogError, IssuedCall, Retention};
use mfaas_ident::{CallScope, Digest, TenantName};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::fixture::{World, actor, person, tenant};

/// Of one tenant, as docs/errors/MF0922.md says.
const OF_TENANT_MAX: usize = 64;

/// Issues a token of `acme` that begins now.
async fn issue(world: &World, caller: &str, life: TimeDelta) -> Uuid {
    issue_of(world, &tenant(), caller, Utc::now().trunc_subsecs(0), life).await
}

async fn issue_of(
    world: &World,
    tenant: &TenantName,
    caller: &str,
    issued_at: DateTime<Utc>,
    life: TimeDelta,
) -> Uuid {
    world.server.ensure_tenant(&actor(), tenant).await.unwrap();
    let id = Uuid::now_v7();
    let issued = IssuedCall {
        id,
        tenant,
        caller: &person(caller),
        functions: &CallScope::parse(&["pay"]).unwrap(),
        issued_at,
        expires_at: issued_at + life,
        key: KeyId(Digest::of(b"key")),
    };
    world.server.record_call_token(&actor(), &issued).await.unwrap();
    id
}

const HOUR: TimeDelta = TimeDelta::hours(1);

async fn generation(world: &World) -> i64 {
    world.count("SELECT generation FROM desired_generation").await
}

async fn records(world: &World, action: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM audit_log WHERE action = '{action}' AND actor = 'test'");
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&world.sql).await.unwrap()
}

/// Those of `acme` that are on the list, and whether they were revoked.
async fn listed(world: &World) -> Vec<(Uuid, bool)> {
    let found = world.server.call_tokens(&tenant(), 100).await.unwrap();
    found.into_iter().map(|token| (token.id, token.revoked_at.is_some())).collect()
}

#[tokio::test]
async fn a_token_that_is_issued_is_on_record_without_its_text() {
    let world = World::new().await;
    let id = issue(&world, "shop", HOUR).await;
    let sql = format!(
        "SELECT count(*) FROM audit_log WHERE action = 'call_token.issued' AND subject = '{id}'
         AND detail ->> 'caller' = 'shop' AND detail -> 'functions' = '[\"pay\"]'"
    );
    let found: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&world.sql).await.unwrap();
    assert_eq!(found, 1);
    let longer = issue(&world, "shop", HOUR * 2).await;
    let over = Utc::now().trunc_subsecs(0) - HOUR;
    issue_of(&world, &tenant(), "shop", over, TimeDelta::minutes(1)).await;
    let umbrella = TenantName::parse("umbrella").unwrap();
    world.server.ensure_tenant(&actor(), &umbrella).await.unwrap();
    issue_of(&world, &umbrella, "shop", Utc::now().trunc_subsecs(0), HOUR).await;
    assert_eq!(listed(&world).await, [(longer, false), (id, false)]);
    let token = world.server.call_tokens(&tenant(), 1).await.unwrap().remove(0);
    assert_eq!((token.caller.as_str(), token.issued_by.as_str()), ("shop", "test"));
    assert_eq!(token.functions, CallScope::parse(&["pay"]).unwrap());
}

#[tokio::test]
async fn one_token_is_revoked_once_and_nodes_hear_of_it() {
    let world = World::new().await;
    let (id, other) = (issue(&world, "shop", HOUR).await, issue(&world, "shop", HOUR).await);
    let before = generation(&world).await;
    let revoked = world.server.revoke_call_token(&actor(), &tenant(), id).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    assert_eq!(generation(&world).await, before + 1);
    assert_eq!(world.server.revoke_call_token(&actor(), &tenant(), id).await.unwrap(), revoked, "again");
    assert_eq!((generation(&world).await, records(&world, "call_token.revoked").await), (before + 1, 1));
    let mut both = [(id, true), (other, false)];
    both.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(listed(&world).await, both);
    // Another tenant's is not there, one that nobody issued is not there, and one that is over is no matter any more.
    let umbrella = TenantName::parse("umbrella").unwrap();
    for (of, id) in [(&umbrella, other), (&tenant(), Uuid::now_v7())] {
        let refused = world.server.revoke_call_token(&actor(), of, id).await;
        assert!(matches!(refused, Err(CatalogError::NotFound { .. })), "{refused:?}");
    }
    let hours_ago = Utc::now().trunc_subsecs(0) - HOUR * 2;
    let over = issue_of(&world, &tenant(), "shop", hours_ago, HOUR).await;
    let refused = world.server.revoke_call_token(&actor(), &tenant(), over).await;
    assert!(matches!(refused, Err(CatalogError::CallTokensOver)), "{refused:?}");
    assert_eq!(world.count("SELECT count(*) FROM call_revocations").await, 1);
}

#[tokio::test]
async fn a_caller_is_revoked_until_now_and_what_is_issued_later_counts() {
    let world = World::new().await;
    let shop = person("shop");
    let revoke = async || world.server.revoke_caller(&actor(), &tenant(), &shop).await;
    let refused = revoke().await;
    assert!(matches!(refused, Err(CatalogError::NotFound { .. })), "{refused:?}");
    let hours_ago = Utc::now().trunc_subsecs(0) - HOUR * 2;
    issue_of(&world, &tenant(), "shop", hours_ago, HOUR).await;
    let refused = revoke().await;
    assert!(matches!(refused, Err(CatalogError::CallTokensOver)), "{refused:?}");
    assert_eq!(world.server.caller_revoked_until(&tenant(), &shop).await.unwrap(), None);

    // One by a server whose clock is ahead, too.
    let ahead = Utc::now().trunc_subsecs(0) + TimeDelta::minutes(5);
    let first = issue_of(&world, &tenant(), "shop", ahead, HOUR).await;
    let (second, till) = (issue(&world, "shop", HOUR / 2).await, issue(&world, "till", HOUR / 4).await);
    let before = generation(&world).await;
    let until = revoke().await.unwrap();
    assert_eq!(until, ahead);
    assert_eq!(world.server.caller_revoked_until(&tenant(), &shop).await.unwrap(), Some(until));
    assert_eq!(listed(&world).await, [(first, true), (second, true), (till, false)]);
    assert_eq!(revoke().await.unwrap(), until, "nothing was issued since");
    assert_eq!((generation(&world).await, records(&world, "call_tokens.revoked").await), (before + 1, 1));
    let again = world.server.revoke_call_token(&actor(), &tenant(), first).await.unwrap();
    assert!(again.revoked_at.is_some() && records(&world, "call_token.revoked").await == 0);

    let new = issue_of(&world, &tenant(), "shop", until + TimeDelta::seconds(1), HOUR).await;
    assert_eq!(listed(&world).await[0], (new, false));
    world.server.revoke_call_token(&actor(), &tenant(), new).await.unwrap();
    let newer = issue_of(&world, &tenant(), "shop", until + TimeDelta::seconds(2), HOUR).await;
    assert_eq!(revoke().await.unwrap(), until + TimeDelta::seconds(2));
    assert!(listed(&world).await.contains(&(newer, true)));
    assert_eq!(world.count("SELECT count(*) FROM call_revocations").await, 1, "it says what the others said");
}

/// Rows as the server's role can make them, past the catalog.
async fn fill(world: &World, tenant: &str, callers: std::ops::Range<usize>) -> Result<(), sqlx::Error> {
    let server = world.raw("mfaas_server").await;
    for number in callers {
        let sql = format!(
            "INSERT INTO call_revocations (tenant, caller, issued_until, ends_at, revoked_by)
             VALUES ('{tenant}', 'c{number}', now(), now() + interval '24 hours', 'test')"
        );
        sqlx::query(AssertSqlSafe(sql)).execute(&server).await?;
    }
    Ok(())
}

fn constraint(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error().and_then(|error| error.constraint())
}

#[tokio::test]
async fn revocations_are_bounded_and_a_whole_caller_takes_the_place_of_single_tokens() {
    let world = World::new().await;
    let first = issue(&world, "shop", HOUR).await;
    world.server.revoke_call_token(&actor(), &tenant(), first).await.unwrap();
    fill(&world, "acme", 1..OF_TENANT_MAX).await.unwrap();
    let one_more = issue(&world, "shop", HOUR).await;
    let refused = world.server.revoke_call_token(&actor(), &tenant(), one_more).await;
    assert!(matches!(refused, Err(CatalogError::TooManyRevocations)), "{refused:?}");
    assert_eq!(records(&world, "call_token.revoked").await, 1, "nothing of it is done");
    world.server.revoke_caller(&actor(), &tenant(), &person("shop")).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM call_revocations").await, OF_TENANT_MAX as i64);
    // What is over makes room, from the next hour on.
    world.damage("ALTER TABLE call_revocations DISABLE TRIGGER USER").await;
    world
        .damage(
            "UPDATE call_revocations SET issued_until = issued_until - interval '26 hours',
                 ends_at = ends_at - interval '26 hours' WHERE caller = 'c1'",
        )
        .await;
    world.damage("ALTER TABLE call_revocations ENABLE TRIGGER USER").await;
    fill(&world, "acme", 100..101).await.unwrap();
    let bounded = Some("call_revocations_bounded");
    assert_eq!(constraint(&fill(&world, "acme", 101..102).await.unwrap_err()), bounded);
    assert_eq!(
        constraint(&fill(&world, "acme", 1..2).await.unwrap_err()),
        bounded,
        "in the place of what is over"
    );
}

/// Tenants that use up what they can leave room for others, until every row is somebody's only one.
#[tokio::test]
async fn a_few_tenants_cannot_use_up_the_revocations_of_all() {
    let world = World::new().await;
    let mut used = Vec::new();
    for number in 0..20 {
        let name = format!("t{number}");
        world.server.ensure_tenant(&actor(), &TenantName::parse(&name).unwrap()).await.unwrap();
        let mut own = 0;
        while fill(&world, &name, own..own + 1).await.is_ok() {
            own += 1;
        }
        used.push(own);
    }
    assert_eq!(used[0], OF_TENANT_MAX);
    assert!(used.windows(2).all(|pair| pair[0] >= pair[1]) && used[19] >= 1, "{used:?}");
    assert!(used.iter().sum::<usize>() < CALL_REVOCATIONS_MAX - 40, "{used:?}");
    fill(&world, "t0", 0..1).await.unwrap();
    let refused = fill(&world, "t0", 900..901).await.unwrap_err();
    assert_eq!(constraint(&refused), Some("call_revocations_bounded"));
    let rest = "INSERT INTO tenants (name) SELECT 'x' || i FROM generate_series(1, 800) i";
    world.damage(rest).await;
    let mut last = 0;
    while fill(&world, &format!("x{}", last + 1), 0..1).await.is_ok() {
        last += 1;
    }
    assert_eq!(used.iter().sum::<usize>() + last, CALL_REVOCATIONS_MAX, "everybody gets one");
}

/// The server's role, with statements of whoever took it over.
#[tokio::test]
async fn nobody_rewrites_what_was_issued_or_revoked() {
    let world = World::new().await;
    let id = issue(&world, "shop", HOUR).await;
    world.server.revoke_call_token(&actor(), &tenant(), id).await.unwrap();
    for role in ["mfaas_server", "mfaas_signer", "mfaas_builder", "mfaas_acquirer"] {
        let raw = world.raw(role).await;
        for statement in [
            "UPDATE call_revocations SET ends_at = now()",
            "UPDATE call_revocations SET caller = 'other'",
            "UPDATE call_tokens SET expires_at = now()",
            "TRUNCATE call_revocations",
            "ALTER TABLE call_revocations DISABLE TRIGGER USER",
        ] {
            let error = sqlx::query(statement).execute(&raw).await.unwrap_err();
            let code = error.as_database_error().and_then(|e| e.code());
            assert_eq!(code.as_deref(), Some("42501"), "{role}: {statement}: {error}");
        }
    }
    let server = world.raw("mfaas_server").await;
    for (statement, name) in [
        ("DELETE FROM call_revocations", "call_revocations_deleted_when_old"),
        ("DELETE FROM call_tokens", "call_tokens_deleted_when_old"),
    ] {
        let error = sqlx::query(statement).execute(&server).await.unwrap_err();
        assert_eq!(constraint(&error), Some(name), "{error}");
    }
    let late = "INSERT INTO call_revocations (tenant, caller, issued_until, ends_at, revoked_by, revoked_at)
                VALUES ('acme', 'shop', now(), now() + interval '1 hour', 'me', now() - interval '1 day')";
    let error = sqlx::query(late).execute(&server).await.unwrap_err();
    assert_eq!(error.as_database_error().and_then(|e| e.code()).as_deref(), Some("42501"));
    for (values, name) in [
        ("now(), now() + interval '25 hours'", "call_revocations_end"),
        ("now() + interval '1 year', now() + interval '1 year 1 hour'", "call_revocations_begin"),
    ] {
        let endless = format!(
            "INSERT INTO call_revocations (tenant, caller, issued_until, ends_at, revoked_by)
             VALUES ('acme', 'shop', {values}, 'me')"
        );
        let error = sqlx::query(AssertSqlSafe(endless)).execute(&server).await.unwrap_err();
        assert_eq!(constraint(&error), Some(name), "{error}");
    }
}

#[tokio::test]
async fn call_tokens_and_their_revocations_are_forgotten_after_their_end() {
    let world = World::new().await;
    let id = issue(&world, "shop", HOUR).await;
    world.server.revoke_call_token(&actor(), &tenant(), id).await.unwrap();
    let forget = async |days| {
        let kept = Retention { tokens_days: days, ..Retention::DEFAULT };
        world.server.forget(&kept).await.unwrap()
    };
    let age = async |days: u32| {
        for (table, columns) in
            [("call_tokens", ["issued_at", "expires_at"]), ("call_revocations", ["issued_until", "ends_at"])]
        {
            let moved =
                columns.map(|column| format!("{column} = {column} - interval '{days} days'")).join(", ");
            let sql = format!(
                "ALTER TABLE {table} DISABLE TRIGGER USER; UPDATE {table} SET {moved}; ALTER TABLE {table} ENABLE TRIGGER USER"
            );
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&world.sql).await.unwrap();
        }
    };
    assert_eq!(forget(1).await, 0, "they count");
    age(89).await;
    assert_eq!((forget(90).await, forget(0).await), (0, 0), "not old enough, and 0 days are for ever");
    age(2).await;
    assert_eq!((forget(90).await, forget(90).await), (2, 0));
    for table in ["SELECT count(*) FROM call_tokens", "SELECT count(*) FROM call_revocations"] {
        assert_eq!(world.count(table).await, 0, "{table}");
    }
}
