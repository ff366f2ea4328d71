//! A build that starts 200 compilers, as trees and as orphans: none escapes, and calls do not feel them. The twins show that they
//! would.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use mfaas_isolation_client::{Change, Limit, Request, Response, ask, place_stoppable_child};

use super::{Ends, Site, alone, class, is_idle_class, is_stoppable, is_stopped, ticks, worker};

const COMPILERS: usize = 200;
/// What is compiled: 20 crates of ten units each. Every second unit is forked twice and every second crate ends, so that what
/// they started has lost its parent. All of them together have 400 MiB, and end by themselves should the test not end them.
const BUILD: &str = "
import hashlib, os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 240
def compiler():
    with open('/proc/self/comm', 'w') as comm:
        comm.write('compiler')
    source = b'x' * (2 << 20)
    while time.monotonic() < end:
        hashlib.sha256(source).digest()
    os._exit(0)
for crate in range(20):
    if os.fork() == 0:
        for unit in range(10):
            if os.fork() == 0:
                if unit % 2 == 1 and os.fork() > 0:
                    os._exit(0)
                compiler()
        if crate % 2 == 1:
            os._exit(0)
        time.sleep(600)
time.sleep(600)
";
/// How long CPU time is counted.
const WINDOW: Duration = Duration::from_secs(2);

/// In a process namespace of its own, as the sandbox of a build is: its end is the end of everything in it.
struct Build {
    sandbox: Ends,
    /// In the arguments of all that it starts.
    mark: String,
}

impl Build {
    /// It waits for a word.
    fn start(site: &Site) -> Self {
        let mark = site.group.clone();
        // As a sandbox, it has started nothing when it is placed.
        let own_users = if rustix::process::geteuid().is_root() { "" } else { "--user --map-root-user" };
        let program =
            format!("read word && exec unshare {own_users} --pid --fork --kill-child python3 -c \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &program, "sh", BUILD, &mark]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).spawn().unwrap();
        Self { sandbox: Ends(child), mark }
    }

    fn placed(site: &Site) -> Self {
        let build = Self::start(site);
        place_stoppable_child(&site.socket(), build.sandbox.pid()).unwrap();
        build
    }

    /// All compilers, once they are there. Nothing is limited meanwhile: where nothing else wants to run they would hardly start on a
    /// machine that is busy.
    fn compilers(&mut self, site: &Site) -> Vec<u32> {
        switch(site, true);
        self.sandbox.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        site.until("200 compilers run", || self.running().len() == COMPILERS);
        switch(site, false);
        self.running()
    }

    /// Waits until nothing of it is left. What is in the idle class needs a moment to end.
    fn ends(&mut self, site: &Site) {
        switch(site, true);
        site.until("the sandbox has ended", || self.sandbox.0.try_wait().unwrap().is_some());
        site.until("and all compilers", || self.running().is_empty());
    }

    /// Compilers that are there now.
    fn running(&self) -> Vec<u32> {
        let read =
            |pid: u32, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            read(*pid, "comm") == "compiler\n" && read(*pid, "cmdline").ends_with(&format!("{}\0", self.mark))
        })
        .collect()
    }
}

/// The kill switch. Process by process, 200 of them take longer than an answer may.
fn switch(site: &Site, off: bool) {
    let _ = ask(&site.socket(), if off { &Request::Off } else { &Request::On });
    site.until(
        "the switch holds",
        || matches!(ask(&site.socket(), &Request::Status), Ok(Response::Status(status)) if status.off == off),
    );
}

fn ticks_of(pids: &[u32]) -> u64 {
    pids.iter().map(|pid| ticks(*pid)).sum()
}

/// Which part of the CPU time that both get a primary gets that computes on every core, in percent.
fn primary_percent(compilers: &[u32]) -> u64 {
    let cores = std::thread::available_parallelism().unwrap().get();
    let primary: Vec<_> = (0..cores).map(|_| worker("while :; do :; done")).collect();
    let primary: Vec<_> = primary.iter().map(Ends::pid).collect();
    let both = || (ticks_of(&primary), ticks_of(compilers));
    let before = both();
    sleep(WINDOW);
    let after = both();
    let (of_primary, of_compilers) = (after.0 - before.0, after.1 - before.1);
    100 * of_primary / (of_primary + of_compilers).max(1)
}

/// Among the processes of the machine, each of them counts for little, and all of them for more than their group would.
#[test]
fn two_hundred_compilers_give_way_to_the_primary() {
    let _turn = alone();
    for (site, least_percent) in [(Site::start(&[]), 75), (Site::start_without_groups(&[]), 40)] {
        let mut build = Build::placed(&site);
        let compilers = build.compilers(&site);
        let has_group = is_stoppable(&site, build.sandbox.pid());
        for pid in &compilers {
            assert!(is_idle_class(&site, *pid), "{pid}: {}", site.log());
            assert_eq!(is_stoppable(&site, *pid), has_group);
        }
        let percent = primary_percent(&compilers);
        assert!(percent >= least_percent, "the primary has {percent} %");
    }
}

#[test]
fn without_a_controller_two_hundred_compilers_take_its_cores() {
    let _turn = alone();
    let site = Site::start(&[]);
    let mut build = Build::start(&site);
    let compilers = build.compilers(&site);
    assert!(compilers.iter().all(|pid| class(*pid) == "0"));
    let percent = primary_percent(&compilers);
    assert!(percent <= 10, "the primary has {percent} % without a controller, so it is for nothing");
}

#[test]
fn two_hundred_compilers_stand_still_where_no_core_can_be_lent() {
    let _turn = alone();
    for site in [Site::start(&[]), Site::start_without_groups(&[])] {
        let mut build = Build::placed(&site);
        let compilers = build.compilers(&site);
        let busy = site.squeeze();
        site.until("the secondary stands still", || site.status().cores.secondary.is_empty());
        site.until("every compiler does", || compilers.iter().all(|pid| is_stopped(*pid)));
        // Ten seconds of standing still may end just now, for a tenth of one.
        site.until("they use no CPU time", || {
            let before = ticks_of(&compilers);
            sleep(Duration::from_millis(300));
            ticks_of(&compilers) == before
        });
        // Its builder ends it, as it stands.
        build.sandbox.0.kill().unwrap();
        build.ends(&site);
        drop(busy);
    }
}

/// The memory is theirs together, and nothing of their sandbox is left.
#[test]
fn two_hundred_compilers_end_together_for_want_of_memory() {
    let _turn = alone();
    for start in [Site::start, Site::start_without_groups] {
        let site = start(&[]);
        let mut build = Build::placed(&site);
        assert_eq!(build.compilers(&site).len(), COMPILERS);
        let little = Change { memory_bytes: Some(Limit::At(256 << 20)), ..Change::default() };
        ask(&site.socket(), &Request::Set(little)).unwrap();
        site.until("the sandbox is ended", || site.status().killed == 1);
        build.ends(&site);
        assert_eq!(site.status().killed, 1);
    }
}
