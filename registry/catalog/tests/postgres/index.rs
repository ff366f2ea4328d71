//! The index in rows: every archive gets one line, and a line is shown as long as its decision stands.

use mfaas_catalog::{CatalogError, IndexEntry, StoredArchive};
use mfaas_ident::{CrateName, Digest};

use crate::fixture::{World, tenant};
use crate::reviews::{acquirer, report, toolchain};

fn archive() -> StoredArchive {
    let report = report();
    StoredArchive { name: report.name, version: report.version, checksum: report.checksum }
}

fn entry(line: Result<serde_json::Value, String>, revision: u32) -> IndexEntry {
    let StoredArchive { name, version, checksum } = archive();
    IndexEntry {
        decided_as: name.clone(),
        name,
        version,
        decided: checksum,
        archive: checksum,
        line,
        revision,
    }
}

#[tokio::test]
async fn an_archive_has_no_line_until_one_of_the_revision_is_stored() {
    let world = World::new().await;
    let mut acquirer = acquirer(&world).await;
    assert_eq!(acquirer.unindexed(1).await.unwrap(), []);
    let other = Digest::of(b"other");
    acquirer.store_report(&Digest::of(b"report"), &report(), &[]).await.unwrap();
    // What a request left behind is an archive like any other; once more changes nothing.
    acquirer.store_archive(&archive(), 7).await.unwrap();
    assert_eq!(acquirer.missing_archives(&[archive().checksum, other]).await.unwrap(), [other]);
    assert_eq!(acquirer.unindexed(1).await.unwrap(), [archive()]);
    acquirer.store_entry(&entry(Err("no manifest".to_owned()), 1)).await.unwrap();
    assert_eq!(acquirer.unindexed(1).await.unwrap(), []);
    assert_eq!(acquirer.unindexed(2).await.unwrap(), [archive()]);
    acquirer.store_entry(&entry(Ok(serde_json::json!({})), 2)).await.unwrap();
    assert_eq!(acquirer.unindexed(2).await.unwrap(), []);
}

#[tokio::test]
async fn a_line_is_shown_while_its_very_bytes_are_allowed() {
    let world = World::new().await;
    let line = serde_json::json!({"name": "left-pad"});
    let mut acquirer = acquirer(&world).await;
    acquirer.store_entry(&entry(Ok(line.clone()), 1)).await.unwrap();
    world.server.ensure_tenant(&crate::fixture::actor(), &tenant()).await.unwrap();
    let lines = async || world.server.index_lines(&tenant(), "left-pad").await.unwrap();
    let found = async || {
        let name = CrateName::parse("left-pad").unwrap();
        world.server.offered_archive(&tenant(), &name, &archive().version).await
    };
    let sql = async |text: &str| {
        sqlx::raw_sql(sqlx::AssertSqlSafe(text.to_owned())).execute(&world.sql).await.unwrap();
    };
    assert!(lines().await.is_empty(), "no toolchain is accepted");
    sql(&format!("INSERT INTO toolchains (id, accepted, decided_by) VALUES ('{}', true, 'x')", toolchain()))
        .await;
    assert!(lines().await.is_empty(), "nobody has decided");
    sql(&format!(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ('left-pad', '1.2.3', '{}', '{{}}', true, 'allowed', 'seed', '')",
        archive().checksum
    ))
    .await;
    assert_eq!(lines().await, [line]);
    assert_eq!(found().await.unwrap().archive, archive().checksum);
    for (change, back) in [
        ("status = 'revoked'", "status = 'allowed'"),
        ("status = 'denied'", "status = 'allowed'"),
        ("scope = 'somebody'", "scope = ''"),
        ("expires_at = now() - interval '1 minute'", "expires_at = NULL"),
        ("toolchain = 'another'", "toolchain = ''"),
        ("checksum = repeat('0', 64)", &format!("checksum = '{}'", archive().checksum)),
    ] {
        sql(&format!("UPDATE crates SET {change}")).await;
        assert!(lines().await.is_empty(), "{change}");
        assert!(matches!(found().await, Err(CatalogError::NotFound { .. })), "{change}");
        sql(&format!("UPDATE crates SET {back}")).await;
        assert_eq!(lines().await.len(), 1, "{back}");
    }
}
