//! What a build sends beside answers, over a link that is slower than the machine. The machine, a router and a caller are network
//! namespaces of this test, which only root may have; where the kernel or iproute2 lacks something, the status says so.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mfaas_isolation_client::{Mechanism, Request, ask, place_child};

use super::{Ends, LIFTED_WITHIN, Site, group_name};

/// Where the machine and the caller are, and the router between them.
const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 91, 1, 2);
const CALLER: Ipv4Addr = Ipv4Addr::new(10, 91, 2, 2);
/// What the link to the caller does, and the queue before it: 400 ms of it.
const LINK: [&str; 6] = ["rate", "10mbit", "burst", "16kb", "limit", "500kb"];
const LINK_BYTES_PER_S: u64 = 1_250_000;
/// What the secondary may send.
const BOUND_BYTES_PER_S: u64 = 500_000;
const EGRESS: &str = "up0=500000";
/// How long bytes of the secondary are counted.
const WINDOW: Duration = Duration::from_secs(3);

/// Answers each datagram with itself.
const PRIMARY: &str = "
import socket
answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
answers.bind(('0.0.0.0', 7007))
while True:
    answers.sendto(*answers.recvfrom(2048))
";
/// Takes what is sent.
const SINK: &str = "
import socket, threading
sink = socket.create_server(('0.0.0.0', 7009))
def take(connection):
    while connection.recv(1 << 16):
        pass
while True:
    threading.Thread(target=take, args=(sink.accept()[0],)).start()
";
/// Sends without end on eight connections, after a word; the priority of its sockets is 6, the most that a program may ask for
/// without a privilege.
const BULK: &str = "
import socket, sys, threading
sys.stdin.readline()
def send():
    connection = socket.create_connection((sys.argv[1], 7009))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 6)
    while True:
        connection.sendall(bytes(1 << 16))
for _ in range(8):
    threading.Thread(target=send).start()
";
/// Calls 30 times, one after the other, and prints what the median takes, in microseconds. A call that is lost took a second.
const CALLS: &str = "
import socket, sys, time
calls = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
calls.settimeout(1)
took = []
for number in range(30):
    begin = time.monotonic()
    calls.sendto(b'%d' % number, (sys.argv[1], 7007))
    try:
        while calls.recv(2048) != b'%d' % number:
            pass
    except TimeoutError:
        pass
    took.append(time.monotonic() - begin)
    time.sleep(0.01)
print(int(sorted(took)[15] * 1000000))
";

/// Three network namespaces in a row, each with a process that keeps it.
struct Network {
    machine: Ends,
    router: Ends,
    caller: Ends,
    programs: Vec<Ends>,
}

impl Network {
    /// Nothing where this machine has no such things.
    fn start() -> Option<Self> {
        const TRIAL: &str = "grep -q ' cgroup2 ' /proc/mounts && ip link add a0 type veth peer name b0 && \
            tc qdisc add dev a0 root htb && tc qdisc add dev b0 root tbf rate 1mbit burst 16kb limit 16kb";
        let trial = Command::new("unshare").args(["--net", "sh", "-c", TRIAL]).stderr(Stdio::null()).status();
        if !rustix::process::geteuid().is_root() || !trial.is_ok_and(|status| status.success()) {
            return None;
        }
        let host = || Ends(Command::new("unshare").args(["--net", "sleep", "600"]).spawn().unwrap());
        let network = Self { machine: host(), router: host(), caller: host(), programs: Vec::new() };
        network.connect();
        Some(network)
    }

    fn connect(&self) {
        let Self { machine, router, caller, .. } = self;
        for (near, interface, far) in [(machine, "up0", "down1"), (caller, "up0", "down2")] {
            // Its namespace is there once it is another than ours.
            let own = std::fs::read_link("/proc/self/ns/net").unwrap();
            for host in [near, router] {
                let namespace = format!("/proc/{}/ns/net", host.pid());
                let begin = Instant::now();
                while std::fs::read_link(&namespace).unwrap() == own {
                    assert!(begin.elapsed() < LIFTED_WITHIN, "no namespace");
                    sleep(Duration::from_millis(1));
                }
            }
            let (near, router) = (near.pid().to_string(), router.pid().to_string());
            let (address, gateway) =
                if far == "down1" { (MACHINE, "10.91.1.1") } else { (CALLER, "10.91.2.1") };
            let own = format!("{address}/24");
            let other = format!("{gateway}/24");
            run(Command::new("ip")
                .args(["link", "add", interface, "netns", &near])
                .args(["type", "veth", "peer", "name", far, "netns", &router]));
            for (pid, interface, address) in [(&near, interface, &own), (&router, far, &other)] {
                run(within(pid, "ip").args(["address", "add", address, "dev", interface]));
                run(within(pid, "ip").args(["link", "set", interface, "up"]));
            }
            run(within(&near, "ip").args(["route", "add", "default", "via", gateway]));
        }
        let router = router.pid().to_string();
        run(within(&router, "sh").args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]));
        run(within(&router, "tc").args(["qdisc", "add", "dev", "down2", "root", "tbf"]).args(LINK));
    }

    /// A controller of the machine.
    fn site(&self, variables: &[(&str, &str)]) -> Site {
        let program = within(&self.machine.pid().to_string(), env!("CARGO_BIN_EXE_mfaas-isolation"));
        // The secondary gives way to the primary alone: it is to send on a busy machine too.
        let variables = [variables, &[("MFAAS_ISOLATION_MOVES_PRIMARY", "1")]].concat();
        Site::start_as(program, tempfile::tempdir().unwrap(), group_name(), &variables)
    }

    fn tc(&self, arguments: &[&str]) -> String {
        run(within(&self.machine.pid().to_string(), "tc").args(arguments))
    }

    /// Whether the machine's interface is shaped by us.
    fn is_shaped(&self) -> bool {
        self.tc(&["qdisc", "show", "dev", "up0"]).starts_with("qdisc htb 6d66:")
    }

    /// What the primary and the caller need.
    fn listen(&mut self) {
        for (host, program) in [(&self.machine, PRIMARY), (&self.caller, SINK)] {
            self.programs.push(Ends(python(host, program).spawn().unwrap()));
        }
        let begin = Instant::now();
        while self.median_us() >= 1_000_000 {
            assert!(begin.elapsed() < super::SOON, "nobody answers");
        }
    }

    /// A process of the secondary that sends without end.
    fn bulk(&self, site: &Site) -> Ends {
        let mut command = python(&self.machine, BULK);
        let mut bulk: Child = command.arg(CALLER.to_string()).stdin(Stdio::piped()).spawn().unwrap();
        place_child(&site.socket(), bulk.id()).unwrap();
        bulk.stdin.take().unwrap().write_all(b"go\n").unwrap();
        Ends(bulk)
    }

    /// What a call takes, in microseconds.
    fn median_us(&self) -> u64 {
        let output = run(python(&self.caller, CALLS).arg(MACHINE.to_string()));
        output.trim().parse().unwrap()
    }

    /// Bytes that the machine has sent.
    fn sent_bytes(&self) -> u64 {
        let path = "/sys/class/net/up0/statistics/tx_bytes";
        // What is mounted at `/sys` shows another namespace.
        let script = format!("mount -t sysfs none /sys && cat {path}");
        let mut command = within(&self.machine.pid().to_string(), "unshare");
        run(command.args(["--mount", "sh", "-c", &script])).trim().parse().unwrap()
    }

    /// Bytes a second, while the secondary sends.
    fn bytes_per_s(&self) -> u64 {
        let before = self.sent_bytes();
        sleep(WINDOW);
        (self.sent_bytes() - before) / WINDOW.as_secs()
    }
}

fn within(pid: &str, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args([&format!("--net=/proc/{pid}/ns/net"), program]);
    command
}

fn python(host: &Ends, program: &str) -> Command {
    let mut command = within(&host.pid().to_string(), "python3");
    command.args(["-c", program]);
    command
}

/// What it prints.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn mechanism(site: &Site) -> Mechanism {
    site.status().mechanisms.into_iter().find(|one| one.name == "egress of up0").unwrap()
}

/// Nobody gets out of the class by a setting of a socket. The twin without shaping shows what the secondary does to answers.
#[test]
fn what_a_build_sends_does_not_delay_answers() {
    let Some(mut network) = Network::start() else { return };
    network.listen();
    let site = network.site(&[("MFAAS_EGRESS", EGRESS)]);
    assert_eq!(mechanism(&site).missing, None, "{}", site.log());
    let bulk = network.bulk(&site);
    site.until("the secondary sends", || network.bytes_per_s() > BOUND_BYTES_PER_S / 2);
    let (shaped_us, shaped_bytes) = (network.median_us(), network.bytes_per_s());
    ask(&site.socket(), &Request::Off).unwrap();
    site.until("the secondary sends what it can", || network.bytes_per_s() > LINK_BYTES_PER_S / 4 * 3);
    let free_us = network.median_us();
    drop(bulk);
    assert!(shaped_bytes < BOUND_BYTES_PER_S / 4 * 5, "{shaped_bytes} bytes a second");
    assert!(free_us > 10_000, "then shaping is for nothing: {free_us} µs without, {shaped_us} µs with");
    assert!(shaped_us < free_us / 4, "{shaped_us} µs with shaping, {free_us} µs without");
}

#[test]
fn an_interface_is_as_it_was_after_the_kill_switch_an_end_and_a_death() {
    let Some(network) = Network::start() else { return };
    let before = network.tc(&["qdisc", "show", "dev", "up0"]);
    let variables = [("MFAAS_EGRESS", EGRESS)];
    let mut site = network.site(&variables);
    assert!(network.is_shaped(), "{}", site.log());
    ask(&site.socket(), &Request::Off).unwrap();
    assert_eq!(network.tc(&["qdisc", "show", "dev", "up0"]), before, "{}", site.log());
    ask(&site.socket(), &Request::On).unwrap();
    assert!(network.is_shaped(), "{}", site.log());

    site.controller.0.kill().unwrap();
    site.controller.0.wait().unwrap();
    let begin = Instant::now();
    while network.is_shaped() {
        assert!(begin.elapsed() < LIFTED_WITHIN, "{}", site.log());
    }
    let site = network.site(&variables);
    assert!(network.is_shaped(), "{}", site.log());
    drop(site);
    assert_eq!(network.tc(&["qdisc", "show", "dev", "up0"]), before);
}

/// Neither a controller nor its watchdog was there to do it.
#[test]
fn what_a_death_has_left_is_removed_by_hand() {
    let Some(network) = Network::start() else { return };
    let mut site = network.site(&[("MFAAS_EGRESS", EGRESS)]);
    let watchdog = super::child_of(site.controller.pid());
    super::kill_process(super::Pid::from_raw(watchdog as i32).unwrap(), super::Signal::STOP).unwrap();
    site.controller.0.kill().unwrap();
    site.controller.0.wait().unwrap();
    assert!(network.is_shaped(), "then nothing is left to be removed");
    let mut lift = within(&network.machine.pid().to_string(), env!("CARGO_BIN_EXE_mfaas-isolation"));
    let state = site.directory.path().join("state");
    // It needs no word of the interface.
    run(lift.arg("lift").env("MFAAS_STATE_DIR", state).env("MFAAS_ISOLATION_GROUP", &site.group));
    assert!(!network.is_shaped());
    super::kill_process(super::Pid::from_raw(watchdog as i32).unwrap(), super::Signal::KILL).unwrap();
}

#[test]
fn what_an_operator_has_chosen_for_an_interface_stays() {
    let Some(network) = Network::start() else { return };
    let _ = network.tc(&[
        "qdisc", "add", "dev", "up0", "root", "handle", "7:", "tbf", "rate", "1gbit", "burst", "1mb",
        "limit", "1mb",
    ]);
    let chosen = network.tc(&["qdisc", "show", "dev", "up0"]);
    let site = network.site(&[("MFAAS_EGRESS", "up0=500000,gone0=500000")]);
    let Mechanism { by, missing, .. } = mechanism(&site);
    assert!(by.is_none() && missing.is_some(), "{missing:?}");
    let of_all = site.status().mechanisms;
    let gone = of_all.iter().find(|one| one.name == "egress of gone0").unwrap();
    assert!(gone.by.is_none() && gone.missing.is_some(), "{gone:?}");
    // And everything else is limited as ever.
    drop(site.member("exec sleep 600"));
    drop(site);
    assert_eq!(network.tc(&["qdisc", "show", "dev", "up0"]), chosen);
}
