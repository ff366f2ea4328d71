//! The oldest rows of the audit log go into a file, and the rest of the chain holds.

use std::path::Path;
use std::process::{Command, Output};

use mfaas_attest::{AuditArchive, AuditHead};
use mfaas_catalog::{Catalog, ChainError};
use mfaas_wire::AuditLink;

use crate::support::Database;

fn archive(db: &Database, before: &str, into: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mfaas-server"))
        .args(["audit", "archive", "--before", before, "--json", "--into"])
        .arg(into)
        .env("MFAAS_DATABASE_URL", db.url("postgres"))
        .output()
        .unwrap()
}

fn ok(output: Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A log of so many rows, one a day, which ended ten days ago; and as many of today.
fn aged(db: &Database, rows: u32) {
    db.sql(&format!(
        "DELETE FROM audit_log;
         INSERT INTO audit_log SELECT n, date_trunc('day', now()) - make_interval(days => 10 + {rows} - n),
             'mfaas_server', 'alice', 'test', '', 'it', '{{}}', '' FROM generate_series(1, {rows}) n;
         DO $$ DECLARE r audit_log%ROWTYPE; link text := repeat('0', 64); BEGIN
             FOR r IN SELECT * FROM audit_log ORDER BY seq LOOP
                 link := audit_hash(link, r.seq, r.at, r.role, r.actor, r.action, r.tenant, r.subject, r.detail);
                 UPDATE audit_log SET hash = link WHERE seq = r.seq;
             END LOOP;
             UPDATE audit_head SET seq = {rows}, hash = link;
         END $$"
    ));
    db.sql("SELECT append_audit('alice', 'test', '', 'today', '{}') FROM generate_series(1, 3)");
}

fn day(ago: i64) -> String {
    (chrono::Utc::now() - chrono::TimeDelta::days(ago)).format("%Y-%m-%d").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_leave_the_log_for_a_file_and_the_chain_holds() {
    let db = tokio::task::spawn_blocking(Database::new).await.unwrap();
    aged(&db, 20);
    let owner = Catalog::connect(&db.url("postgres"), 2).await.unwrap();
    let before = owner.verify_audit(AuditHead::START).await.unwrap().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let archived = ok(archive(&db, &day(18), &one));
    assert_eq!((&archived["first_row"], &archived["last_row"]), (&1.into(), &11.into()));
    let text = std::fs::read_to_string(&one).unwrap();
    let head: AuditArchive = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((head.start, head.end.row), (AuditHead::START, 11));
    let links: Vec<AuditLink> =
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(links.iter().map(|link| link.row).collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
    assert_eq!(links[10].hash, head.end.hash);

    assert_eq!(db.sql("SELECT min(seq) FROM audit_log"), "11", "the last one stays, for its hash");
    let after = owner.verify_audit(AuditHead::START).await.unwrap().unwrap();
    assert_eq!(after.row, before.row + 1, "and a record of it");
    owner.verify_audit(before).await.unwrap().unwrap();

    let again = archive(&db, &day(10), &one);
    assert!(String::from_utf8_lossy(&again.stderr).contains("never overwritten"), "{again:?}");
    assert_eq!(db.sql("SELECT min(seq) FROM audit_log"), "11");
    let archived = ok(archive(&db, &day(10), &two));
    assert_eq!((&archived["first_row"], &archived["last_row"]), (&12.into(), &19.into()));
    owner.verify_audit(AuditHead::START).await.unwrap().unwrap();
    assert!(ok(archive(&db, &day(10), &dir.path().join("three"))).is_null(), "nothing is left to archive");

    // Rows that go without a record were removed.
    db.sql("DELETE FROM audit_log WHERE seq <= 20");
    let gap = ChainError::Gap { expected: 1, found: 21 };
    assert_eq!(owner.verify_audit(AuditHead::START).await.unwrap(), Err(gap));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_archived_stays_as_it_is() {
    let db = tokio::task::spawn_blocking(Database::new).await.unwrap();
    aged(&db, 5);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("archive");
    let early = archive(&db, &day(0), &file);
    assert!(String::from_utf8_lossy(&early.stderr).contains("24 hours"), "{early:?}");
    let nowhere = archive(&db, &day(5), &dir.path().join("missing/archive"));
    assert!(!nowhere.status.success());
    db.sql("UPDATE audit_log SET actor = 'nobody' WHERE seq = 3");
    let broken = archive(&db, &day(5), &file);
    assert!(String::from_utf8_lossy(&broken.stderr).contains("does not match its hash"), "{broken:?}");
    assert!(!file.exists(), "a broken chain makes no archive");
    assert_eq!(db.sql("SELECT count(*) FROM audit_log"), "8");
    // A program may write no such thing as the removal of rows.
    let denied = db.sql("SELECT has_table_privilege('mfaas_server', 'audit_log', 'DELETE')");
    assert_eq!(denied, "f");
}
