//! How long a call through a ring takes between two pinned processes, with nothing behind it.
//!
//! ```console
//! $ cargo run --release -p mfaas-ring --example ping
//! ```
//! Round trips one after the other (median and 99th percentile), pipelined calls with every slot in
//! use, and round trips for which both ends have to be woken. The figures are nanoseconds by the
//! processor's counter; a busy machine shows in the percentiles.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command};
use std::time::Duration;

use mfaas_abi::Status;
use mfaas_ring::clock::{Rate, ticks};
use mfaas_ring::{
    Answer, Completion, Geometry, HostEnd, Next, Submission, WorkerEnd, WorkerState, create, take_inherited,
    wait_any,
};

const SLOTS: u32 = 64;
const WARM_UP: u64 = 20_000;
const ROUND_TRIPS: u64 = 200_000;
const WAKES: u64 = 3_000;
const PAUSE: Duration = Duration::from_micros(300);
const STRETCHES: u64 = 500;
const STRETCH_CALLS: u64 = 4_000;
const PAYLOADS: [usize; 4] = [0, 64, 512, 4096];
const PATIENCE: Duration = Duration::from_secs(10);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [descriptor, spin_rounds] => echo(descriptor.parse()?, spin_rounds.parse()?),
        _ => measure(),
    }
}

/// The other process: answers with the request until told to stop.
fn echo(descriptor: i32, spin_rounds: u32) -> Result<()> {
    // Whoever started it may end in the middle of a measurement.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    pin(1)?;
    let mut end = WorkerEnd::attach(take_inherited(descriptor)?)?;
    end.set_spin_rounds(spin_rounds);
    let mut frame = vec![0; WorkerEnd::BUFFER_BYTES];
    end.set_state(WorkerState::Ready);
    loop {
        match end.next(PATIENCE)? {
            Next::Call(_) => {
                let bytes = end.take_frame(&mut frame)?;
                end.reply(&Answer {
                    status: Status::Ok,
                    cold: false,
                    waits: false,
                    response: &frame[..bytes],
                    logs: b"",
                    message: b"",
                    inline: b"",
                    wall_ns: 0,
                    cpu_ns: 0,
                    memory_bytes: 0,
                })?;
            }
            Next::Idle => {}
            Next::Stop => {
                end.set_state(WorkerState::Stopped);
                return Ok(());
            }
        }
    }
}

fn measure() -> Result<()> {
    pin(0)?;
    let (mut host, mut peer) = start(u32::MAX)?;
    let mut out = std::io::stdout();
    let rate = Rate::measured();
    let mut done = Completion::new();
    for bytes in PAYLOADS {
        let frame = vec![7; bytes];
        let (p50, p99) = round_trips(&mut host, &mut done, &frame, rate)?;
        let per_call = pipelined(&mut host, &mut done, &frame, rate)?;
        let millions = 1e3 / per_call;
        writeln!(
            out,
            "{bytes:>5} bytes: round trip p50 {p50} ns, p99 {p99} ns; pipelined {per_call:.1} ns a call, {millions:.2} M/s"
        )?;
    }
    host.stop();
    peer.wait()?;

    let (mut host, mut peer) = start(0)?;
    let (p50, p99) = from_sleep(&mut host, &mut done, rate)?;
    writeln!(out, "   64 bytes, both ends asleep before: round trip p50 {p50} ns, p99 {p99} ns")?;
    host.stop();
    peer.wait()?;
    Ok(())
}

/// Round trips after a pause in which the other end fell asleep; this one sleeps over the answer.
fn from_sleep(host: &mut HostEnd, done: &mut Completion, rate: Rate) -> Result<(u64, u64)> {
    let mut times = Vec::with_capacity(WAKES as usize);
    for number in 0..WAKES {
        std::thread::sleep(PAUSE);
        let start = ticks();
        host.submit(call(number, &[7; 64]))?;
        while !host.collect(done)? {
            wait_any(&[host.bell()], PATIENCE, || host.is_ready())?;
        }
        times.push(rate.ns_of(ticks() - start));
    }
    Ok(median_and_p99(times))
}

fn start(spin_rounds: u32) -> Result<(HostEnd, Child)> {
    let (fd, mut host) = create(Geometry::new(SLOTS)?)?;
    // For the child; nothing else is started meanwhile.
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty())?;
    let arguments = [fd.as_raw_fd().to_string(), spin_rounds.to_string()];
    let peer = Command::new(std::env::current_exe()?).args(arguments).spawn()?;
    if host.wait_started(PATIENCE)? == WorkerState::Starting {
        return Err("the other process did not start".into());
    }
    Ok((host, peer))
}

fn call<'a>(call_id: u64, frame: &'a [u8]) -> Submission<'a> {
    Submission {
        call_id,
        function: 0,
        budget_us: 0,
        memory_bytes: 0,
        frame,
        resumes: false,
        may_ask: false,
        yields: false,
    }
}

fn round_trips(host: &mut HostEnd, done: &mut Completion, frame: &[u8], rate: Rate) -> Result<(u64, u64)> {
    let mut times = Vec::with_capacity(ROUND_TRIPS as usize);
    for number in 0..WARM_UP + ROUND_TRIPS {
        let start = ticks();
        host.submit(call(number, frame))?;
        while !host.collect(done)? {
            std::hint::spin_loop();
        }
        if number >= WARM_UP {
            times.push(rate.ns_of(ticks() - start));
        }
    }
    Ok(median_and_p99(times))
}

fn median_and_p99(mut times: Vec<u64>) -> (u64, u64) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

/// Nanoseconds a call while the worker never runs out of them: the median of many stretches, so that a
/// process that took one of the cores for a while does not show.
fn pipelined(host: &mut HostEnd, done: &mut Completion, frame: &[u8], rate: Rate) -> Result<f64> {
    let mut stretches = Vec::with_capacity(STRETCHES as usize);
    let (mut sent, mut received) = (0, 0);
    let mut start = ticks();
    while received < STRETCHES * STRETCH_CALLS {
        while host.has_room() {
            host.submit(call(sent, frame))?;
            sent += 1;
        }
        while host.collect(done)? {
            received += 1;
            if received % STRETCH_CALLS == 0 {
                let now = ticks();
                stretches.push(rate.ns_of(now - start));
                start = now;
            }
        }
    }
    while received < sent {
        received += u64::from(host.collect(done)?);
    }
    stretches.sort_unstable();
    Ok(stretches[stretches.len() / 2] as f64 / STRETCH_CALLS as f64)
}

fn pin(core: usize) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}
