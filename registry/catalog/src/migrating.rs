//! Bringing the schema up to date: one migrator at a time, without the limits of programs.
//!
//! A migration runs in a transaction, or outside of one when its first line says `-- no-transaction`: an index on a large table
//! is made `CONCURRENTLY`, so that nobody waits for it. Must never wait for another migrator within a statement: an index that
//! is made concurrently waits for every statement that began before it ends, and so the two would wait for each other.

use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::CatalogError;

/// The lock of the database that says who migrates; any number that nobody else takes.
const MIGRATING_LOCK: i64 = 0x6D66_6161_735F_6D69;
/// Also where the role or the database has them set: an index over a million rows takes its time.
pub(crate) const UNLIMITED: &str =
    "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";
/// How often a migrator looks whether the one before it is done.
const LOCK_LOOK: Duration = Duration::from_millis(200);

/// Applies what is not applied yet, as the owner; waits for another migrator as long as that takes.
pub(crate) async fn apply(connection: &mut PgConnection, migrations: &Migrator) -> Result<(), CatalogError> {
    sqlx::raw_sql(UNLIMITED).execute(&mut *connection).await?;
    while !sqlx::query_scalar("SELECT pg_try_advisory_lock($1)")
        .bind(MIGRATING_LOCK)
        .fetch_one(&mut *connection)
        .await?
    {
        tokio::time::sleep(LOCK_LOOK).await;
    }
    drop_broken_indexes(connection, migrations).await?;
    // The library waits for its own lock within a statement.
    let mut unlocked = Migrator::with_migrations(migrations.iter().cloned().collect());
    unlocked.set_locking(false);
    let applied = unlocked.run(&mut *connection).await;
    applied.map_err(|error| CatalogError::Schema { reason: error.to_string() })?;
    sqlx::query("SELECT pg_advisory_unlock($1)").bind(MIGRATING_LOCK).execute(&mut *connection).await?;
    Ok(())
}

/// An index that could not be made as a whole stays, is of no use, and is in the way of the next try.
async fn drop_broken_indexes(
    connection: &mut PgConnection,
    migrations: &Migrator,
) -> Result<(), CatalogError> {
    let broken: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE NOT i.indisvalid AND c.relnamespace = 'public'::regnamespace",
    )
    .fetch_all(&mut *connection)
    .await?;
    let outside = || migrations.iter().filter(|migration| migration.no_tx);
    for name in broken {
        // Somebody else's are not ours to drop; a name of ours needs no quotes.
        let is_ours =
            outside().any(|migration| migration.sql.as_str().split_whitespace().any(|word| word == name));
        if is_ours {
            let drop = format!("DROP INDEX CONCURRENTLY IF EXISTS {name}");
            sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut *connection).await?;
        }
    }
    Ok(())
}
