#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! The controller as a program, on the control groups of this machine. As anybody but root it has none, and does by each
//! process what it would do by groups.

mod compilers;
mod egress;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mfaas_isolation::CoreSet;
use mfaas_isolation_client::{
    Change, ClientError, Limit, Mode, Request, Response, Role, Status, ask, place_child, place_primary,
    place_stoppable_child,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long something may take that the controller does at its next look, on a machine that is busy.
const SOON: Duration = Duration::from_secs(60);
/// Within this nothing stands still any more after a death, and nothing is limited after the kill switch: what the controller
/// promises is a second and a tenth; the machine may be busy.
const LIFTED_WITHIN: Duration = Duration::from_secs(2);

/// How long a process that was killed may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Two hundred processes leave nothing for tests beside them: those that start so many run alone.
static TURN: RwLock<()> = RwLock::new(());

fn among_others() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// A process that ends with the test.
struct Ends(Child);

impl Ends {
    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        // With what it has started, if it leads a group.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        // One that stands still (version 1 of groups) ends only when it goes on.
        let _ = kill_process(Pid::from_child(&self.0), Signal::CONT);
        // In a group that stands still it does not end: then a test has failed, and must not hang.
        let begin = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begin.elapsed() < ENDS_WITHIN {
            sleep(Duration::from_millis(1));
        }
    }
}

/// A controller with a directory and a group of its own.
struct Site {
    controller: Ends,
    directory: tempfile::TempDir,
    group: String,
}

impl Site {
    fn start(variables: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), group_name(), variables)
    }

    /// One that has no control groups, whoever runs it, and does everything process by process.
    fn start_without_groups(variables: &[(&str, &str)]) -> Self {
        const HIDDEN: &str = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
        if !rustix::process::geteuid().is_root() {
            return Self::start(variables);
        }
        let mut program = Command::new("unshare");
        program.args(["--mount", "sh", "-c", HIDDEN, "sh", env!("CARGO_BIN_EXE_mfaas-isolation")]);
        let site = Self::start_as(program, tempfile::tempdir().unwrap(), group_name(), variables);
        let of_groups =
            |status: Status| status.mechanisms.into_iter().filter(|one| one.name.ends_with("group"));
        assert!(of_groups(site.status()).all(|one| one.by.is_none()), "{:?}", site.status());
        site
    }

    fn start_in(directory: tempfile::TempDir, group: String, variables: &[(&str, &str)]) -> Self {
        let program = Command::new(env!("CARGO_BIN_EXE_mfaas-isolation"));
        Self::start_as(program, directory, group, variables)
    }

    fn start_as(
        mut program: Command,
        directory: tempfile::TempDir,
        group: String,
        variables: &[(&str, &str)],
    ) -> Self {
        let ready = directory.path().join("ready");
        let _ = std::fs::remove_file(&ready);
        let log =
            std::fs::File::options().create(true).append(true).open(directory.path().join("log")).unwrap();
        let child = program
            .env("MFAAS_ISOLATION_SOCKET", directory.path().join("socket"))
            .env("MFAAS_STATE_DIR", directory.path().join("state"))
            .env("MFAAS_ISOLATION_GROUP", &group)
            .env("MFAAS_READY_FILE", &ready)
            .envs(variables.iter().copied())
            .stderr(log)
            .spawn()
            .unwrap();
        let site = Self { controller: Ends(child), directory, group };
        site.until("the controller is up", || ready.exists());
        site
    }

    /// Another life of the same.
    fn again(mut self, variables: &[(&str, &str)]) -> Self {
        self.controller.0.kill().unwrap();
        self.controller.0.wait().unwrap();
        let kept = tempfile::tempdir().unwrap();
        let directory = std::mem::replace(&mut self.directory, kept);
        Self::start_in(directory, self.group.clone(), variables)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn status(&self) -> Status {
        match ask(&self.socket(), &Request::Status).unwrap() {
            Response::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is() {
            assert!(begin.elapsed() < SOON, "not within {SOON:?}: {what}\n{}", self.log());
            sleep(Duration::from_millis(5));
        }
    }

    /// A process of the secondary that may stand still.
    fn member(&self, program: &str) -> Ends {
        let member = worker(program);
        place_stoppable_child(&self.socket(), member.pid()).unwrap();
        member
    }

    /// Puts the secondary off all cores: it has none beside a buffer of all but one, and what runs here needs that one.
    fn squeeze(&self) -> Vec<Ends> {
        let cores = std::thread::available_parallelism().unwrap().get();
        let busy = (0..cores).map(|_| worker("while :; do :; done")).collect();
        let all_but_one = u32::try_from(cores - 1).unwrap();
        let change = Change { mode: Some(Mode::Blind), buffer_cores: Some(all_but_one), ..Change::default() };
        ask(&self.socket(), &Request::Set(change)).unwrap();
        busy
    }
}

/// A site's groups go with it, once they are empty.
impl Drop for Site {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.controller.0), Signal::TERM);
        let _ = self.controller.0.wait();
        for controller in ["cpu", "cpuset", "freezer", "memory", "blkio", "unified"] {
            for place in groups_named(&Path::new("/sys/fs/cgroup").join(controller), &self.group, 3) {
                let begin = Instant::now();
                while std::fs::remove_dir(&place).is_err() && begin.elapsed() < Duration::from_secs(1) {
                    sleep(Duration::from_millis(10));
                }
            }
        }
    }
}

fn group_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("mfaas-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn groups_named(below: &Path, name: &str, depth: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(below).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .flat_map(|entry| {
            if entry.file_name().to_str() == Some(name) {
                let below = ["members", "stoppable", "secondary", "primary"];
                let mut found: Vec<_> =
                    below.iter().flat_map(|name| groups_named(&entry.path(), name, 0)).collect();
                found.push(entry.path());
                return found;
            }
            if depth > 0 { groups_named(&entry.path(), name, depth - 1) } else { Vec::new() }
        })
        .collect()
}

fn worker(program: &str) -> Ends {
    let mut command = Command::new("sh");
    command.args(["-c", program]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    Ends(command.spawn().unwrap())
}

/// CPU time that a process has used, in ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let words: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    words[11].parse::<u64>().unwrap() + words[12].parse::<u64>().unwrap()
}

/// Memory of a process.
fn resident_bytes(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// Whether a process is stopped, by its group or by a signal. One that only finds no core, where nothing else wants to run, is not.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let is_stopped = stat.rsplit_once(')').unwrap().1.trim_start().starts_with('T');
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let is_frozen = own.lines().any(|line| {
        let (hierarchy, group) = line.split_once(':').unwrap().1.split_once(':').unwrap();
        let group = group.trim_start_matches('/');
        let said = |place: &str, file: &str| std::fs::read_to_string(Path::new(place).join(group).join(file));
        match hierarchy {
            "freezer" => {
                said("/sys/fs/cgroup/freezer", "freezer.state").is_ok_and(|state| state.trim() != "THAWED")
            }
            "" => ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
                .iter()
                .any(|place| said(place, "cgroup.freeze").is_ok_and(|state| state.trim() == "1")),
            _ => false,
        }
    });
    is_stopped || is_frozen
}

/// Waits until a process that only computes is stopped, and sees that it uses no CPU time then.
fn until_stopped(site: &Site, pid: u32) {
    site.until("the secondary stands still", || site.status().cores.secondary.is_empty());
    site.until("its member does", || is_stopped(pid));
    // Ten seconds of standing still may end just now, for a tenth of one.
    site.until("it uses no CPU time", || {
        let before = ticks(pid);
        sleep(Duration::from_millis(300));
        ticks(pid) == before
    });
}

/// Whether a process is in the group whose members are stopped together.
fn is_stoppable(site: &Site, pid: u32) -> bool {
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let mut groups = own.lines().filter(|line| line.contains(&site.group));
    groups.any(|line| line.contains(":freezer:") || line.ends_with("/stoppable"))
}

/// The class of the kernel's scheduler that a process is in: 0 other, 2 round robin, 5 idle.
fn class(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(38).unwrap().to_owned()
}

/// Whether a process runs only where nothing else wants to, by its class or its group's.
fn is_idle_class(site: &Site, pid: u32) -> bool {
    let status = site.status();
    let group = status.mechanisms.iter().find(|mechanism| mechanism.name == "idle class of a group").unwrap();
    match &group.by {
        Some(directory) => {
            let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
            own.contains(&site.group)
                && std::fs::read_to_string(Path::new(directory).join("cpu.idle")).unwrap().trim() == "1"
        }
        None => class(pid) == "5",
    }
}

#[test]
fn a_member_runs_where_nothing_else_wants_to_until_the_kill_switch() {
    let _turn = among_others();
    let site = Site::start(&[]);
    let member = site.member("while :; do :; done");
    assert!(is_idle_class(&site, member.pid()), "{}", site.log());
    let placed = site.status().members;
    assert_eq!((placed.len(), placed[0].pid, placed[0].role), (1, member.pid(), Role::Secondary));

    // By command, by file, by signal; each stays until it is taken back.
    ask(&site.socket(), &Request::Off).unwrap();
    assert!(!is_idle_class(&site, member.pid()) && site.status().off);
    ask(&site.socket(), &Request::On).unwrap();
    assert!(is_idle_class(&site, member.pid()) && !site.status().off);
    let off = site.directory.path().join("state/off");
    std::fs::write(&off, "").unwrap();
    site.until("the file is obeyed", || !is_idle_class(&site, member.pid()));
    std::fs::remove_file(&off).unwrap();
    site.until("limits are back", || is_idle_class(&site, member.pid()));
    kill_process(Pid::from_child(&site.controller.0), Signal::USR1).unwrap();
    site.until("the signal is obeyed", || !is_idle_class(&site, member.pid()));
    site.until("it holds in the next life", || off.exists());

    let site = site.again(&[]);
    assert!(site.status().off);
    assert_eq!(site.status().members, placed, "who lives is known in the next life");
    kill_process(Pid::from_child(&site.controller.0), Signal::USR2).unwrap();
    site.until("limits are back", || is_idle_class(&site, member.pid()));
    // Before its group goes.
    drop(member);
}

#[test]
fn settings_change_by_command_and_hold_in_the_next_life() {
    let _turn = among_others();
    let site = Site::start(&[]);
    let change =
        Change { mode: Some(Mode::RealTime), memory_bytes: Some(Limit::At(1 << 30)), ..Change::default() };
    ask(&site.socket(), &Request::Set(change)).unwrap();
    let site = site.again(&[("MFAAS_ISOLATION_MODE", "idle-class")]);
    assert_eq!(site.status().mode, Mode::RealTime);
    let too_many = Change { buffer_cores: Some(1_025), ..Change::default() };
    let refused = ask(&site.socket(), &Request::Set(too_many)).unwrap_err();
    assert!(matches!(&refused, ClientError::Refused(refused) if refused.code == "MF1103"), "{refused}");
}

/// What the site wants is put into force once: the number says which of its settings that were.
#[test]
fn settings_of_the_site_are_known_by_their_number() {
    let site = Site::start(&[]);
    assert_eq!(site.status().revision, None);
    let set = |change: Change| ask(&site.socket(), &Request::Set(change));
    let of_site =
        Change { mode: Some(Mode::RealTime), off: Some(true), revision: Some(7), ..Change::default() };
    set(of_site.clone()).unwrap();
    let status = site.status();
    assert_eq!((status.mode, status.off, status.revision), (Mode::RealTime, true, Some(7)));

    // A command on the machine holds beside it, and in the next life both are known.
    set(Change { mode: Some(Mode::IdleClass), ..Change::default() }).unwrap();
    let site = site.again(&[]);
    let status = site.status();
    assert_eq!((status.mode, status.off, status.revision), (Mode::IdleClass, true, Some(7)));

    // What this machine cannot have changes nothing, the kill switch included.
    let set = |change: Change| ask(&site.socket(), &Request::Set(change));
    let too_many =
        Change { buffer_cores: Some(1_025), off: Some(false), revision: Some(8), ..of_site.clone() };
    assert!(matches!(set(too_many).unwrap_err(), ClientError::Refused(refused) if refused.code == "MF1103"));
    let status = site.status();
    assert_eq!((status.mode, status.off, status.revision), (Mode::IdleClass, true, Some(7)));
    set(Change { off: Some(false), revision: Some(9), ..of_site }).unwrap();
    let status = site.status();
    assert_eq!((status.mode, status.off, status.revision), (Mode::RealTime, false, Some(9)));
    assert!(!site.directory.path().join("state/off").exists(), "a kill switch that is put back is no file");
}

/// What the kernel says of one process, and what the controller says of all.
#[test]
fn cpu_time_of_the_secondary_is_counted() {
    let site = Site::start(&[]);
    let before = site.status().cpu.unwrap();
    let member = site.member("while :; do :; done");
    site.until("it has used a fifth of a second", || ticks(member.pid()) >= 20);
    let now = site.status().cpu.unwrap();
    let used = now.secondary_us - before.secondary_us;
    // A tick is a hundredth of a second; what it used before it was placed is not its group's.
    assert!((100_000..60_000_000).contains(&used), "{before:?} {now:?}");
    assert_eq!(now.primary_us, before.primary_us, "nobody is primary");
}

/// The twin without the watchdog shows what it is for.
#[test]
fn after_the_death_of_the_controller_nothing_is_stopped() {
    let _turn = among_others();
    let mut site = Site::start(&[]);
    let member = site.member("while :; do :; done");
    let busy = site.squeeze();
    until_stopped(&site, member.pid());
    site.controller.0.kill().unwrap();
    site.controller.0.wait().unwrap();
    let begin = Instant::now();
    drop(busy);
    while is_stopped(member.pid()) {
        assert!(begin.elapsed() < LIFTED_WITHIN, "{}", site.log());
    }
}

#[test]
fn without_its_watchdog_a_dead_controller_would_leave_it_standing() {
    let _turn = among_others();
    let mut site = Site::start(&[]);
    let member = site.member("while :; do :; done");
    let busy = site.squeeze();
    until_stopped(&site, member.pid());
    let watchdog = child_of(site.controller.pid());
    kill_process(Pid::from_raw(watchdog as i32).unwrap(), Signal::STOP).unwrap();
    site.controller.0.kill().unwrap();
    site.controller.0.wait().unwrap();
    drop(busy);
    sleep(LIFTED_WITHIN);
    assert!(is_stopped(member.pid()), "then the watchdog is for nothing");
    kill_process(Pid::from_raw(watchdog as i32).unwrap(), Signal::CONT).unwrap();
    let begin = Instant::now();
    while is_stopped(member.pid()) {
        assert!(begin.elapsed() < LIFTED_WITHIN, "{}", site.log());
    }
}

/// With tracefs in a mount namespace of its own, if this machine lets us have one.
#[test]
fn the_kernels_scheduler_says_which_cores_are_idle() {
    let _turn = among_others();
    const WITH_TRACEFS: &str = "mount -t tracefs none /sys/kernel/tracing && exec \"$@\"";
    let unshare = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", WITH_TRACEFS, "sh", program]);
        command
    };
    if !unshare("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return; // Nobody may mount tracefs here, and a controller says so.
    }
    let group = format!("mfaas-test-{}-bpf", std::process::id());
    let program = unshare(env!("CARGO_BIN_EXE_mfaas-isolation"));
    let site = Site::start_as(program, tempfile::tempdir().unwrap(), group, &[]);
    let by =
        |status: &Status| status.mechanisms.iter().find(|one| one.name == "idle cores").unwrap().by.clone();
    assert_eq!(by(&site.status()).as_deref(), Some("BPF at sched_switch"), "{}", site.log());
    let busy = site.squeeze();
    site.until("no core is idle", || site.status().cores.idle == Some(0));
    drop(busy);
    site.until("a core is idle", || site.status().cores.idle > Some(0));
}

/// A watchdog that is killed is replaced.
#[test]
fn a_controller_is_never_without_a_watchdog() {
    let _turn = among_others();
    let site = Site::start(&[]);
    let first = child_of(site.controller.pid());
    kill_process(Pid::from_raw(first as i32).unwrap(), Signal::KILL).unwrap();
    site.until("another one is there", || {
        std::fs::read_to_string(children_file(site.controller.pid()))
            .is_ok_and(|text| text.split_whitespace().any(|pid| pid != first.to_string()))
    });
}

#[test]
fn the_kill_switch_lets_go_on_what_is_stopped() {
    let _turn = among_others();
    let site = Site::start(&[]);
    let member = site.member("while :; do :; done");
    let busy = site.squeeze();
    until_stopped(&site, member.pid());
    let begin = Instant::now();
    ask(&site.socket(), &Request::Off).unwrap();
    let took = begin.elapsed();
    drop(busy);
    assert!(!is_stopped(member.pid()), "{}", site.log());
    assert!(took < LIFTED_WITHIN, "{took:?}");
    assert_eq!(site.status().cores.secondary, site.status().cores.all);
}

/// A builder that stands still would lose the lease of its build.
#[test]
fn what_did_not_agree_to_stand_still_goes_on() {
    let _turn = among_others();
    let site = Site::start(&[]);
    let going = worker("while :; do :; done");
    let place =
        Request::Place { pid: going.pid(), role: Role::Secondary, may_stop: false, own_cores: vec![] };
    ask(&site.socket(), &place).unwrap();
    let _busy = site.squeeze();
    site.until("the secondary stands still", || site.status().cores.secondary.is_empty());
    let stoppable = site.member("exec sleep 600");
    let has_group =
        site.status().mechanisms.iter().any(|one| one.name == "stopping a group" && one.by.is_some());
    assert_eq!((is_stoppable(&site, stoppable.pid()), is_stoppable(&site, going.pid())), (has_group, false));
    // Where nothing else wants to run it gets little, and not nothing.
    let before = ticks(going.pid());
    site.until("it goes on", || ticks(going.pid()) > before);
}

#[test]
fn members_in_need_of_memory_are_ended_and_others_are_not() {
    let _turn = among_others();
    let hog = "exec python3 -c 'import time; x = b\"x\" * (300 << 20); time.sleep(600)'";
    let free = Site::start(&[]);
    let twin = free.member(hog);
    let site = Site::start(&[("MFAAS_SECONDARY_MEMORY", "268435456")]);
    let modest = site.member("exec sleep 600");
    let mut member = site.member(hog);
    site.until("the hog is ended", || member.0.try_wait().unwrap().is_some());
    site.until("it is counted", || site.status().killed == 1);
    assert_eq!(modest.pid(), site.status().members[0].pid);
    free.until("the twin has its memory", || resident_bytes(twin.pid()) > 280_000_000);
    assert_eq!((free.status().killed, free.status().members[0].pid), (0, twin.pid()));
}

/// A disk of 10 MB a second, of which the secondary can always have a twentieth. What it may is far below what it does without a
/// limit: the twin has none.
#[test]
fn a_disk_hog_is_bounded() {
    let _turn = among_others();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let device = rustix::fs::stat(directory.path()).unwrap().st_dev;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let hog = |name: &str| {
        let file = directory.path().join(name);
        format!("exec dd if=/dev/zero of={} bs=256k count=100000 oflag=direct 2>/dev/null", file.display())
    };
    let written = |name: &str| std::fs::metadata(directory.path().join(name)).map_or(0, |file| file.len());
    let disks_here = std::fs::read_to_string("/proc/diskstats").unwrap();
    let number = |row: &str| row.split_ascii_whitespace().take(2).collect::<Vec<_>>().join(":");
    if !disks_here.lines().any(|row| number(row) == device) {
        return; // Not on a disk.
    }
    let disks = format!("{device}=1000/10000000");
    let site = Site::start(&[("MFAAS_DISKS", &disks)]);
    if site.status().mechanisms.iter().any(|one| one.name == "disks of a group" && one.by.is_none()) {
        return; // No group bounds disks here, and the status says so.
    }
    let bounded = site.member(&hog("bounded"));
    site.until("a limit is in force", || site.status().disks[0].bytes_per_second_max.is_some());
    let before = written("bounded");
    sleep(Duration::from_secs(3));
    let bounded_bytes = written("bounded") - before;
    ask(&site.socket(), &Request::Off).unwrap();
    let before = written("bounded");
    sleep(Duration::from_secs(3));
    let free_bytes = written("bounded") - before;
    drop(bounded);
    assert!(bounded_bytes < 3 * 2 * 10_000_000, "{bounded_bytes}");
    assert!(free_bytes > 2 * bounded_bytes, "{free_bytes} without a limit, {bounded_bytes} with one");
}

/// The primary is in the real-time class in that mode alone, with what it started before, and what of it is secondary never is.
#[test]
fn the_class_follows_the_mode() {
    let _turn = among_others();
    if !rustix::process::geteuid().is_root() {
        return; // Nobody else may use that class.
    }
    let site = Site::start(&[]);
    let primary = worker("sleep 600 & sleep 601 & wait");
    let mut children = Vec::new();
    site.until("its children are there", || {
        children = children_of(primary.pid());
        children.len() == 2
    });
    let place = |pid, role| {
        ask(&site.socket(), &Request::Place { pid, role, may_stop: false, own_cores: vec![] }).unwrap()
    };
    place(primary.pid(), Role::Primary);
    place(children[1], Role::Secondary);
    let set =
        |mode| ask(&site.socket(), &Request::Set(Change { mode: Some(mode), ..Change::default() })).unwrap();
    let classes = || [primary.pid(), children[0], children[1]].map(class);
    set(Mode::RealTime);
    assert_eq!(classes(), ["2", "2", "0"], "{}", site.log());
    set(Mode::IdleClass);
    assert_eq!(classes()[..2], ["0", "0"], "{}", site.log());
    set(Mode::RealTime);
    ask(&site.socket(), &Request::Off).unwrap();
    assert_eq!(classes()[..2], ["0", "0"], "{}", site.log());
    // Nor was it tried: version 1 would have refused it.
    assert!(!site.log().contains("ERROR"), "{}", site.log());
}

#[test]
fn nobody_places_what_is_not_theirs() {
    let _turn = among_others();
    let site = Site::start(&[]);
    let stranger = std::process::id();
    let socket = site.socket();
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{}')\n\
         s.sendall(b'{{\"request\":\"place\",\"pid\":{stranger},\"role\":\"secondary\",\"may_stop\":true}}\\n')\n\
         print(s.makefile().readline())",
        socket.display()
    );
    let said = Command::new("python3").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("MF1101"), "{said}");
    assert!(site.status().members.is_empty());
    for wrong in ["", "{}", "{\"request\":\"off\"", "[1]"] {
        let answer = send(&socket, wrong);
        assert!(answer.contains("MF1103"), "{wrong}: {answer}");
    }
    assert!(send(&socket, &"x".repeat(10_000)).contains("MF1103"));
}

fn send(socket: &Path, line: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    // What is too long is refused before it has left.
    let _ = stream.write_all(format!("{line}\n").as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn children_file(pid: u32) -> String {
    format!("/proc/{pid}/task/{pid}/children")
}

fn children_of(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(children_file(pid)).unwrap();
    children.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

fn child_of(pid: u32) -> u32 {
    children_of(pid)[0]
}

/// Whose workers have a core for themselves says so, and it is lent to nobody, busy or not, also after the controller's death.
#[test]
fn cores_that_workers_have_for_themselves_are_not_lent() {
    let _turn = among_others();
    let variables = [("MFAAS_ISOLATION_MODE", "blind"), ("MFAAS_BUFFER_CORES", "0")];
    let site = Site::start(&variables);
    let all = CoreSet::parse(&site.status().cores.all).unwrap();
    let own = all.iter().last().unwrap();
    let is_lent =
        |site: &Site| CoreSet::parse(&site.status().cores.secondary).is_ok_and(|lent| lent.contains(own));
    site.until("every core that is idle is lent", || is_lent(&site));
    let primary = worker("sleep 600");
    place_primary(&site.socket(), primary.pid(), &[own, 100_000]).unwrap();
    site.until("the worker's core is not lent", || !is_lent(&site));
    // Where nothing can be lent, what may not stand still is not put there either.
    let going_on = worker("sleep 600");
    place_child(&site.socket(), going_on.pid()).unwrap();
    let all_but_one = u32::try_from(all.len() - 1).unwrap();
    ask(&site.socket(), &Request::Set(Change { buffer_cores: Some(all_but_one), ..Change::default() }))
        .unwrap();
    site.until("nothing is lent", || site.status().cores.secondary.is_empty());
    site.until("what goes on is kept off the worker's core", || !cores_of(going_on.pid()).contains(own));
    ask(&site.socket(), &Request::Set(Change { buffer_cores: Some(0), ..Change::default() })).unwrap();
    drop(going_on);
    let site = site.again(&variables);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(500) {
        let limit = site.status().cores;
        // Before the first look nothing is limited.
        assert!(limit.secondary == limit.all || !is_lent(&site), "{limit:?}");
        sleep(Duration::from_millis(5));
    }
    assert!(!is_lent(&site));
    drop(primary);
    site.until("the core of a worker that has ended is lent", || is_lent(&site));
}

/// Where a process may run.
fn cores_of(pid: u32) -> CoreSet {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    CoreSet::parse(list.trim()).unwrap()
}
