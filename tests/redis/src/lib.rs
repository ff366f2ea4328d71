//! A private Redis server for one test.
//!
//! The server's parent is a shell that reads from a pipe of ours: when this program ends, however it
//! ends, the pipe closes, the server is killed and its directory goes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_MAX: Duration = Duration::from_secs(20);
const SOCKET: &str = "redis.sock";

/// Directory, and further arguments of the server.
const SCRIPT: &str = r#"
dir=$1
shift
cd "$dir"
redis-server --port 0 --unixsocket redis.sock --save '' --appendonly no --dir "$dir" "$@" >server.log 2>&1 &
server=$!
read -r _ || true
kill -KILL $server 2>/dev/null
wait $server 2>/dev/null
rm -rf "$dir"
"#;

/// A running server, which keeps nothing on a disk.
#[derive(Debug)]
pub struct RedisServer {
    directory: PathBuf,
    // Its standard input is held open: closing it kills the server.
    watcher: Child,
}

impl Drop for RedisServer {
    /// Kills it, and waits until its directory is gone.
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

impl RedisServer {
    /// One with these settings besides its own: `["--maxmemory", "4mb"]`.
    pub fn start(settings: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("mfaas-redis-").tempdir().unwrap().keep();
        let watcher = Command::new("sh")
            .args(["-c", SCRIPT, "server"])
            .arg(&directory)
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { directory, watcher };
        let start = Instant::now();
        while UnixStream::connect(server.socket()).is_err() {
            let log = server.directory.join("server.log");
            assert!(start.elapsed() < START_MAX, "no server: see {}", log.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Where its socket is.
    pub fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    /// Its address.
    pub fn url(&self) -> String {
        Self::url_of(&self.socket())
    }

    /// The address of what listens at a socket.
    pub fn url_of(socket: &Path) -> String {
        format!("redis+unix://{}", socket.display())
    }

    /// What a command answers, as `redis-cli` prints it.
    pub fn cli(&self, command: &[&str]) -> String {
        let output = Command::new("redis-cli").arg("-s").arg(self.socket()).args(command).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}
