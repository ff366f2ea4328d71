//! Versions, aliases, rollback, deletion, logs, artifacts.

use chrono::Utc;
use mfaas_catalog::CatalogError;
use mfaas_delivery::{LogBatch, LogLevel, LogLine, NODE_PROTOCOL};
use mfaas_ident::{Access, AliasName, Class, Digest, Isolation, NodeName, TenantName, VersionNumber};

use crate::fixture::{World, actor, function, tenant};
use mfaas_test_postgres::OWNER;

const TWO: u32 = 2;

fn number(n: u32) -> VersionNumber {
    VersionNumber::new(n).unwrap()
}

#[tokio::test]
async fn rollback_moves_the_alias_and_bumps_the_generation() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    assert_eq!(world.admitted("hello", "two").await, number(TWO));
    let (tenant, name) = (tenant(), function("hello"));
    assert_eq!(world.server.function(&tenant, &name).await.unwrap().live_version, Some(number(2)));
    let before = world.count("SELECT generation FROM desired_generation").await;
    let moved =
        world.server.put_alias(&actor(), &tenant, &name, &AliasName::live(), number(1)).await.unwrap();
    assert_eq!(moved.version, number(1));
    assert_eq!(world.count("SELECT generation FROM desired_generation").await, before + 1);
    assert_eq!(world.server.function(&tenant, &name).await.unwrap().live_version, Some(number(1)));
    let canary = AliasName::parse("canary").unwrap();
    world.server.put_alias(&actor(), &tenant, &name, &canary, number(2)).await.unwrap();
    let aliases = world.server.aliases(&tenant, &name).await.unwrap();
    assert_eq!(aliases.iter().map(|a| a.alias.as_str()).collect::<Vec<_>>(), ["canary", "live"]);
}

#[tokio::test]
async fn an_alias_cannot_name_what_is_not_there_or_revoked() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    world.admitted("hello", "two").await;
    let (tenant, name, live) = (tenant(), function("hello"), AliasName::live());
    let missing = world.server.put_alias(&actor(), &tenant, &name, &live, number(9)).await;
    assert!(matches!(missing, Err(CatalogError::NotFound { what: "version" })));
    world.server.revoke_artifact(&actor(), &Digest::of(b"one"), "test").await.unwrap();
    world.server.revoke_artifact(&actor(), &Digest::of(b"one"), "again").await.unwrap();
    let revoked = world.server.put_alias(&actor(), &tenant, &name, &live, number(1)).await;
    assert!(matches!(revoked, Err(CatalogError::Conflict { .. })));
    assert!(!world.server.is_servable(&Digest::of(b"one")).await.unwrap());
    assert!(world.server.is_servable(&Digest::of(b"two")).await.unwrap());
    let versions = world.server.versions(&tenant, &name, None, 10).await.unwrap();
    assert_eq!(
        versions.iter().map(|v| (v.version.get(), v.revoked)).collect::<Vec<_>>(),
        [(2, false), (1, true)]
    );
    assert_eq!(world.server.versions(&tenant, &name, Some(number(2)), 10).await.unwrap().len(), 1);
}

/// What ends a version while an alias is on its way to it was there first.
#[tokio::test]
async fn an_alias_cannot_name_what_ended_while_it_waited() {
    let revoked = "INSERT INTO revocations (artifact, reason, revoked_by)
                   SELECT artifact, 'test', 'test' FROM versions WHERE version = 1";
    let retired = "UPDATE versions SET retired_at = now() WHERE version = 1";
    for (ending, is_conflict) in [(revoked, true), (retired, false)] {
        let world = World::new().await;
        world.admitted("hello", "one").await;
        world.admitted("hello", "two").await;
        let owner = world.raw(OWNER).await;
        let mut other = owner.begin().await.unwrap();
        sqlx::query("SELECT 1 FROM functions FOR UPDATE").execute(&mut *other).await.unwrap();
        let (actor, tenant, name, live) = (actor(), tenant(), function("hello"), AliasName::live());
        let moving = world.server.put_alias(&actor, &tenant, &name, &live, number(1));
        let ending = async {
            let waiting = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity
                           WHERE wait_event_type = 'Lock' AND datname = current_database())";
            while !sqlx::query_scalar::<_, bool>(waiting).fetch_one(&owner).await.unwrap() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            sqlx::query(ending).execute(&mut *other).await.unwrap();
            other.commit().await.unwrap();
        };
        let (moved, ()) = tokio::join!(moving, ending);
        match moved {
            Err(CatalogError::Conflict { .. }) => assert!(is_conflict),
            Err(CatalogError::NotFound { what: "version" }) => assert!(!is_conflict),
            other => panic!("{other:?}"),
        }
        assert_eq!(world.server.function(&tenant, &name).await.unwrap().live_version, Some(number(TWO)));
    }
}

#[tokio::test]
async fn a_function_has_at_most_so_many_aliases_and_those_it_has_can_be_moved() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    let (tenant, name) = (tenant(), function("hello"));
    let put = async |alias: &str| {
        let alias = AliasName::parse(alias).unwrap();
        world.server.put_alias(&actor(), &tenant, &name, &alias, number(1)).await
    };
    // `live` is one of them.
    for number in 1..mfaas_attest::ALIASES_MAX {
        put(&format!("a{number}")).await.unwrap();
    }
    let refused = put("one-more").await;
    assert!(
        matches!(&refused, Err(CatalogError::Conflict { reason }) if reason.contains("at most 50")),
        "{refused:?}"
    );
    put("a1").await.unwrap();
}

/// The rows of this test are made as a signer of the release before makes them.
#[tokio::test]
async fn what_a_version_declares_is_shown_and_without_a_word_it_declares_nothing() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    let (tenant, name) = (tenant(), function("hello"));
    let version = world.server.version(&tenant, &name, number(1)).await.unwrap();
    assert_eq!((version.idempotent, version.isolation), (false, Isolation::Shared));
    assert_eq!(version.access, Access::Tenant);
    let change = "UPDATE versions SET idempotent = true, isolation = 'process'";
    sqlx::query(change).execute(&world.sql).await.unwrap();
    let versions = world.server.versions(&tenant, &name, None, 10).await.unwrap();
    assert_eq!((versions[0].idempotent, versions[0].isolation), (true, Isolation::Process));
    let unknown = "UPDATE versions SET isolation = 'thread'";
    let refused = sqlx::query(unknown).execute(&world.sql).await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().constraint(), Some("versions_isolation_known"));
    assert_eq!((version.class, versions[0].class), (Class::Micro, Class::Micro));
    assert_eq!(world.server.function(&tenant, &name).await.unwrap().class, Some(Class::Micro));
    sqlx::query("UPDATE versions SET class = 'bulk'").execute(&world.sql).await.unwrap();
    assert_eq!(world.server.version(&tenant, &name, number(1)).await.unwrap().class, Class::Bulk);
    assert_eq!(world.server.functions(&tenant, None, 10).await.unwrap()[0].class, Some(Class::Bulk));
    let unknown = "UPDATE versions SET class = 'batch'";
    let refused = sqlx::query(unknown).execute(&world.sql).await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().constraint(), Some("versions_class_known"));
    let unknown = "UPDATE versions SET access = 'everybody'";
    let refused = sqlx::query(unknown).execute(&world.sql).await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().constraint(), Some("versions_access_known"));
    let by_server = sqlx::query(change).execute(&world.raw("mfaas_server").await).await.unwrap_err();
    assert_eq!(
        by_server.as_database_error().unwrap().code().unwrap(),
        "42501",
        "the server cannot change it"
    );
}

#[tokio::test]
async fn a_deleted_function_is_gone_and_its_numbers_are_not_reused() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    let (tenant, name) = (tenant(), function("hello"));
    world.server.delete_function(&actor(), &tenant, &name).await.unwrap();
    assert!(world.server.functions(&tenant, None, 10).await.unwrap().is_empty());
    assert!(matches!(
        world.server.version(&tenant, &name, number(1)).await,
        Err(CatalogError::NotFound { .. })
    ));
    let again = world.server.delete_function(&actor(), &tenant, &name).await;
    assert!(matches!(again, Err(CatalogError::NotFound { what: "function" })));
    assert_eq!(world.admitted("hello", "two").await, number(2));
    let versions = world.server.versions(&tenant, &name, None, 10).await.unwrap();
    assert_eq!(versions.len(), 1, "the old version stays retired");
    assert_eq!(world.server.functions(&tenant, None, 10).await.unwrap()[0].last_version, number(2));
}

#[tokio::test]
async fn artifacts_belong_to_tenants() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    let (artifact, stranger) = (Digest::of(b"one"), TenantName::parse("stranger").unwrap());
    assert!(world.server.owns_artifact(&tenant(), &artifact).await.unwrap());
    assert!(!world.server.owns_artifact(&stranger, &artifact).await.unwrap());
    let statement = world.server.statement_of(&tenant(), &artifact, None).await.unwrap();
    let named = world.server.statement_of(&tenant(), &artifact, Some(&statement.digest)).await.unwrap();
    assert_eq!(named.digest, statement.digest);
    assert!(world.server.statement_of(&tenant(), &artifact, Some(&artifact)).await.is_err());
    assert_eq!((statement.artifact, statement.envelope.as_str()), (artifact, "unsigned"));
    assert_eq!(world.server.statement(&statement.digest).await.unwrap(), Some(statement));
    let strange = world.server.statement_of(&stranger, &artifact, None).await;
    assert!(matches!(strange, Err(CatalogError::NotFound { what: "artifact" })));
    assert_eq!(world.server.statement(&artifact).await.unwrap(), None);
}

#[tokio::test]
async fn logs_are_stored_once_bounded_and_only_about_what_exists() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    let node = NodeName::parse("node-a").unwrap();
    let boot = uuid::Uuid::new_v4();
    let line = |function_name: &str, text: String| LogLine {
        at: Utc::now(),
        tenant: tenant(),
        function: function(function_name),
        version: number(1),
        level: LogLevel::Info,
        text,
    };
    let mut lines = vec![line("invented", "no".to_owned())];
    lines.extend((1..600).map(|n| line("hello", format!("line {n}\0"))));
    let batch = LogBatch { protocol: NODE_PROTOCOL, boot, first: 0, dropped: 0, lines };
    batch.check().unwrap();
    world.server.append_logs(&node, &batch).await.unwrap();
    world.server.append_logs(&node, &batch).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM function_logs").await, 599);
    let later = LogBatch { first: 600, ..batch };
    world.server.append_logs(&node, &later).await.unwrap();
    assert_eq!(
        world.count("SELECT count(*) FROM function_logs").await,
        mfaas_catalog::FUNCTION_LOG_LINES_MAX
    );
    let newest = world.server.logs_after(&tenant(), &function("hello"), 0, 2).await.unwrap();
    assert_eq!(
        newest.iter().map(|l| l.text.as_str()).collect::<Vec<_>>(),
        ["line 598\\u{0}", "line 599\\u{0}"]
    );
    let behind = world.server.logs_after(&tenant(), &function("hello"), newest[0].id, 10).await.unwrap();
    assert_eq!(behind, [newest[1].clone()]);
}

/// Two nodes store lines of one function at a time, and the one that came first is slower.
#[tokio::test]
async fn a_follower_of_a_log_misses_no_line_of_a_slower_node() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    let batch = |boot: u8, texts: Vec<String>| LogBatch {
        protocol: NODE_PROTOCOL,
        boot: uuid::Uuid::from_bytes([boot; 16]),
        first: 0,
        dropped: 0,
        lines: texts
            .into_iter()
            .map(|text| LogLine {
                at: Utc::now(),
                tenant: tenant(),
                function: function("hello"),
                version: number(1),
                level: LogLevel::Info,
                text,
            })
            .collect(),
    };
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let (slow, quick) = (NodeName::parse("slow").unwrap(), NodeName::parse("quick").unwrap());
    let full = mfaas_catalog::FUNCTION_LOG_LINES_MAX - 1;
    for part in 0..3 {
        let texts = (0..full / 3).map(|n| format!("{part} {n}")).collect();
        world.server.append_logs(&slow, &batch(part, texts)).await.unwrap();
    }
    // The slow node's second line takes the place of the oldest, which somebody else holds.
    let mut holder = world.sql.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM function_logs ORDER BY id LIMIT 1 FOR UPDATE")
        .execute(&mut *holder)
        .await
        .unwrap();
    let server = world.server.clone();
    let two = batch(8, vec!["slow 1".to_owned(), "slow 2".to_owned()]);
    let slow_write = tokio::spawn(async move { server.append_logs(&slow, &two).await });
    while world.count(waiting).await == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let server = world.server.clone();
    let one = batch(9, vec!["quick".to_owned()]);
    let quick_write = tokio::spawn(async move { server.append_logs(&quick, &one).await });
    // Either it waits for the slow one, or it is through.
    while world.count(waiting).await < 2 && !quick_write.is_finished() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let newest = world.server.logs_after(&tenant(), &function("hello"), 0, 1).await.unwrap();
    holder.rollback().await.unwrap();
    slow_write.await.unwrap().unwrap();
    quick_write.await.unwrap().unwrap();
    let behind = world.server.logs_after(&tenant(), &function("hello"), newest[0].id, 10).await.unwrap();
    let mut texts: Vec<&str> = newest.iter().chain(&behind).map(|l| l.text.as_str()).collect();
    texts.retain(|text| text.starts_with("slow") || *text == "quick");
    assert_eq!(texts, ["slow 1", "slow 2", "quick"]);
}
