//! A private Postgres cluster in a temporary directory, shared by the tests that run at the same
//! time and gone with the last of them. Each test gets a database of its own.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use mfaas_catalog::RolePasswords;
use tempfile::TempDir;

static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
static DATABASES: AtomicU32 = AtomicU32::new(0);
const TEMPLATE: &str = "mfaas_template";

/// A running postmaster.
pub(crate) struct Cluster {
    dir: TempDir,
    postmaster: Child,
}

/// A migrated database.
#[derive(Clone)]
pub(crate) struct Database {
    cluster: Arc<Cluster>,
    name: String,
}

impl Cluster {
    /// The running cluster, or a new one.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap();
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let started = Arc::new(Self::start());
        *shared = Arc::downgrade(&started);
        started
    }

    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("mfaas-pg-").tempdir().unwrap();
        own(dir.path());
        let data = dir.path().join("data");
        let made = program("initdb")
            .args(["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success(), "initdb failed");
        let postmaster = program("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=300", "-k"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let cluster = Self { dir, postmaster };
        cluster.wait();
        cluster.make_template();
        cluster
    }

    fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        while !self.psql("postgres", "SELECT 1").status.success() {
            assert!(Instant::now() < until, "the cluster did not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn make_template(&self) {
        self.sql("postgres", &format!("CREATE DATABASE {TEMPLATE}"));
        let url = self.url(TEMPLATE, "postgres");
        let passwords = RolePasswords { server: Some("unused".to_owned()), ..RolePasswords::default() };
        // Its own thread: whoever asks first may be inside a runtime already.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(mfaas_catalog::migrate(&url, &passwords)).unwrap();
        })
        .join()
        .unwrap();
    }

    fn psql(&self, database: &str, sql: &str) -> std::process::Output {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-h"])
            .arg(self.dir.path());
        // The kernel takes no longer argument.
        if sql.len() < ARGUMENT_BYTES_MAX {
            return psql.args(["-c", sql]).output().unwrap();
        }
        let file = self.dir.path().join(format!("{database}.sql"));
        std::fs::write(&file, sql).unwrap();
        psql.args(["-1", "-f"]).arg(file).output().unwrap()
    }

    fn sql(&self, database: &str, sql: &str) -> String {
        let output = self.psql(database, sql);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// SQL of any length, which a command line would not take.
    fn script(&self, database: &str, sql: &str) {
        let mut psql = Command::new("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-1", "-U", "postgres", "-d", database, "-h"])
            .arg(self.dir.path())
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        psql.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let output = psql.wait_with_output().unwrap();
        assert!(output.status.success(), "{:.2000}", String::from_utf8_lossy(&output.stderr));
    }

    fn url(&self, database: &str, user: &str) -> String {
        format!("postgres:///{database}?host={}&user={user}", self.dir.path().display())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SIGINT is Postgres' fast shutdown; when we run it through setpriv, the pid is still its.
        let _ = Command::new("kill").args(["-INT", &self.postmaster.id().to_string()]).status();
        let _ = self.postmaster.wait();
    }
}

/// Bytes of SQL that go over the command line.
const ARGUMENT_BYTES_MAX: usize = 100_000;

impl Database {
    /// A new database with the current schema.
    pub(crate) fn new() -> Self {
        let cluster = Cluster::shared();
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        cluster.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}"));
        Self { cluster, name }
    }

    /// An empty database.
    pub(crate) fn empty() -> Self {
        let cluster = Cluster::shared();
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        cluster.sql("postgres", &format!("CREATE DATABASE {name}"));
        Self { cluster, name }
    }

    /// The URL for `user`.
    pub(crate) fn url(&self, user: &str) -> String {
        self.cluster.url(&self.name, user)
    }

    /// Runs any number of statements as the superuser, all or none.
    pub(crate) fn script(&self, sql: &str) {
        self.cluster.script(&self.name, sql);
    }

    /// Runs SQL as the superuser; rows come back as `|`-separated lines.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.cluster.sql(&self.name, sql)
    }
}

/// A program of Postgres; it refuses to run as root, so root runs it as `postgres`.
fn program(name: &str) -> Command {
    let path = find(name);
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(path);
    command
}

fn find(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions
        .map(|version| version.path().join("bin").join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from(name))
}

fn own(dir: &Path) {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    if is_root() {
        let id = |flag: &str| -> u32 {
            let output = Command::new("id").args([flag, "postgres"]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
        };
        chown(dir, Some(id("-u")), Some(id("-g"))).unwrap();
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout.trim_ascii() == b"0"
}
