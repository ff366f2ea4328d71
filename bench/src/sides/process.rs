//! The paper's two process modes: a process for each request, and a process that sleeps in a
//! socket until a datagram wakes it (ATC 2018, section 3).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::{Kit, Side, Timing};
use crate::function::ANSWER_BYTES;
use crate::functions::{Kind, request, verified};
use crate::sys::{pin, stamp};

/// How long a datagram may be on its way.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// fork and exec for each request, with pipes for request and answer.
#[derive(Debug)]
pub struct PerRequest {
    program: std::path::PathBuf,
    kind: Kind,
    number: u64,
    caller: usize,
    worker: usize,
}

impl PerRequest {
    /// Nothing runs until a request comes.
    pub fn new(kit: &Kit, kind: Kind) -> anyhow::Result<Self> {
        let program = kit.programs.function()?;
        Ok(Self { program, kind, number: 0, caller: kit.cores.caller, worker: kit.cores.worker })
    }
}

impl Side for PerRequest {
    fn protections(&self) -> String {
        "a process of its own; no filter, no limits".to_owned()
    }

    fn wake(&mut self) -> anyhow::Result<()> {
        // A child starts on the core that its parent may use: ours waits while it runs.
        pin(self.worker)
    }

    fn rest(&mut self) -> anyhow::Result<()> {
        pin(self.caller)
    }

    fn call(&mut self, function: u64) -> anyhow::Result<Timing> {
        self.number += 1;
        let request = request(self.number);
        let sent = stamp();
        let mut child = Command::new(&self.program)
            .args(arguments("once", self.kind, function))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a function")?;
        child.stdin.take().context("a pipe")?.write_all(&request).context("write the request")?;
        let mut answer = Vec::with_capacity(ANSWER_BYTES);
        child.stdout.take().context("a pipe")?.read_to_end(&mut answer).context("read the answer")?;
        let answered = stamp();
        let status = child.wait().context("wait for a function")?;
        ensure!(status.success(), "a function ended with {status}");
        verified(&self.kind.constants(function), &request, &answer)?;
        Ok(Timing { sent, answered })
    }
}

/// One process that sleeps until a datagram comes. It is one function: all calls are of it.
#[derive(Debug)]
pub struct Woken {
    child: Child,
    socket: UdpSocket,
    kind: Kind,
    number: u64,
}

impl Woken {
    /// Starts the process on the worker's core.
    pub fn start(kit: &Kit, kind: Kind) -> anyhow::Result<Self> {
        let program = kit.programs.function()?;
        pin(kit.cores.worker)?;
        let child = Command::new(program).args(arguments("udp", kind, 0)).stdout(Stdio::piped()).spawn();
        pin(kit.cores.caller)?;
        let socket = UdpSocket::bind(("127.0.0.1", 0)).context("bind")?;
        let mut woken = Self { child: child.context("start a function")?, socket, kind, number: 0 };
        let mut port = String::new();
        let output = woken.child.stdout.take().context("a pipe")?;
        BufReader::new(output).read_line(&mut port).context("read the port")?;
        woken.socket.connect(("127.0.0.1", port.trim().parse().context("a port")?)).context("connect")?;
        woken.socket.set_read_timeout(Some(ANSWER_WAIT_MAX)).context("limit the wait")?;
        Ok(woken)
    }
}

impl Side for Woken {
    fn protections(&self) -> String {
        "a process of its own; no filter, no limits, state survives a call".to_owned()
    }

    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        self.number += 1;
        let request = request(self.number);
        let mut answer = [0; ANSWER_BYTES];
        let sent = stamp();
        self.socket.send(&request).context("send")?;
        let bytes = self.socket.recv(&mut answer).context("receive")?;
        let answered = stamp();
        verified(&self.kind.constants(0), &request, &answer[..bytes])?;
        Ok(Timing { sent, answered })
    }

    fn process(&self) -> Option<u32> {
        Some(self.child.id())
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        // It has nothing to finish. An error means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn arguments(mode: &str, kind: Kind, id: u64) -> [String; 4] {
    [mode.to_owned(), kind.kind.to_string(), id.to_string(), kind.rounds.to_string()]
}
