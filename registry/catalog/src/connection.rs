//! Connections, migrations, and who acts.

use std::time::Duration;

use mfaas_ident::sanitise_line;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgTransaction};

use crate::CatalogError;
use crate::pool::{Pool, PoolState};

/// How long a caller waits for a free connection.
const ACQUIRE_MAX: Duration = Duration::from_secs(5);
/// No statement of ours takes longer; one that does is stuck behind a lock.
const STATEMENT_MS_MAX: &str = "15000";
/// A program that stops in the middle of a transaction must not hold its locks.
const IDLE_IN_TRANSACTION_MS_MAX: &str = "15000";

/// How often a transaction is tried that others stand in the way of.
pub(crate) const CONTENTION_TRIES: u32 = 4;
/// Before it is tried again.
pub(crate) const CONTENTION_PAUSE: Duration = Duration::from_millis(20);

/// What the transaction ends with; the same again while the database ends it for another one that stood in its way (40001, 40P01).
macro_rules! retried {
    ($transaction:expr) => {{
        let mut tries = 1;
        loop {
            match $transaction.await {
                Err(error) if error.is_contention() && tries < $crate::connection::CONTENTION_TRIES => {
                    tries += 1;
                    tokio::time::sleep($crate::connection::CONTENTION_PAUSE).await;
                }
                ended => break ended,
            }
        }
    }};
}
pub(crate) use retried;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations");

/// A pool of connections with one role. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Catalog {
    pub(crate) pool: Pool,
}

/// Who is answerable for a change, as the audit log names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(String);

impl Actor {
    /// A program acting by itself, for example `mfaas-builder`, or `seed`.
    pub fn program(name: &str) -> Self {
        Self(sanitise_line(name, 100))
    }

    /// A joined node.
    pub fn node(name: &mfaas_ident::NodeName) -> Self {
        Self(format!("node:{name}"))
    }

    /// Of more than a name of ours.
    pub(crate) fn sanitised(text: &str, bytes_max: usize) -> Self {
        Self(sanitise_line(text, bytes_max))
    }

    /// The text of the audit row.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Passwords for the roles of the programs; a role without one keeps what it has.
#[derive(Default)]
pub struct RolePasswords {
    /// `mfaas_server`.
    pub server: Option<String>,
    /// `mfaas_builder`.
    pub builder: Option<String>,
    /// `mfaas_signer`.
    pub signer: Option<String>,
    /// `mfaas_acquirer`.
    pub acquirer: Option<String>,
}

/// Hand-written so that no password reaches a log.
impl std::fmt::Debug for RolePasswords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RolePasswords(…)")
    }
}

/// Brings the schema up to date as the owner, and gives the roles a login where a password is
/// given. Idempotent.
pub async fn migrate(owner_url: &str, passwords: &RolePasswords) -> Result<(), CatalogError> {
    // Without the limits of the programs: an index over a million rows takes its time.
    let options: PgConnectOptions = owner_url.parse()?;
    let mut connection = PgConnection::connect_with(&options.application_name("mfaas-migrate")).await?;
    MIGRATIONS.run(&mut connection).await.map_err(|e| CatalogError::Schema { reason: e.to_string() })?;
    let roles = [
        ("mfaas_server", &passwords.server),
        ("mfaas_builder", &passwords.builder),
        ("mfaas_signer", &passwords.signer),
        ("mfaas_acquirer", &passwords.acquirer),
    ];
    for (role, password) in roles {
        let Some(password) = password else { continue };
        let mut tx = connection.begin().await?;
        // ALTER ROLE takes no parameters; the values go through settings of this transaction.
        sqlx::query("SELECT set_config('mfaas.role', $1, true), set_config('mfaas.password', $2, true)")
            .bind(role)
            .bind(password)
            .execute(&mut *tx)
            .await?;
        sqlx::query(
            "DO $$ BEGIN EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L',
                 current_setting('mfaas.role'), current_setting('mfaas.password')); END $$",
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
    }
    connection.close().await?;
    Ok(())
}

impl Catalog {
    /// Connects with the role of `url`; at most `connections_max` connections.
    pub async fn connect(url: &str, connections_max: u32) -> Result<Self, CatalogError> {
        let pool = PgPoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(ACQUIRE_MAX)
            .connect_with(options(url)?)
            .await?;
        Ok(Self { pool: Pool::new(pool) })
    }

    /// Reachable, and the schema is the one that this build was made for.
    pub async fn ready(&self) -> Result<(), CatalogError> {
        let applied: Vec<i64> =
            sqlx::query_scalar("SELECT version FROM _sqlx_migrations WHERE success ORDER BY version")
                .fetch_all(&self.pool)
                .await
                .map_err(unreadable_migrations)?;
        let wanted: Vec<i64> = MIGRATIONS.iter().map(|m| m.version).collect();
        if wanted.iter().all(|version| applied.contains(version)) {
            return Ok(());
        }
        Err(CatalogError::Schema {
            reason: format!("migrations {applied:?} are applied, {wanted:?} are needed"),
        })
    }

    /// How this program's connections are.
    pub fn pool_state(&self) -> PoolState {
        self.pool.state()
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    pub(crate) async fn begin(&self) -> Result<PgTransaction<'static>, CatalogError> {
        Ok(self.pool.begin().await?)
    }
}

/// A database that was never migrated, or a role that it does not know: both are told as what
/// they are, since they are the first thing that goes wrong on a new machine.
fn unreadable_migrations(error: sqlx::Error) -> CatalogError {
    match error.as_database_error().and_then(|cause| cause.code()).as_deref() {
        Some("42P01") => CatalogError::Schema { reason: "it was never migrated".to_owned() },
        Some("42501") => CatalogError::Schema { reason: "this role may not read it".to_owned() },
        _ => error.into(),
    }
}

fn options(url: &str) -> Result<PgConnectOptions, CatalogError> {
    let options: PgConnectOptions = url.parse()?;
    Ok(options.application_name("mfaas").options([
        ("statement_timeout", STATEMENT_MS_MAX),
        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_MS_MAX),
    ]))
}
