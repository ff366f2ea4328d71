//! The node itself behind HTTP: the program as it ships, started here with a home of its own, or one
//! that runs already.

use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mfaas_attest::PrivateKey;
use rustix::process::{Pid, Signal, kill_process};

use super::BUDGET_US;
use super::home::{Deployed, Home};
use crate::functions::{Form, Kind, request, verified};
use crate::sides::http::Client;
use crate::sides::load::Target;
use crate::sides::{Kit, Side, Timing};
use crate::sys::{die_with_parent, pin, pin_to, stamp};

/// Threads of a node that speak HTTP.
pub const INGRESS_THREADS: &str = "ingress";
/// The thread of a node that moves calls between those and the workers.
pub const DISPATCHER_THREAD: &str = "dispatcher";

/// The tenant of the one function that rows of a single tenant call.
pub(super) const TENANT: &str = "bench";
/// From the start of the node until its first function answers: verification, inspection, loader, workers.
const START_WAIT_MAX: Duration = Duration::from_secs(60);
/// A node that is asked to stop has this long; it waits for its server, which is not there, for a second.
const STOP_WAIT_MAX: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(5);
/// Of what a node that does not start has said, this much is repeated.
const LOG_CHARACTERS_MAX: usize = 2_000;

/// A running node, reached over one connection like any caller does.
#[derive(Debug)]
pub struct Node {
    client: Client,
    target: Target,
    process: u32,
    number: u64,
    own: Option<Started>,
}

/// A node that was started here, and its home, which goes after it.
#[derive(Debug)]
pub(super) struct Started {
    child: Child,
    home: Home,
    address: SocketAddr,
}

/// A variable that a node reads, and its value.
pub(super) type Variable = (&'static str, OsString);

/// What gives a node one worker, which has a core for itself.
pub(super) fn of_one_worker(core: usize) -> [Variable; 2] {
    [("MFAAS_WORKERS", "1".into()), ("MFAAS_WORKER_CORES", core.to_string().into())]
}

impl Node {
    /// Starts `mfaas-node` with the function that answers at once, and waits until that answers.
    pub fn start(kit: &Kit) -> anyhow::Result<Self> {
        let (own, path) = Started::with_one_function(kit)?;
        let client = Client::connect(own.address, &path)?;
        let target = Target {
            address: own.address,
            address_http2: own.address,
            path,
            function: Some(Kind::EMPTY.constants(0)),
        };
        Ok(Self { client, target, process: own.process(), number: 0, own: Some(own) })
    }

    /// Connects to the function at `url` (`http://host:port/path`) of the node with process id
    /// `process`.
    pub fn connect(url: &str, process: u32) -> anyhow::Result<Self> {
        let rest = url.strip_prefix("http://").context("a URL that begins with http://")?;
        let (address, path) = rest.split_once('/').context("a URL with a path")?;
        let address: SocketAddr = address.parse().context("a URL with an address and a port")?;
        let path = format!("/{path}");
        let client = Client::connect(address, &path)?;
        let target = Target { address, address_http2: address, path, function: None };
        Ok(Self { client, target, process, number: 0, own: None })
    }
}

/// In a process between this program and a node, or what a node needs: sets what that is to have from its first instruction on,
/// then becomes it.
pub fn become_program(program: &Path, arguments: &[String], cores: &[usize]) -> anyhow::Result<()> {
    die_with_parent()?;
    pin_to(cores)?;
    // Returns only when it failed.
    Err(Command::new(program).args(arguments).exec()).with_context(|| format!("run {}", program.display()))
}

/// A process that becomes `program` on these cores and ends with this thread.
pub fn on_cores(
    kit: &Kit,
    (program, arguments): (&Path, &[&str]),
    cores: &[usize],
) -> anyhow::Result<Command> {
    let (first, others) = cores.split_first().context("a program without cores")?;
    let mut command = Command::new(kit.programs.bench()?);
    command.args(["serve", "node", "--core", &first.to_string()]);
    for core in others {
        command.args(["--other-core", &core.to_string()]);
    }
    for argument in arguments {
        command.args(["--argument", *argument]);
    }
    command.arg("--program").arg(program).env_clear();
    Ok(command)
}

fn spawn(kit: &Kit, cores: &[usize], home: &Home, variables: &[Variable]) -> anyhow::Result<Child> {
    let log = File::create(home.path("node.log")).context("make the node's log")?;
    on_cores(kit, (&kit.programs.node()?, &["serve"]), cores)?
        .envs(home.environment())
        .envs(variables.iter().cloned())
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .context("start the node")
}

impl Started {
    /// Starts `mfaas-node` over a home with the function that answers at once, which anybody may call; and where that is. Its
    /// worker has the worker's core, the rest of it stays on the caller's.
    pub(super) fn with_one_function(kit: &Kit) -> anyhow::Result<(Self, String)> {
        let image = kit.functions.file(Form::Hosted, &Kind::EMPTY.constants(0));
        let deployed = Deployed::micro(TENANT, image, BUDGET_US)?;
        let path = deployed.path();
        let variables = of_one_worker(kit.cores.worker);
        Ok((Self::over(kit, &kit.cores.both(), &[deployed], &variables)?, path))
    }

    /// Starts `mfaas-node` over a home with these functions, and waits until the first of them answers. What
    /// `variables` do not say is as a node has it by default, on these cores.
    pub(super) fn over(
        kit: &Kit,
        cores: &[usize],
        deployed: &[Deployed],
        variables: &[Variable],
    ) -> anyhow::Result<Self> {
        let home = Home::with(deployed)?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut own = Self { child: spawn(kit, cores, &home, variables)?, home, address };
        pin(kit.cores.caller)?;
        let path = deployed.first().context("a node without functions")?.path();
        own.address = own.ready(&path).with_context(|| format!("the node says {:?}", own.said()))?;
        Ok(own)
    }

    /// Where it answers.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The key whose call tokens it takes.
    pub(super) fn call_key(&self) -> &PrivateKey {
        self.home.call_key()
    }

    /// Its process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Its address, once the function at `path` answered.
    fn ready(&mut self, path: &str) -> anyhow::Result<SocketAddr> {
        let deadline = Instant::now() + START_WAIT_MAX;
        loop {
            if let Some(status) = self.child.try_wait().context("look after the node")? {
                anyhow::bail!("the node ended with {status}");
            }
            let last = self.try_call(path);
            if last.is_ok() || Instant::now() > deadline {
                return last.context("the function does not answer");
            }
            std::thread::sleep(LOOK);
        }
    }

    fn try_call(&self, path: &str) -> anyhow::Result<SocketAddr> {
        let ready = std::fs::read(self.home.path("ready.json")).context("the node is not up")?;
        let ready: serde_json::Value = serde_json::from_slice(&ready).context("the ready file")?;
        let address = ready["ingress"].as_str().context("the ready file without an address")?;
        let address = address.parse().context("an address")?;
        Client::connect(address, path)?.post(&request(0))?;
        Ok(address)
    }

    /// The end of its log.
    fn said(&self) -> String {
        let log = std::fs::read(self.home.path("node.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let before = log.chars().count().saturating_sub(LOG_CHARACTERS_MAX);
        log.chars().skip(before).collect()
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("ask the node to stop")?;
        let deadline = Instant::now() + STOP_WAIT_MAX;
        while self.child.try_wait().context("wait for the node")?.is_none() {
            ensure!(Instant::now() < deadline, "the node does not stop");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.stop().is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Side for Node {
    fn protections(&self) -> String {
        let whose = if self.own.is_some() { "started for this row" } else { "named by its address" };
        format!("all that the node runs with; {whose}")
    }

    /// Of a function that somebody else deployed the status is verified and the body is not.
    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        self.number += 1;
        let request = request(self.number);
        let sent = stamp();
        let answer = self.client.post(&request)?;
        let answered = stamp();
        if self.own.is_some() {
            verified(&Kind::EMPTY.constants(0), &request, &answer)?;
        }
        Ok(Timing { sent, answered })
    }

    fn process(&self) -> Option<u32> {
        Some(self.process)
    }

    fn target(&self) -> Option<&Target> {
        Some(&self.target)
    }
}
