//! A private PostgreSQL cluster for one test program, with one database a test.
//!
//! The servers' parent is a shell that reads from a pipe of ours: when this program ends, however
//! it ends, the pipe closes, the cluster stops and its directory goes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The superuser of the cluster; plays the owner of the schema.
pub(crate) const OWNER: &str = "owner";
const START_MAX: Duration = Duration::from_secs(60);

const SCRIPT: &str = r#"
set -e
cd "$1"
"$2/initdb" -D data -A trust -U owner --no-sync --no-locale -E UTF8 >initdb.log 2>&1
"$2/postgres" -D data -k "$1" -c listen_addresses= -c fsync=off -c max_connections=300 >server.log 2>&1 &
server=$!
read -r _ || true
kill -INT $server
wait $server || true
rm -rf "$1"
"#;

/// A running cluster.
pub(crate) struct Cluster {
    sockets: PathBuf,
    databases: AtomicU32,
    // Held open: closing it stops the cluster.
    _watcher: Child,
}

impl Cluster {
    /// The cluster of this test program, started on first use.
    pub(crate) fn get() -> &'static Self {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(Self::start)
    }

    /// One of its own, for tests that change what belongs to all databases.
    pub(crate) fn start() -> Self {
        let sockets = tempfile::Builder::new().prefix("mfaas-pg-").tempdir().unwrap().keep();
        let mut command = if is_root() {
            let chown = Command::new("chown").arg("postgres").arg(&sockets).status().unwrap();
            assert!(chown.success(), "no user `postgres` to run a cluster as");
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
            command
        } else {
            Command::new("sh")
        };
        let watcher = command
            .args(["-c", SCRIPT, "cluster"])
            .args([&sockets, &binaries()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let cluster = Self { sockets, databases: AtomicU32::new(0), _watcher: watcher };
        cluster.wait();
        cluster
    }

    fn wait(&self) {
        let start = Instant::now();
        while !self.psql("postgres", "SELECT 1") {
            assert!(start.elapsed() < START_MAX, "no cluster: see {}", self.sockets.display());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A new empty database; returns its name.
    pub(crate) fn create_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        assert!(self.psql("postgres", &format!("CREATE DATABASE {name}")), "no database {name}");
        name
    }

    /// The address of `database` for `user`.
    pub(crate) fn url(&self, database: &str, user: &str) -> String {
        format!("postgres:///{database}?host={}&user={user}", self.sockets.display())
    }

    /// Whether the owner can carry out a statement.
    pub(crate) fn psql(&self, database: &str, statement: &str) -> bool {
        Command::new(binaries().join("psql"))
            .args(["-q", "-U", OWNER, "-d", database, "-c", statement, "-h"])
            .arg(&self.sockets)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

fn is_root() -> bool {
    // The owner of our own process entry, so that no crate is needed for one number.
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// The newest installed binaries.
fn binaries() -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir(Path::new("/usr/lib/postgresql"))
        .expect("PostgreSQL is not installed")
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    found.sort();
    found.pop().expect("PostgreSQL is not installed")
}
