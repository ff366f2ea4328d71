//! Connections, migrations, and who acts.

use std::io;
use std::time::{Duration, Instant};

use mfaas_ident::sanitise_line;
use mfaas_startup::{DatabaseAddress, DatabaseHost, UnusableDatabase};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{Connection as _, PgConnection, PgPool, PgTransaction};
use tokio::time::timeout;

use crate::CatalogError;
use crate::migrating;
use crate::pool::{Pool, PoolState};

/// How long a caller waits for a free connection.
const ACQUIRE_MAX: Duration = Duration::from_secs(5);
/// No statement of ours takes longer; one that does is stuck behind a lock.
const STATEMENT_MS_MAX: &str = "15000";
/// A program that stops in the middle of a transaction must not hold its locks.
const IDLE_IN_TRANSACTION_MS_MAX: &str = "15000";
/// What every connection of a program asks for.
const LIMITS: [(&str, &str); 2] = [
    ("statement_timeout", STATEMENT_MS_MAX),
    ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_MS_MAX),
];
/// How long one server has to take a connection and to say that it takes writes.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// How often a program that may choose between servers looks which one takes writes.
const FOLLOW_EVERY: Duration = Duration::from_secs(3);
/// Before a program that starts asks again, and how often its log says that it waits.
const START_PAUSE: Duration = Duration::from_secs(1);
const WARN_EVERY: Duration = Duration::from_secs(30);

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

/// The number of the newest migration of this build.
pub fn schema_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// A connection as the owner, without the limits of programs.
pub(crate) async fn connect_as_owner(
    owner_url: &str,
    application: &str,
) -> Result<PgConnection, CatalogError> {
    let mut connection = Servers::of(&owner_url.parse()?, application, false).writable().await?;
    sqlx::raw_sql(migrating::UNLIMITED).execute(&mut connection).await?;
    Ok(connection)
}

/// Brings the schema up to date as the owner, and gives the roles a login where a password is
/// given. Idempotent; several at once wait for each other.
pub async fn migrate(owner_url: &str, passwords: &RolePasswords) -> Result<(), CatalogError> {
    migrate_with(owner_url, &MIGRATIONS, passwords).await
}

/// The same with other migrations than those of this build.
pub async fn migrate_with(
    owner_url: &str,
    migrations: &sqlx::migrate::Migrator,
    passwords: &RolePasswords,
) -> Result<(), CatalogError> {
    let servers = Servers::of(&owner_url.parse()?, "mfaas-migrate", false);
    let mut connection = servers.writable().await?;
    migrating::apply(&mut connection, migrations).await?;
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
    /// Connects with the role of `url`, to the server that takes writes if it names several; at most
    /// `connections_max` connections.
    pub async fn connect(url: &str, connections_max: u32) -> Result<Self, CatalogError> {
        let servers = Servers::of(&url.parse()?, "mfaas", true);
        let primary = servers.primary(0).await?;
        let pool = PgPoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(ACQUIRE_MAX)
            .after_connect(|connection, _| {
                Box::pin(async { confirm(connection, true).await.map_err(unusable) })
            })
            .connect_lazy_with(servers.0[primary].options.clone());
        if servers.0.len() > 1 {
            tokio::spawn(servers.follow(pool.clone(), primary));
        }
        Ok(Self { pool: Pool::new(pool) })
    }

    /// Like [`Self::connect`], for a program that starts: waits for a database that is away or not migrated yet, and
    /// says so in the log.
    pub async fn connect_when_ready(url: &str, connections_max: u32) -> Result<Self, CatalogError> {
        let mut warned: Option<Instant> = None;
        loop {
            let connected = async {
                let catalog = Self::connect(url, connections_max).await?;
                catalog.ready().await?;
                Ok::<_, CatalogError>(catalog)
            };
            let error = match connected.await {
                Err(error) if error.is_worth_waiting_for() => error,
                ended => return ended,
            };
            if warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
                warned = Some(Instant::now());
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "this program waits for its database and asks again every second");
            }
            tokio::time::sleep(START_PAUSE).await;
        }
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

    /// Shows in the metrics of this program how its connections are.
    pub fn show_connections(&self) {
        self.pool.show();
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    pub(crate) async fn begin(&self) -> Result<PgTransaction<'static>, CatalogError> {
        Ok(self.pool.begin().await?)
    }
}

/// Waits until nobody else counts what `whose` has under these locks, until the transaction ends: two would take the same last
/// place.
pub(crate) async fn count_alone(
    connection: &mut sqlx::PgConnection,
    locks: i32,
    whose: &str,
) -> Result<(), CatalogError> {
    sqlx::query("SELECT pg_advisory_xact_lock($1, hashtext($2))")
        .bind(locks)
        .bind(whose)
        .execute(connection)
        .await?;
    Ok(())
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

/// How the one server of an address is connected to that is no registry's.
pub(crate) fn only_server(url: &str, application: &str) -> Result<PgConnectOptions, CatalogError> {
    let servers = Servers::of(&url.parse()?, application, true).0;
    let [server] = &servers[..] else {
        let reason = format!("the address names {} servers, which has to be one", servers.len());
        return Err(CatalogError::Conflict { reason });
    };
    Ok(server.options.clone())
}

/// The servers of an address, in its order.
struct Servers(Vec<Server>);

struct Server {
    host: DatabaseHost,
    options: PgConnectOptions,
    /// Whether connections ask for [`LIMITS`].
    is_limited: bool,
}

impl Servers {
    fn of(address: &DatabaseAddress, application: &str, is_limited: bool) -> Self {
        let server = |host: &DatabaseHost| {
            let mut options = PgConnectOptions::new_without_pgpass()
                .username(&address.user)
                .database(&address.database)
                .application_name(application);
            if is_limited {
                options = options.options(LIMITS);
            }
            options = match host {
                DatabaseHost::Tcp(name, port) => options.host(name).port(*port),
                DatabaseHost::Socket(directory, port) => options.socket(directory).port(*port),
            };
            if let Some(password) = &address.password {
                options = options.password(password);
            }
            let Some(tls) = &address.tls else {
                let options = options.ssl_mode(PgSslMode::Disable);
                return Server { host: host.clone(), options, is_limited };
            };
            options = options.ssl_mode(PgSslMode::VerifyFull);
            if let Some(roots) = &tls.roots {
                options = options.ssl_root_cert(roots);
            }
            if let Some((certificate, key)) = &tls.client {
                options = options.ssl_client_cert(certificate).ssl_client_key(key);
            }
            Server { host: host.clone(), options, is_limited }
        };
        Self(address.hosts.iter().map(server).collect())
    }

    /// The first server that takes writes, from `start` on round; else what is wrong with one that is no standby, if one is.
    async fn primary(&self, start: usize) -> Result<usize, CatalogError> {
        let mut wrong = CatalogError::Unusable(UnusableDatabase::Standby);
        for number in (0..self.0.len()).map(|step| (start + step) % self.0.len()) {
            match self.0[number].confirm().await {
                Ok(()) => return Ok(number),
                Err(CatalogError::Unusable(UnusableDatabase::Standby)) => {}
                Err(error) => wrong = error,
            }
        }
        Err(wrong)
    }

    async fn writable(&self) -> Result<PgConnection, CatalogError> {
        let primary = self.primary(0).await?;
        self.0[primary].connect().await
    }

    /// New connections go to the server that takes writes, until the pool is closed.
    async fn follow(self, pool: PgPool, mut current: usize) {
        while !pool.is_closed() {
            tokio::time::sleep(FOLLOW_EVERY).await;
            match self.primary(current).await {
                Ok(primary) if primary != current => {
                    current = primary;
                    pool.set_connect_options(self.0[current].options.clone());
                    tracing::warn!(host = %self.0[current].host, "another server of the database takes writes now");
                }
                // What needs a connection says that there is none.
                Ok(_) | Err(_) => {}
            }
        }
    }
}

impl Server {
    async fn connect(&self) -> Result<PgConnection, CatalogError> {
        let connected = PgConnection::connect_with(&self.options).await;
        connected.map_err(|error| match UnusableDatabase::of_refusal(&error.to_string()) {
            Some(unusable) => unusable.into(),
            None => error.into(),
        })
    }

    /// Whether it is the one that programs need. A machine that is gone may take the connection and never answer.
    async fn confirm(&self) -> Result<(), CatalogError> {
        let confirmed = async {
            let mut connection = self.connect().await?;
            confirm(&mut connection, self.is_limited).await?;
            // It did what it was for.
            let _ = connection.close().await;
            Ok(())
        };
        timeout(ANSWER_MAX, confirmed).await.unwrap_or_else(|_| {
            let reason = format!("{} does not answer", self.host);
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, reason)).into())
        })
    }
}

/// Whether what is at the other end takes writes and gave this connection the limits that it asked for, if it did.
async fn confirm(connection: &mut PgConnection, is_limited: bool) -> Result<(), CatalogError> {
    let (is_standby, limit): (bool, String) =
        sqlx::query_as(UnusableDatabase::QUESTION).fetch_one(connection).await?;
    let asked = if is_limited { STATEMENT_MS_MAX } else { &*limit };
    Ok(UnusableDatabase::unless(is_standby, &limit, asked)?)
}

/// An error of ours where sqlx wants one of its own.
fn unusable(error: CatalogError) -> sqlx::Error {
    match error {
        CatalogError::Unavailable(error) | CatalogError::Database(error) => error,
        error => sqlx::Error::Configuration(Box::new(error)),
    }
}
