//! A private PostgreSQL cluster for one test program, with one database a test.
//!
//! The servers' parent is a shell that reads from a pipe of ours: when this program ends, however
//! it ends, the pipe closes, the cluster stops and its directory goes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The superuser of the cluster; plays the owner of the schema.
pub const OWNER: &str = "owner";
/// The port in the name of a socket, where nobody listens on one.
const PORT: u16 = 5432;
const START_MAX: Duration = Duration::from_secs(60);

/// Directory, programs, the sockets of the cluster that it is a standby of or nothing, and further arguments.
const SCRIPT: &str = r#"
set -e
dir=$1 bin=$2 primary=$3
shift 3
cd "$dir"
if [ -n "$primary" ]; then
    "$bin/pg_basebackup" -D data -R -c fast --no-sync -h "$primary" -U owner >basebackup.log 2>&1
else
    "$bin/initdb" -D data -A trust -U owner --no-sync --no-locale -E UTF8 >initdb.log 2>&1
fi
"$bin/postgres" -D data -k "$dir" -c listen_addresses= -c fsync=off -c max_connections=300 "$@" >server.log 2>&1 &
server=$!
read -r _ || true
kill -INT $server
wait $server || true
rm -rf "$dir"
"#;

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    sockets: PathBuf,
    port: u16,
    databases: AtomicU32,
    // Its standard input is held open: closing it stops the cluster.
    watcher: Child,
}

impl Drop for Cluster {
    /// Stops it and waits until its directory is gone.
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
        // Where its user may not remove it.
        let _ = std::fs::remove_dir_all(&self.sockets);
    }
}

impl Cluster {
    /// The cluster of this test program, started on first use.
    pub fn get() -> &'static Self {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(Self::start)
    }

    /// One of its own, for tests that change what belongs to all databases.
    pub fn start() -> Self {
        Self::launch(directory(), PORT, None, &[])
    }

    /// A hot standby of this one.
    pub fn standby(&self) -> Self {
        Self::launch(directory(), PORT, Some(&self.sockets), &[])
    }

    /// One that also listens on a port of 127.0.0.1, with TLS.
    pub fn start_with_tls(certificate: &str, key: &str) -> (Self, u16) {
        let sockets = directory();
        let files = ["server.pem", "server.key"].map(|name| sockets.join(name));
        for (file, text) in files.iter().zip([certificate, key]) {
            std::fs::write(file, text).unwrap();
            std::fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
            give(file);
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let [certificate, key] = files.map(|file| file.display().to_string());
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={certificate}"),
            format!("ssl_key_file={key}"),
        ];
        let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
        (Self::launch(sockets, port, None, &arguments), port)
    }

    fn launch(sockets: PathBuf, port: u16, primary: Option<&Path>, arguments: &[&str]) -> Self {
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
            command
        } else {
            Command::new("sh")
        };
        let watcher = command
            .args(["-c", SCRIPT, "cluster"])
            .args([&*sockets, &binaries(), primary.unwrap_or(Path::new(""))])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let cluster = Self { sockets, port, databases: AtomicU32::new(0), watcher };
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
    pub fn create_database(&self) -> String {
        self.copy_database("template1")
    }

    /// A new database that holds what `template` does, to which nobody is connected; returns its name.
    pub fn copy_database(&self, template: &str) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        assert!(self.psql("postgres", &create), "no database {name}");
        name
    }

    /// The address of `database` for `user`.
    pub fn url(&self, database: &str, user: &str) -> String {
        format!("postgres:///{database}?host={}&port={}&user={user}", self.sockets.display(), self.port)
    }

    /// Where its socket is.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Whether the owner can carry out a statement.
    pub fn psql(&self, database: &str, statement: &str) -> bool {
        Command::new(binaries().join("psql"))
            .args(["-q", "-U", OWNER, "-d", database, "-c", statement, "-p", &self.port.to_string(), "-h"])
            .arg(&self.sockets)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

/// An empty one that the servers' user may write.
fn directory() -> PathBuf {
    let directory = tempfile::Builder::new().prefix("mfaas-pg-").tempdir().unwrap().keep();
    give(&directory);
    directory
}

/// Makes a file the servers' user's.
fn give(file: &Path) {
    if is_root() {
        let chown = Command::new("chown").arg("postgres").arg(file).status().unwrap();
        assert!(chown.success(), "no user `postgres` to run a cluster as");
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
