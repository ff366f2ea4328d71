//! Migrators: without the limits of the role, one at a time, and with indexes that are made while others write.

use std::path::Path;

use mfaas_catalog::{CatalogError, RolePasswords, migrate_with};
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, PgPool};
use tempfile::TempDir;

use mfaas_test_postgres::{Cluster, OWNER};

const TABLE: &str = "CREATE TABLE many AS SELECT i % 100000 AS i FROM generate_series(1, 200000) i";

fn written(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, sql) in files {
        std::fs::write(dir.path().join(name), sql).unwrap();
    }
    dir
}

async fn apply(url: &str, dir: &Path) -> Result<(), CatalogError> {
    migrate_with(url, &Migrator::new(dir).await.unwrap(), &RolePasswords::default()).await
}

#[tokio::test]
async fn the_limits_of_the_database_do_not_hold_for_a_migrator() {
    let cluster = Cluster::get();
    let database = cluster.create_database();
    // Also the statement that lifts the limit is under it, on a machine that may be busy.
    let limited = format!("ALTER DATABASE {database} SET statement_timeout = '500ms'");
    let owner = PgPool::connect(&cluster.url(&database, OWNER)).await.unwrap();
    sqlx::query(AssertSqlSafe(limited)).execute(&owner).await.unwrap();
    let dir = written(&[("0001_sleep.sql", "SELECT pg_sleep(1)")]);
    apply(&cluster.url(&database, OWNER), dir.path()).await.unwrap();
}

/// Each waits for the one before it, which waits for every statement that is under way.
#[tokio::test]
async fn migrators_that_begin_together_all_succeed_also_with_a_concurrent_index() {
    let cluster = Cluster::get();
    let url = cluster.url(&cluster.create_database(), OWNER);
    let index = "-- no-transaction\nCREATE INDEX CONCURRENTLY many_i ON many (i);\n";
    let dir = written(&[("0001_table.sql", TABLE), ("0002_index.sql", index)]);
    let (one, two, three) =
        tokio::join!(apply(&url, dir.path()), apply(&url, dir.path()), apply(&url, dir.path()));
    for done in [one, two, three] {
        done.unwrap();
    }
    let pool = PgPool::connect(&url).await.unwrap();
    let valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'many_i'::regclass";
    assert!(sqlx::query_scalar::<_, bool>(valid).fetch_one(&pool).await.unwrap());
}

#[tokio::test]
async fn an_index_that_could_not_be_made_is_made_at_the_next_try() {
    let cluster = Cluster::get();
    let url = cluster.url(&cluster.create_database(), OWNER);
    let index = "-- no-transaction\nCREATE UNIQUE INDEX CONCURRENTLY many_i ON many (i);\n";
    let dir = written(&[("0001_table.sql", TABLE), ("0002_index.sql", index)]);
    let failed = apply(&url, dir.path()).await.unwrap_err();
    assert!(matches!(failed, CatalogError::Schema { .. }), "{failed}");
    let pool = PgPool::connect(&url).await.unwrap();
    let valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'many_i'::regclass";
    assert!(!sqlx::query_scalar::<_, bool>(valid).fetch_one(&pool).await.unwrap(), "nothing is left of it");
    // An index of the operator's that is broken, too, is not ours to drop.
    sqlx::raw_sql("CREATE INDEX theirs ON many (i)").execute(&pool).await.unwrap();
    let broken = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'theirs'::regclass";
    sqlx::query(broken).execute(&pool).await.unwrap();
    sqlx::query("DELETE FROM many a USING many b WHERE a.i = b.i AND a.ctid < b.ctid")
        .execute(&pool)
        .await
        .unwrap();
    apply(&url, dir.path()).await.unwrap();
    assert!(sqlx::query_scalar::<_, bool>(valid).fetch_one(&pool).await.unwrap());
    assert_eq!(
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_class WHERE relname = 'theirs'")
            .fetch_one(&pool)
            .await
            .unwrap(),
        1
    );
}
