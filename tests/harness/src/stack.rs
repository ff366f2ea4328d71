//! One running installation.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::seed::{self, Offer};
use crate::{Answer, Run, installed, programs};

/// A supervised program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `mfaas-server`.
    Server,
    /// `mfaas-signer`.
    Signer,
    /// `mfaas-builder`.
    Builder,
    /// `mfaas-node`.
    Node,
    /// `mfaas-builder acquire`.
    Acquirer,
    /// `mfaas-broker`.
    Broker,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Signer => "signer",
            Self::Builder => "builder",
            Self::Node => "node",
            Self::Acquirer => "acquirer",
            Self::Broker => "broker",
        }
    }
}

/// A running installation; it is stopped, checked for remains and removed with the value.
#[derive(Debug)]
pub struct Stack {
    home: TempDir,
    /// Beyond what every test gives to `mfaas up`.
    options: &'static [&'static str],
    offer: Offer,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
}

impl Stack {
    /// Starts everything and waits until the node serves. Functions whose manifests do not say are open to everybody: most tests
    /// are not about callers. [`Self::start_with`] leaves the site's default as it is.
    ///
    /// # Panics
    /// When anything fails; the message holds the supervisor's output.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&["--default-access", "public"])
    }

    /// The same with these options of `mfaas up`.
    ///
    /// # Panics
    /// When anything fails; the message holds the supervisor's output.
    #[must_use]
    pub fn start_with(options: &'static [&'static str]) -> Self {
        Self::start_offering(Offer::All, options)
    }

    /// The same with a few of the crates that ship: for tests in which all that is offered is compiled again.
    ///
    /// # Panics
    /// When anything fails; the message holds the supervisor's output.
    #[must_use]
    pub fn start_with_few_crates(options: &'static [&'static str]) -> Self {
        Self::start_offering(Offer::Few, options)
    }

    fn start_offering(offer: Offer, options: &'static [&'static str]) -> Self {
        let home = TempDir::with_prefix("mfaas-e2e-").unwrap_or_else(|error| panic!("temp dir: {error}"));
        // The programs run as users of their own and have to reach their directories.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711))
            .unwrap_or_else(|error| panic!("chmod: {error}"));
        // Another test may have installed it already; either is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("tokio: {error}"));
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(60))
            .tls_certs_only([])
            .build()
            .unwrap_or_else(|error| panic!("http client: {error}"));
        let stack = Self { home, options, offer, runtime, client };
        stack.up();
        stack
    }

    /// `mfaas up --detach` on this home, with the shared toolchain and dependencies linked in.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn up(&self) {
        let shared = Shared::locked(self.offer);
        shared.link_into(self.home());
        let seed = seed::write(&self.home().join("seed"), self.offer)
            .unwrap_or_else(|error| panic!("seed: {error}"));
        let run = self.cli(
            [
                OsStr::new("up"),
                OsStr::new("--detach"),
                OsStr::new("--home"),
                self.home().as_os_str(),
                OsStr::new("--seed"),
                seed.as_os_str(),
                OsStr::new("--http-port"),
                OsStr::new("0"),
                OsStr::new("--node-port"),
                OsStr::new("0"),
                OsStr::new("--ingress-port"),
                OsStr::new("0"),
            ]
            .into_iter()
            .chain(self.options.iter().map(OsStr::new)),
        );
        shared.keep(self.home());
        let _ = run.ok();
    }

    /// `mfaas down` on this home.
    pub fn down(&self) -> Run {
        self.cli([OsStr::new("down"), OsStr::new("--home"), self.home().as_os_str()])
    }

    /// The installation's home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs `mfaas` with the first admin's profile.
    pub fn cli<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Run {
        self.cli_with(arguments, &[])
    }

    /// The same with more environment variables, for example another `MFAAS_TOKEN`.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn cli_with<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        variables: &[(&str, &str)],
    ) -> Run {
        let mut command = Command::new(programs().join("mfaas"));
        self.run(command.args(arguments).envs(variables.iter().copied()))
    }

    /// Runs a line of shell in a directory, where `mfaas` is as for [`Stack::cli`].
    ///
    /// # Panics
    /// When the shell cannot be started.
    pub fn shell(&self, line: &str, directory: &Path) -> Run {
        let path = std::env::join_paths(
            std::iter::once(programs())
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        )
        .unwrap_or_else(|error| panic!("PATH: {error}"));
        self.run(Command::new("sh").args(["-c", line]).current_dir(directory).env("PATH", path))
    }

    fn run(&self, command: &mut Command) -> Run {
        let output = command
            .env("MFAAS_PROFILE_FILE", self.profile())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Run {
            code: output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default()),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// `mfaas deploy` of a directory; waits until a node serves it.
    pub fn deploy(&self, package: &Path) -> Run {
        self.cli([OsStr::new("deploy"), package.as_os_str()])
    }

    /// `mfaas invoke` with a text as the request.
    pub fn invoke(&self, function: &str, data: &str) -> Run {
        self.cli(["invoke", function, "--data", data])
    }

    fn profile(&self) -> PathBuf {
        self.home().join("profile.toml")
    }

    /// The first admin's token.
    ///
    /// # Panics
    /// When the profile lacks it.
    pub fn token(&self) -> String {
        let text = fs::read_to_string(self.profile()).unwrap_or_else(|error| panic!("profile: {error}"));
        let profile: toml::Value = toml::from_str(&text).unwrap_or_else(|error| panic!("profile: {error}"));
        profile["token"].as_str().unwrap_or_else(|| panic!("profile without token")).to_owned()
    }

    /// What the supervisor says about itself.
    ///
    /// # Panics
    /// When there is no readable state file.
    pub fn state(&self) -> Value {
        let path = self.home().join("run/state.json");
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn address(&self, name: &str) -> String {
        let state = self.state();
        let address =
            state["addresses"][name].as_str().unwrap_or_else(|| panic!("no address {name}: {state}"));
        format!("http://{address}")
    }

    /// `http://127.0.0.1:PORT` of the server.
    pub fn server(&self) -> String {
        self.address("http")
    }

    /// `http://127.0.0.1:PORT` of the node's ingress.
    pub fn ingress(&self) -> String {
        self.address("ingress")
    }

    /// A request with headers; any status is an answer.
    ///
    /// # Panics
    /// When there is no answer within 60 s.
    pub fn request(&self, method: &str, url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
        self.try_request(method, url, headers, body).unwrap_or_else(|error| panic!("{method} {url}: {error}"))
    }

    /// The same; a broken connection is an error.
    ///
    /// # Errors
    /// When there is no answer within 60 s.
    pub fn try_request(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> anyhow::Result<Answer> {
        let mut request = self.client.request(method.parse()?, url).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.runtime.block_on(async {
            let answer = request.send().await?;
            let status = answer.status().as_u16();
            let headers = answer
                .headers()
                .iter()
                .map(|(name, value)| {
                    (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
                })
                .collect();
            Ok(Answer { status, headers, body: answer.bytes().await?.to_vec() })
        })
    }

    /// A request to the server's REST surface with the first admin's token.
    pub fn api(&self, method: &str, path: &str, body: Vec<u8>) -> Answer {
        let token = format!("Bearer {}", self.token());
        let url = format!("{}{path}", self.server());
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        self.request(method, &url, &headers, body)
    }

    /// Uploads bytes as a deployment of `function`; gives the deployment's id.
    ///
    /// # Panics
    /// When the server does not accept it.
    pub fn upload(&self, function: &str, bytes: Vec<u8>) -> String {
        let answer = self.api("POST", &format!("/v1/functions/{function}/deployments"), bytes);
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.json()["deployment"]["id"].as_str().unwrap_or_default().to_owned()
    }

    /// The deployment as the server shows it.
    pub fn deployment(&self, id: &str) -> Value {
        self.api("GET", &format!("/v1/deployments/{id}"), Vec::new()).json()
    }

    /// Waits until the deployment is admitted, refused, failed or waiting, and shows it.
    ///
    /// # Panics
    /// After three minutes.
    pub fn settled(&self, id: &str) -> Value {
        wait_for("the deployment to end", Duration::from_secs(180), || {
            let view = self.deployment(id);
            let state = view["state"].as_str().unwrap_or_default().to_owned();
            ["admitted", "refused", "failed", "waiting"].contains(&state.as_str()).then_some(view)
        })
    }

    /// Makes a resource and grants it to the tenant `default`.
    ///
    /// # Panics
    /// When either fails.
    pub fn grant(&self, resource: &str, kind: &str, access: &str) {
        let _ = self.cli(["resource", "create", resource, "--kind", kind]).ok();
        let _ = self.cli(["resource", "grant", resource, "--tenant", "default", "--access", access]).ok();
    }

    /// The process of a program; waits while it is being restarted.
    ///
    /// # Panics
    /// When it is not running within 30 s.
    pub fn pid(&self, program: Program) -> Pid {
        wait_for(program.name(), Duration::from_secs(30), || {
            let state = self.state();
            let entry =
                state["programs"].as_array()?.iter().find(|entry| entry["name"] == program.name())?.clone();
            let pid = Pid::from_raw(i32::try_from(entry["pid"].as_i64()?).ok()?)?;
            (!entry["ready"].is_null() && rustix::process::test_kill_process(pid).is_ok()).then_some(pid)
        })
    }

    /// Kills a program and waits until its successor is ready.
    ///
    /// # Panics
    /// When no successor is ready within 60 s.
    pub fn kill(&self, program: Program) {
        let old = self.pid(program);
        signal(old, Signal::KILL);
        self.wait_for_successor(program, old);
    }

    /// Waits until a program runs under another pid than `old`, and is ready.
    ///
    /// # Panics
    /// When that does not happen within 60 s.
    pub fn wait_for_successor(&self, program: Program, old: Pid) {
        wait_for("the successor", Duration::from_secs(60), || (self.pid(program) != old).then_some(()));
    }

    /// Sends a signal to a program.
    ///
    /// # Panics
    /// When it is not running.
    pub fn signal(&self, program: Program, signal_: Signal) -> Pid {
        let pid = self.pid(program);
        signal(pid, signal_);
        pid
    }

    /// The worker processes of the node, by parent.
    pub fn workers(&self) -> Vec<Pid> {
        let node = self.pid(Program::Node).as_raw_nonzero().get();
        processes()
            .into_iter()
            .filter(|(_, parent, name)| *parent == node && name.starts_with("mfaas-worker"))
            .filter_map(|(pid, _, _)| Pid::from_raw(pid))
            .collect()
    }

    /// The password of the database's owner.
    pub(crate) fn owner_password(&self) -> String {
        let path = self.home().join("up.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let config: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("up.json: {error}"));
        config["passwords"]["mfaas_owner"].as_str().unwrap_or_default().to_owned()
    }

    /// The database as its owner.
    ///
    /// # Panics
    /// When it cannot be reached.
    pub fn sql(&self) -> postgres::Client {
        postgres::Config::new()
            .host_path(self.home().join("run/pg"))
            .user("mfaas_owner")
            .password(self.owner_password())
            .dbname("mfaas")
            .connect(postgres::NoTls)
            .unwrap_or_else(|error| panic!("database: {error}"))
    }

    /// How a program connects to the database as its owner.
    pub fn database(&self) -> String {
        let (host, password) = (self.home().join("run/pg"), self.owner_password());
        format!("postgres:///mfaas?host={}&user=mfaas_owner&password={password}", host.display())
    }

    /// The last lines of a program's log, for messages of failed tests.
    pub fn log(&self, program: Program) -> String {
        let path = self.home().join(format!("logs/{}.log", program.name()));
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let run = self.down();
        if std::thread::panicking() {
            for program in
                [Program::Server, Program::Builder, Program::Signer, Program::Node, Program::Acquirer]
            {
                eprintln_log(program, &self.log(program));
            }
        } else {
            assert_eq!(run.code, 0, "mfaas down: {}\n{}", run.stdout, run.stderr);
        }
    }
}

#[allow(clippy::print_stderr, reason = "the log of a failed test belongs to its output")]
fn eprintln_log(program: Program, log: &str) {
    eprintln!("== {}\n{log}", program.name());
}

fn signal(pid: Pid, signal: Signal) {
    rustix::process::kill_process(pid, signal).unwrap_or_else(|error| panic!("kill {pid:?}: {error}"));
}

/// Every process: pid, parent, name.
fn processes() -> Vec<(i32, i32, String)> {
    let entries = fs::read_dir("/proc").unwrap_or_else(|error| panic!("/proc: {error}"));
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
            Some((pid, rest.split_whitespace().nth(1)?.parse().ok()?, name.to_owned()))
        })
        .collect()
}

/// Asks every 50 ms until there is an answer.
///
/// # Panics
/// When there is none within `limit`; `what` is part of the message.
#[track_caller]
pub fn wait_for<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begin.elapsed() < limit, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What installations of one target directory share. The lock makes sure that only one of them
/// builds it.
struct Shared {
    /// Each part, and where it is kept: what depends on the offer, by offer.
    parts: [(&'static str, PathBuf); 3],
    _lock: File,
}

impl Shared {
    fn locked(offer: Offer) -> Self {
        let (directory, lock) = installed::materials();
        let offered = match offer {
            Offer::All => directory.clone(),
            Offer::Few => directory.join("few"),
        };
        let part = |name, within: &Path| (name, within.join(name));
        let parts = [part("toolchains", &directory), part("vendor", &offered), part("deps", &offered)];
        Self { parts, _lock: lock }
    }

    fn link_into(&self, home: &Path) {
        for (part, kept) in &self.parts {
            if kept.is_dir() && !home.join(part).exists() {
                copy_tree(kept, &home.join(part));
            }
        }
    }

    /// Keeps what this home had to make: a toolchain or a dependency cache under a new name.
    fn keep(&self, home: &Path) {
        for (part, kept) in &self.parts {
            fs::create_dir_all(kept).unwrap_or_else(|error| panic!("{}: {error}", kept.display()));
            for entry in fs::read_dir(home.join(part)).into_iter().flatten().flatten() {
                if !kept.join(entry.file_name()).exists() {
                    copy_tree(&entry.path(), &kept.join(entry.file_name()));
                }
            }
        }
    }
}

/// Links where the file system can, copies where it cannot.
fn copy_tree(from: &Path, to: &Path) {
    let run = |arguments: &[&str]| {
        Command::new("cp")
            .args(arguments)
            .arg(from)
            .arg(to)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    };
    if !run(&["-al"]) {
        let _ = fs::remove_dir_all(to);
        assert!(run(&["-a"]), "cannot copy {} to {}", from.display(), to.display());
    }
}
