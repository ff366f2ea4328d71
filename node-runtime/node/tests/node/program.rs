//! The real programs: `mfaas-node` as a child process, with `mfaas-worker` beside it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::documents::Signer;
use crate::server::{Server, TOKEN};

const NODE: &str = env!("CARGO_BIN_EXE_mfaas-node");

/// A home of a node: what stays between two starts.
pub struct Home {
    directory: tempfile::TempDir,
    server: String,
    isolated: String,
    advertise: &'static str,
    sharing: Option<&'static str>,
    processes: Option<usize>,
    /// Bulk workers, and what they may have together, in MiB.
    bulk: Option<(usize, usize)>,
    /// Where the isolation controller of the machine listens.
    isolation: Option<PathBuf>,
    /// What programs that come through the local socket may call besides what is public.
    local_calls: String,
    /// Opens everything of `acme`.
    token: String,
}

/// A running node.
pub struct Node {
    child: Child,
    pub ingress: String,
    client: reqwest::Client,
}

/// An answer of the ingress.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: String,
}

impl Home {
    pub fn new(server: &Server, signer: &Signer) -> Self {
        let _ = ["mfaas-worker", "mfaas-loader"].map(beside);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), server.ca_pem()).unwrap();
        std::fs::write(directory.path().join("root.pub"), signer.root.public().to_pem().unwrap()).unwrap();
        let server = format!("https://{}", server.address);
        let (isolated, local_calls, token) = (String::new(), String::new(), signer.token(&["*"]));
        Self {
            directory,
            server,
            isolated,
            advertise: "",
            sharing: None,
            processes: None,
            bulk: None,
            isolation: None,
            local_calls,
            token,
        }
    }

    /// From the next start on, another server is asked first.
    pub fn ask_first(&mut self, server: &str) {
        self.server = format!("{server},{}", self.server);
    }

    /// From the next start on, this is where the site says that the ingress is.
    pub fn advertise(&mut self, url: &'static str) {
        self.advertise = url;
    }

    /// From the next start on, tenants share workers on these terms; nothing is said before.
    pub fn share(&mut self, sharing: &'static str) {
        self.sharing = Some(sharing);
    }

    /// From the next start on, there are at most so many worker processes.
    pub fn bound(&mut self, processes: usize) {
        self.processes = Some(processes);
    }

    /// From the next start on, there are so many bulk workers with so much memory together, in MiB.
    pub fn give_bulk(&mut self, workers: usize, memory_mib: usize) {
        self.bulk = Some((workers, memory_mib));
    }

    /// From the next start on, this tenant has workers of its own.
    pub fn isolate(&mut self, tenant: &str) {
        self.isolated = tenant.to_owned();
    }

    /// From the next start on, this is open to whoever comes through the local socket.
    pub fn grant_local_calls(&mut self, calls: &str) {
        self.local_calls = calls.to_owned();
    }

    /// From the next start on, the machine has an isolation controller that listens there.
    pub fn have_controller(&mut self, socket: PathBuf) {
        self.isolation = Some(socket);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(NODE);
        command
            .env_clear()
            .env("MFAAS_NODE_NAME", "node-1")
            .env("MFAAS_SERVER", &self.server)
            .env("MFAAS_CA_FILE", self.path("ca.pem"))
            .env("MFAAS_STATE_DIR", self.path("state"))
            .env("MFAAS_INGRESS_LISTEN", "127.0.0.1:0")
            .env("MFAAS_INGRESS_ADVERTISE", self.advertise)
            .env("MFAAS_WORKERS", "2")
            .env("MFAAS_ISOLATED_TENANTS", &self.isolated)
            .env("MFAAS_ROOT_KEY_FILE", self.path("root.pub"))
            .env("MFAAS_READY_FILE", self.path("ready.json"))
            .env("MFAAS_LOCAL_SOCKET", self.path("local.sock"))
            .env("MFAAS_LOCAL_CALLS", &self.local_calls)
            .envs(self.sharing.map(|sharing| ("MFAAS_SHARE_WORKERS", sharing)))
            .envs(self.isolation.iter().map(|socket| ("MFAAS_ISOLATION_SOCKET", socket)))
            .envs(self.bulk.map(|(workers, _)| ("MFAAS_BULK_WORKERS", workers.to_string())))
            .envs(self.bulk.map(|(_, mib)| ("MFAAS_BULK_MEMORY_MIB", mib.to_string())))
            .envs(self.processes.map(|count| ("MFAAS_WORKER_PROCESSES", count.to_string())))
            .stdin(Stdio::null());
        command
    }

    pub async fn join(&self, token: &str) -> ExitStatus {
        let mut command = self.command();
        let file = self.path("join-token");
        std::fs::write(&file, format!("{token}\n")).unwrap();
        command.args(["join", "--token-file"]).arg(file);
        tokio::task::spawn_blocking(move || command.status().unwrap()).await.unwrap()
    }

    pub async fn joined(server: &Server, signer: &Signer) -> Self {
        let home = Self::new(server, signer);
        assert!(home.join(TOKEN).await.success());
        home
    }

    pub async fn start(&self) -> Node {
        let ready = self.path("ready.json");
        let _ = std::fs::remove_file(&ready);
        let child = self.command().arg("serve").spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !ready.exists() {
            assert!(Instant::now() < deadline, "the node did not become ready");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let ready: serde_json::Value = serde_json::from_slice(&std::fs::read(&ready).unwrap()).unwrap();
        assert_eq!(ready["pid"], child.id());
        let bearer = http::HeaderValue::try_from(format!("Bearer {}", self.token)).unwrap();
        let headers = http::HeaderMap::from_iter([(http::header::AUTHORIZATION, bearer)]);
        let client = reqwest::Client::builder()
            .tls_certs_only([])
            .no_proxy()
            .default_headers(headers)
            .build()
            .unwrap();
        Node { child, ingress: format!("http://{}", ready["ingress"].as_str().unwrap()), client }
    }
}

impl Node {
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.client.get(format!("{}{path}", self.ingress))).await.unwrap()
    }

    /// A call with a body that is no text.
    pub async fn send_bytes(&self, function: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        let request = self.client.post(format!("{}/f/acme/{function}", self.ingress)).body(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
    }

    /// What a request is answered that says how long its body will be and sends nothing of it.
    pub async fn announce(&self, function: &str, body_bytes: usize) -> String {
        let address = self.ingress.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /f/acme/{function} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {body_bytes}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4_096];
        let read = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }

    pub async fn call(&self, function: &str, body: &str) -> Answer {
        self.try_call(function, body).await.unwrap()
    }

    pub async fn try_call(&self, function: &str, body: &str) -> Result<Answer, reqwest::Error> {
        let request = self.client.post(format!("{}/f/acme/{function}", self.ingress));
        self.send(request.header("cookie", "secret=1").body(body.to_owned())).await
    }

    /// A call of a function of another tenant than `acme`.
    pub async fn call_of(&self, tenant: &str, function: &str, body: &str) -> Answer {
        let request = self.client.post(format!("{}/f/{tenant}/{function}", self.ingress));
        self.send(request.body(body.to_owned())).await.unwrap()
    }

    /// A call with a deadline, in milliseconds.
    pub async fn call_within(&self, function: &str, body: &str, deadline_ms: &str) -> Answer {
        let request = self.client.post(format!("{}/f/acme/{function}", self.ingress));
        self.send(request.header("mfaas-deadline-ms", deadline_ms).body(body.to_owned())).await.unwrap()
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { status, headers, body: response.text().await? })
    }

    /// Waits until `function` answers `body`.
    pub async fn answers(&self, function: &str, body: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = self.try_call(function, "").await;
            if answer.as_ref().is_ok_and(|answer| answer.body == body) {
                return;
            }
            assert!(Instant::now() < deadline, "{function} never answered {body:?}: {answer:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Process ids of the living workers of this node.
    pub fn workers(&self) -> Vec<u32> {
        self.children("mfaas-worker")
    }

    /// Process ids of the living loaders of this node.
    pub fn loaders(&self) -> Vec<u32> {
        self.children("mfaas-loader")
    }

    fn children(&self, program: &str) -> Vec<u32> {
        let own = |process: &Process| process.parent == self.child.id() && process.program == program;
        processes().into_iter().filter(own).map(|process| process.pid).collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.child.id(), signal);
    }

    /// Waits for the end of the node.
    pub async fn ended(mut self) -> ExitStatus {
        tokio::task::spawn_blocking(move || self.child.wait().unwrap()).await.unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Waits until none of these processes lives.
pub async fn gone(pids: &[u32]) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while processes().iter().any(|process| pids.contains(&process.pid)) {
        assert!(Instant::now() < deadline, "left behind: {pids:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// CPU time of a process so far, in hundredths of a second; 0 if it is gone.
pub fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    // proc(5): utime and stime, counted from the state on.
    fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

struct Process {
    pid: u32,
    parent: u32,
    program: String,
}

/// Every living process; zombies are not alive.
fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (program, fields) = stat.rsplit_once(')')?;
        let program = program.split_once('(')?.1.to_owned();
        let mut fields = fields.split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
        (state != "Z").then_some(Process { pid, parent, program })
    });
    stats.collect()
}

/// A program of another package, which the build of the whole workspace puts beside the node.
pub fn beside(program: &str) -> PathBuf {
    let path = Path::new(NODE).with_file_name(program);
    assert!(path.is_file(), "there is no {}: run `cargo build --workspace` first", path.display());
    path
}
