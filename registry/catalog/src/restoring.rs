//! What a restore demands of a database, and the statements around the restored ones: one transaction takes away what was
//! there, puts back what was saved, and says so in the audit log.
//!
//! Must never leave a database in which programs find half a registry.

use sqlx::{PgConnection, Row as _};

use crate::CatalogError;
use crate::connection::connect_as_owner;

/// Builders that have claims from after the backup count on higher tokens than the restored database knows of.
const TOKENS_SKIPPED: u32 = 1_000_000;

/// The database that a backup is to come into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreTarget {
    /// There is nothing in its schema.
    pub is_empty: bool,
    /// Connections of others than its owner.
    pub connections: u64,
}

impl RestoreTarget {
    /// Looks as the owner.
    pub async fn look(owner_url: &str) -> Result<Self, CatalogError> {
        let mut connection: PgConnection = connect_as_owner(owner_url, "mfaas-restore").await?;
        let row = sqlx::query(
            "SELECT NOT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                                WHERE n.nspname = 'public') AS is_empty,
                    (SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND usename <> current_user) AS connections",
        )
        .fetch_one(&mut connection)
        .await?;
        let connections: i64 = row.try_get("connections")?;
        Ok(Self { is_empty: row.try_get("is_empty")?, connections: connections.unsigned_abs() })
    }
}

/// SQL for psql: a transaction that begins before the restored statements and ends behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreScript {
    /// Begins; makes roles that are missing, and a schema without anything in it.
    pub before: String,
    /// Says what was done, lets nodes and builders go on from it, and commits. Without it nothing has happened.
    pub behind: String,
}

impl RestoreScript {
    /// `detail` is what the audit log says about it.
    pub fn new(replace: bool, detail: &serde_json::Value) -> Self {
        let emptied = "DROP SCHEMA IF EXISTS public CASCADE;
CREATE SCHEMA public;
ALTER SCHEMA public OWNER TO pg_database_owner;
";
        let before = format!(
            "BEGIN;
SET LOCAL lock_timeout = '10s';
DO $$
DECLARE wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['mfaas_server', 'mfaas_builder', 'mfaas_signer', 'mfaas_acquirer'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        END IF;
    END LOOP;
END $$;
{}",
            if replace { emptied } else { "" }
        );
        let detail = detail.to_string().replace('\'', "''");
        // Sessions of people end. Nodes may have seen later sets: the signer goes on behind what they report, and signs one
        // at its next look.
        let behind = format!(
            "
DO $$ BEGIN
    IF to_regclass('public.sessions') IS NOT NULL THEN
        DELETE FROM public.sessions;
    END IF;
END $$;
SELECT pg_catalog.setval('public.fencing_token', pg_catalog.nextval('public.fencing_token') + {TOKENS_SKIPPED});
SELECT public.bump_desired_generation();
SELECT public.append_audit('mfaas-server:operator', 'site.restored', '', '', '{detail}'::pg_catalog.jsonb);
COMMIT;
"
        );
        Self { before, behind }
    }
}
