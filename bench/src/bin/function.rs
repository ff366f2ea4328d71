//! One function as a program of its own, for the paper's process modes: `once` answers the 64 bytes
//! of its standard input and ends; `udp` answers datagrams until its parent ends.

// The source, not the library, which would bring all sides with it.
#[path = "../../functions/function.rs"]
#[allow(unsafe_code, reason = "one instruction: the time stamp counter, INV-BENCH-6")]
#[allow(dead_code, unreachable_pub, reason = "a program uses and shows less of it than the library")]
mod function;

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;

use anyhow::{Context as _, ensure};
use function::{ANSWER_BYTES, Constants, MAGIC, REQUEST_BYTES, work};
use rustix::process::Signal;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().context("once or udp")?;
    let mut number = || arguments.next().and_then(|text| text.parse().ok()).context("kind, id and rounds");
    let constants = Constants { magic: MAGIC, kind: number()?, id: number()?, rounds: number()? };
    match &*mode {
        "once" => once(&constants),
        "udp" => udp(&constants),
        _ => anyhow::bail!("once or udp"),
    }
}

fn once(constants: &Constants) -> anyhow::Result<()> {
    let (mut request, mut answer) = ([0; REQUEST_BYTES], [0; ANSWER_BYTES]);
    std::io::stdin().lock().read_exact(&mut request).context("read the request")?;
    let bytes = work(constants, &request, &mut answer);
    std::io::stdout().write_all(&answer[..bytes]).context("write the answer")
}

/// Prints its port first.
fn udp(constants: &Constants) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context("set the death signal")?;
    let socket = UdpSocket::bind(("127.0.0.1", 0)).context("bind")?;
    writeln!(std::io::stdout(), "{}", socket.local_addr()?.port()).context("say the port")?;
    loop {
        let (mut request, mut answer) = ([0; REQUEST_BYTES], [0; ANSWER_BYTES]);
        let (received, caller) = socket.recv_from(&mut request).context("receive")?;
        ensure!(received == REQUEST_BYTES, "a request of {received} bytes");
        let bytes = work(constants, &request, &mut answer);
        socket.send_to(&answer[..bytes], caller).context("answer")?;
    }
}
