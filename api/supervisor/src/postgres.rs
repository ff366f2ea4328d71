//! The private database: a PostgreSQL cluster of our own from the installed programs, on a unix
//! socket below the home, without TCP.
//!
//! It never touches a cluster that is not ours, and no password appears in an argument.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mfaas_startup::DatabaseAddress;

use crate::config::{
    ACQUIRER_ROLE, BUILDER_ROLE, DATA_ROLE, EVENTS_ROLE, OWNER_ROLE, SERVER_ROLE, SIGNER_ROLE, UpConfig,
};
use crate::error::SupervisorError;
use crate::files::{self, write_atomically};
use crate::identity::{Identities, Role};
use crate::launch::Launch;
use crate::layout::Home;
use crate::state::wait_until;

/// How long a start may take; crash recovery of a small cluster is seconds.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a recovery from an archive of the write-ahead log may take; another start goes on with it.
const RECOVERY_LIMIT: Duration = Duration::from_secs(3_600);

/// Settings of a cluster for one machine: durable, small, local. Each as `name=value`.
const SETTINGS: &[&str] = &[
    "listen_addresses=",
    "unix_socket_permissions=0777",
    "fsync=on",
    "shared_buffers=64MB",
    "max_connections=200",
    "jit=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=256MB",
    "max_parallel_workers=0",
    // A statement that sets a password must not reach the log when it fails.
    "log_min_error_statement=panic",
    "logging_collector=off",
    "timezone=UTC",
    "log_timezone=UTC",
];

/// Of those, what the database of functions' data may have: more than a broker and a server use, and less than all, so that a database
/// that is stuck with what functions asked of it has room for the site.
const DATA_CONNECTIONS_MAX: u32 = 120;

/// The directory with `initdb`, `postgres` and `psql`: the newest Debian one, or that of PATH.
pub fn find_postgres() -> Result<PathBuf, SupervisorError> {
    let complete = |dir: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| dir.join(name).is_file());
    let mut debian: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))
        })
        .collect();
    debian.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    debian
        .into_iter()
        .rev()
        .map(|(_, dir)| dir)
        .chain(std::env::split_paths(&path))
        .find(complete)
        .ok_or_else(|| {
            SupervisorError::Local("PostgreSQL is not installed (apt-get install postgresql)".to_owned())
        })
}

/// The private cluster of a home.
#[derive(Debug)]
pub(crate) struct Cluster<'a> {
    home: &'a Home,
    identities: &'a Identities,
    programs: PathBuf,
}

impl<'a> Cluster<'a> {
    /// The cluster of `home`; nothing is touched yet.
    pub(crate) fn of(home: &'a Home, identities: &'a Identities) -> Result<Self, SupervisorError> {
        Ok(Self { home, identities, programs: find_postgres()? })
    }

    fn data(&self) -> PathBuf {
        self.home.join("postgres")
    }

    /// Makes the cluster on the first run: password logins only, checksums on.
    pub(crate) fn initialise(&self, config: &UpConfig) -> Result<(), SupervisorError> {
        if self.data().join("PG_VERSION").exists() {
            return self.check_version();
        }
        let secret = self.home.socket_dir().join("first-password");
        write_atomically(&secret, config.password(OWNER_ROLE)?.as_bytes(), 0o600)?;
        files::give(&secret, self.identities.of(Role::Postgres), 0o600)?;
        let made = Launch::new(Role::Postgres, self.programs.join("initdb"))
            .args([
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--data-checksums",
                "--no-instructions",
            ])
            .arg(format!("--username={OWNER_ROLE}"))
            .arg(format!("--pwfile={}", secret.display()))
            .arg("-D")
            .arg(self.data())
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .run(self.home, self.identities);
        let _ = std::fs::remove_file(&secret);
        made.map(drop)
    }

    /// A cluster of another major version cannot be opened; say so instead of failing to start.
    fn check_version(&self) -> Result<(), SupervisorError> {
        let path = self.data().join("PG_VERSION");
        let made_by = std::fs::read_to_string(&path).map_err(SupervisorError::io("cannot read", &path))?;
        let installed = crate::launch::run_as_self(&self.programs.join("postgres"), ["--version"])?;
        let major = installed.split_ascii_whitespace().nth(2).and_then(|v| v.split('.').next()).unwrap_or("");
        if made_by.trim() == major {
            return Ok(());
        }
        Err(SupervisorError::Local(format!(
            "{} was made by PostgreSQL {}, installed is {installed}; install version {} beside it",
            self.data().display(),
            made_by.trim(),
            made_by.trim()
        )))
    }

    /// The server process.
    pub(crate) fn launch(&self, config: &UpConfig) -> Launch {
        Launch::new(Role::Postgres, self.programs.join("postgres"))
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.home.socket_dir())
            .args(SETTINGS.iter().flat_map(|setting| ["-c", setting]))
            .args(archiving(config).into_iter().flat_map(|setting| ["-c".to_owned(), setting]))
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C.UTF-8")
    }

    /// Waits until it answers; `alive` tells whether the process is still there.
    pub(crate) fn wait_ready(
        &self,
        config: &UpConfig,
        mut alive: impl FnMut() -> bool,
    ) -> Result<(), SupervisorError> {
        let address =
            DatabaseAddress { database: "postgres".to_owned(), ..config.database(self.home, OWNER_ROLE)? };
        let mut last = String::new();
        // PostgreSQL removes the file when it takes writes again.
        let recovers = self.data().join("recovery.signal").exists();
        let limit = if recovers { RECOVERY_LIMIT } else { START_LIMIT };
        let ready = wait_until(limit, || {
            if !alive() {
                return Err(SupervisorError::Local(
                    "PostgreSQL ended at its start; see logs/postgres.log".to_owned(),
                ));
            }
            if !self.home.socket_dir().join(".s.PGSQL.5432").exists() {
                return Ok(false);
            }
            match psql(&self.programs, &address, "SELECT 1") {
                Ok(_) => Ok(true),
                Err(error) => {
                    last = error.to_string();
                    Ok(false)
                }
            }
        })?;
        if ready {
            return Ok(());
        }
        Err(SupervisorError::Local(format!("PostgreSQL does not answer after {} s: {last}", limit.as_secs())))
    }

    /// Makes the database itself.
    pub(crate) fn create_database(&self, config: &UpConfig) -> Result<(), SupervisorError> {
        let address =
            DatabaseAddress { database: "postgres".to_owned(), ..config.database(self.home, OWNER_ROLE)? };
        let known =
            psql(&self.programs, &address, "SELECT count(*) FROM pg_database WHERE datname = 'mfaas'")?;
        if known == "0" {
            psql(&self.programs, &address, "CREATE DATABASE mfaas")?;
        }
        Ok(())
    }
}

/// What keeps the write-ahead log, so that the database can be brought to any moment since a base backup. A later setting of the
/// same name counts. A segment has its name once it is whole and on the disk.
fn archiving(config: &UpConfig) -> Vec<String> {
    let Some(directory) = config.wal_archive.as_ref().filter(|directory| !directory.is_empty()) else {
        return Vec::new();
    };
    vec![
        "wal_level=replica".to_owned(),
        "max_wal_senders=4".to_owned(),
        "archive_mode=on".to_owned(),
        // What was committed is in the archive a minute later, also when little happens.
        "archive_timeout=60".to_owned(),
        format!(
            "archive_command=test ! -f {directory}/%f && cp %p {directory}/%f.partial && sync {directory}/%f.partial \
             && mv {directory}/%f.partial {directory}/%f"
        ),
    ]
}

/// A directory that the archive's command can name without quotes.
pub fn wal_archive_of(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.is_empty() || (text.starts_with('/') && text.chars().all(is_plain)) {
        return Ok(text.to_owned());
    }
    Err("an absolute path of letters, digits, `/`, `.`, `_` and `-` is needed".to_owned())
}

/// Makes the login roles of the programs and gives them their passwords. Idempotent; for a
/// private cluster and an external database alike.
pub(crate) fn create_roles(
    programs: &Path,
    config: &UpConfig,
    owner: &DatabaseAddress,
) -> Result<(), SupervisorError> {
    let roles = [SERVER_ROLE, BUILDER_ROLE, SIGNER_ROLE, ACQUIRER_ROLE];
    roles.into_iter().try_for_each(|role| create_role(programs, config, owner, role))
}

fn create_role(
    programs: &Path,
    config: &UpConfig,
    owner: &DatabaseAddress,
    role: &str,
) -> Result<(), SupervisorError> {
    let password = config.password(role)?;
    // Names are constants and passwords hexadecimal: nothing here needs quoting. A role of before that may
    // more than log in is refused: only a superuser could take that away.
    let sql = format!(
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') \
         THEN CREATE ROLE {role}; END IF; \
         IF (SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = '{role}') \
         THEN RAISE 'the role {role} may be no superuser and create no databases or roles: alter it'; \
         END IF; END $$;\n\
         ALTER ROLE {role} LOGIN PASSWORD '{password}';\n"
    );
    psql(programs, owner, &sql).map(drop)
}

/// Makes the database of functions' data in a private cluster, with the role that owns it and the one that hands out events. No other
/// enters it.
pub(crate) fn create_data_database(
    programs: &Path,
    config: &UpConfig,
    owner: &DatabaseAddress,
) -> Result<(), SupervisorError> {
    create_role(programs, config, owner, DATA_ROLE)?;
    create_role(programs, config, owner, EVENTS_ROLE)?;
    let known = format!("SELECT count(*) FROM pg_database WHERE datname = '{DATA_ROLE}'");
    if psql(programs, owner, &known)? == "0" {
        psql(programs, owner, &format!("CREATE DATABASE {DATA_ROLE} OWNER {DATA_ROLE}"))?;
    }
    psql(programs, owner, &format!("REVOKE ALL ON DATABASE {DATA_ROLE} FROM PUBLIC"))?;
    let limit = format!("ALTER DATABASE {DATA_ROLE} CONNECTION LIMIT {DATA_CONNECTIONS_MAX}");
    psql(programs, owner, &limit)?;
    psql(programs, owner, &format!("GRANT CONNECT ON DATABASE {DATA_ROLE} TO {EVENTS_ROLE}")).map(drop)
}

/// Runs SQL given on standard input. The address holds a password, so it goes through the
/// environment: arguments are visible to everybody.
pub(crate) fn psql(programs: &Path, address: &DatabaseAddress, sql: &str) -> Result<String, SupervisorError> {
    let program = programs.join("psql");
    // libpq reads no URL from the environment; a connection service file on a private pipe would
    // be more machinery than these five variables.
    let mut child = Command::new(&program)
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--file=-"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("PGCONNECT_TIMEOUT", "5")
        .envs(address.libpq_variables())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(SupervisorError::io("cannot start", &program))?;
    if let Some(mut input) = child.stdin.take() {
        // A psql that could not connect closes its input; its own message says more.
        let _ = input.write_all(sql.as_bytes());
    }
    let output = child.wait_with_output().map_err(SupervisorError::io("cannot wait for", &program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(SupervisorError::Local(format!("psql: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

#[cfg(test)]
mod tests;
