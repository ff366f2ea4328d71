//! The schema of functions' data: a schema of its own in whatever database it is put, with migrations of its own.

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use crate::KvError;

/// Beside a site's own tables, or alone.
pub(crate) const NAME: &str = "mfaas_data";

/// Two that make it at the same time would meet.
const MAKE: &str = "BEGIN;
SELECT pg_advisory_xact_lock(7083416);
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'mfaas_data') THEN
        CREATE SCHEMA mfaas_data;
    END IF;
END $$;
COMMIT";

/// Servers hand out events, with a role of their own if the operator has made it: it reads and changes no data of functions.
const GRANT: &str = "BEGIN;
SELECT pg_advisory_xact_lock(7083416);
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'mfaas_events') THEN
        GRANT USAGE ON SCHEMA mfaas_data TO mfaas_events;
        GRANT SELECT, INSERT, DELETE, UPDATE (enabled, next_call_at, delivered, failed, dropped, ended_at, outcome, status, code)
            ON mfaas_data.triggers TO mfaas_events;
        GRANT SELECT, DELETE, UPDATE (tries, due_at) ON mfaas_data.events TO mfaas_events;
        GRANT SELECT (resource) ON mfaas_data.homes TO mfaas_events;
    END IF;
END $$;
COMMIT";

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("./migrations");

/// Makes it, or brings it up to date. Several at once wait for each other.
pub(crate) async fn prepare(options: &PgConnectOptions) -> Result<(), KvError> {
    let mut connection = PgConnection::connect_with(options).await.map_err(KvError::unavailable)?;
    sqlx::raw_sql(MAKE).execute(&mut connection).await.map_err(KvError::unavailable)?;
    MIGRATIONS.run(&mut connection).await.map_err(KvError::Schema)?;
    sqlx::raw_sql(GRANT).execute(&mut connection).await.map_err(KvError::unavailable)?;
    connection.close().await.map_err(KvError::unavailable)
}
