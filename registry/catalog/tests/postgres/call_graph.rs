//! Which functions call which, by the versions that are live.

use mfaas_catalog::{CallGraphFunction, DirectCallers};
use mfaas_ident::{AliasName, Digest, TenantName, VersionNumber};

use crate::fixture::{World, actor, claim, function, tenant};

fn umbrella() -> TenantName {
    TenantName::parse("umbrella").unwrap()
}

/// Admits a version of a function that calls these.
async fn calling(world: &World, tenant: &TenantName, name: &str, callees: &[&str]) -> VersionNumber {
    let key = format!("{tenant} {name} {callees:?}");
    let deployment = world.upload_of(tenant, name, &key, key.as_bytes()).await;
    let claimed = world.claim("one").await;
    world.builder.finish_built(&claimed.lease, &claim(key.as_bytes())).await.unwrap();
    let version = world.admit(deployment.id, Digest::of(key.as_bytes())).await;
    let signer = world.raw("mfaas_signer").await;
    for (at, callee) in callees.iter().enumerate() {
        let sql =
            "INSERT INTO version_calls (tenant, function, version, name, callee) VALUES ($1, $2, $3, $4, $5)";
        sqlx::query(sql)
            .bind(tenant.as_str())
            .bind(name)
            .bind(i32::try_from(version.get()).unwrap())
            .bind(format!("c{at}"))
            .bind(*callee)
            .execute(&signer)
            .await
            .unwrap();
    }
    version
}

async fn live(world: &World, name: &str, version: VersionNumber) {
    world.server.put_alias(&actor(), &tenant(), &function(name), &AliasName::live(), version).await.unwrap();
}

/// Of each function, its name, its live version (0 for none) and whom it calls.
async fn graph(world: &World, name: &str, functions_max: u32) -> Vec<String> {
    let found = world.server.call_graph(&tenant(), &function(name), functions_max).await.unwrap();
    let told = |found: &CallGraphFunction| {
        let calls: Vec<String> = found.calls.iter().map(ToString::to_string).collect();
        let version = found.live_version.map_or(0, VersionNumber::get);
        format!("{} {version}: {}", found.name, calls.join(" "))
    };
    found.iter().map(told).collect()
}

async fn callers(world: &World, name: &str) -> Vec<String> {
    let found = world.server.direct_callers(&tenant(), &function(name), 100, 100).await.unwrap();
    found.names.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn what_fewer_calls_lead_to_comes_first_and_each_function_once() {
    let world = World::new().await;
    // Two bindings of one function, and one that names its own tenant.
    calling(&world, &tenant(), "top", &["right", "left", "right"]).await;
    calling(&world, &tenant(), "left", &["acme/bottom", "gone"]).await;
    calling(&world, &tenant(), "right", &["bottom", "umbrella/rank"]).await;
    calling(&world, &tenant(), "bottom", &[]).await;
    // Whom another tenant's functions call is that one's to know, also where they are called like ours.
    calling(&world, &umbrella(), "rank", &["theirs"]).await;
    calling(&world, &umbrella(), "bottom", &["theirs"]).await;
    world.upload("gone", "refused", b"refused").await;
    let whole = [
        "top 1: left right",
        "left 1: bottom gone",
        "right 1: bottom umbrella/rank",
        "bottom 1: ",
        "gone 0: ",
        "umbrella/rank 0: ",
    ];
    assert_eq!(graph(&world, "top", 100).await, whole);
    assert_eq!(graph(&world, "bottom", 100).await, ["bottom 1: "]);
    for functions_max in 1..=whole.len() {
        let found = graph(&world, "top", u32::try_from(functions_max).unwrap()).await;
        assert_eq!(found, whole[..functions_max]);
    }
    let found = world.server.call_graph(&tenant(), &function("top"), 100).await.unwrap();
    let deployed: Vec<bool> = found.iter().map(|found| found.is_deployed).collect();
    assert_eq!(deployed, [true, true, true, true, true, false]);
    let never = world.server.call_graph(&tenant(), &function("never"), 100).await.unwrap();
    assert_eq!((never.len(), never[0].is_deployed), (1, false));
}

#[tokio::test]
async fn the_version_that_is_live_counts_and_no_other() {
    let world = World::new().await;
    let old = calling(&world, &tenant(), "top", &["former"]).await;
    let new = calling(&world, &tenant(), "top", &["later"]).await;
    assert_eq!(graph(&world, "top", 100).await, ["top 2: later", "later 0: "]);
    assert_eq!(
        (callers(&world, "former").await, callers(&world, "later").await),
        (vec![], vec!["top".to_owned()])
    );
    let canary = AliasName::parse("canary").unwrap();
    world.server.put_alias(&actor(), &tenant(), &function("top"), &canary, old).await.unwrap();
    assert_eq!(graph(&world, "top", 100).await.len(), 2);
    assert!(callers(&world, "former").await.is_empty());
    live(&world, "top", old).await;
    assert_eq!(graph(&world, "top", 100).await, ["top 1: former", "former 0: "]);
    assert_eq!(callers(&world, "former").await, ["top"]);
    live(&world, "top", new).await;
    world.server.delete_function(&actor(), &tenant(), &function("top")).await.unwrap();
    assert_eq!(graph(&world, "top", 100).await, ["top 0: "]);
    let found = world.server.direct_callers(&tenant(), &function("later"), 100, 100).await.unwrap();
    assert_eq!((found.names.len(), found.looked_at), (0, 0));
}

/// The signer refuses a version that closes a cycle; an alias that goes back to one closes it all the same.
#[tokio::test]
async fn a_cycle_that_an_alias_closed_is_shown_and_ends() {
    let world = World::new().await;
    let calls = calling(&world, &tenant(), "ping", &["pong", "ping"]).await;
    calling(&world, &tenant(), "ping", &[]).await;
    calling(&world, &tenant(), "pong", &["ping"]).await;
    live(&world, "ping", calls).await;
    assert_eq!(graph(&world, "ping", 100).await, ["ping 1: ping pong", "pong 1: ping"]);
    assert_eq!(graph(&world, "pong", 100).await, ["pong 1: ping", "ping 1: ping pong"]);
    assert_eq!(callers(&world, "ping").await, ["ping", "pong"]);
}

#[tokio::test]
async fn callers_are_the_tenants_own_by_name_and_counted() {
    let world = World::new().await;
    calling(&world, &tenant(), "c", &["acme/rank"]).await;
    calling(&world, &tenant(), "a", &["rank", "rank"]).await;
    calling(&world, &tenant(), "b", &["c"]).await;
    calling(&world, &tenant(), "d", &["umbrella/rank"]).await;
    calling(&world, &umbrella(), "e", &["acme/rank"]).await;
    calling(&world, &umbrella(), "b", &["rank"]).await;
    assert_eq!(callers(&world, "rank").await, ["a", "c"]);
    let asked = async |functions_max, callers_max| {
        let found =
            world.server.direct_callers(&tenant(), &function("rank"), functions_max, callers_max).await;
        let DirectCallers { names, looked_at } = found.unwrap();
        (names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), looked_at)
    };
    assert_eq!(asked(100, 100).await, ("a c".to_owned(), 4));
    assert_eq!(asked(100, 1).await, ("a".to_owned(), 4));
    assert_eq!(asked(2, 100).await, ("a".to_owned(), 2));
}
