//! How the secondary is kept from the primary, put into force and ended again.
//!
//! The modes of the product are put into force by the product: its controller, which is asked to place both as it is for a
//! node and a build. The others are set up here. It must never leave a class, a group or a process behind that the next side
//! would be measured with.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mfaas_cgroups::Hierarchies;
use mfaas_isolation_client::{Mechanism, Mode, Request, Response, ask, place_child, place_primary};
use rustix::process::{Pid, Signal, kill_process, setpriority_process};

use crate::secondary::{Running, Work};
use crate::sides::Kit;
use crate::sides::mfaas::{Site, on_cores};
use crate::sys::cpu::class;
use crate::sys::keep_on;

/// Part of the machine's CPU time that the quota allows.
const QUOTA: f64 = 0.25;
/// How often, and with what pause, it is looked whether groups are empty.
const GONE_LOOKS: u32 = 40;
const GONE_PAUSE: Duration = Duration::from_millis(50);
/// The period of a quota: the kernel's default.
const PERIOD_US: f64 = 100_000.0;
const NICE: i32 = 19;
/// Names of groups, followed by the process that made them.
const PREFIX: &str = "mfaas-bench-";
/// A controller is up, or has ended, within this.
const CONTROLLER_WAIT_MAX: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(5);
/// Of the kernel's classes (sched(7)).
const CLASS_OTHER: u32 = 0;
const CLASS_RR: u32 = 2;

/// Who is beside the primary, and how it is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// The primary without anybody.
    Standalone,
    /// Both, and nothing done about it.
    Nothing,
    /// The secondary at the lowest priority.
    Nice,
    /// The secondary on the upper half of the cores.
    StaticCores,
    /// The secondary with a quota of CPU time.
    Quota,
    /// A mode of the product, with the controller's own number of buffer cores.
    Of(Mode),
    /// The mode `blind` with so many buffer cores.
    Blind(u32),
}

impl Policy {
    /// All, in the order of the report.
    pub(super) const ALL: [Self; 8] = [
        Self::Standalone,
        Self::Nothing,
        Self::Nice,
        Self::StaticCores,
        Self::Quota,
        Self::Of(Mode::IdleClass),
        Self::Of(Mode::Blind),
        Self::Of(Mode::RealTime),
    ];

    /// What measures call it.
    pub(super) fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Standalone => "standalone",
            Self::Nothing => "none",
            Self::Nice => "nice",
            Self::StaticCores => "static cores",
            Self::Quota => "quota",
            Self::Of(mode) => mode.as_str(),
            Self::Blind(buffer_cores) => return format!("blind, buffer cores {buffer_cores}").into(),
        })
    }

    /// The mode of the product that it is.
    pub(super) fn mode(self) -> Option<Mode> {
        match self {
            Self::Of(mode) => Some(mode),
            Self::Blind(_) => Some(Mode::Blind),
            _ => None,
        }
    }

    /// What the controller is told, beside where it works.
    fn variables(self) -> Vec<(&'static str, String)> {
        let mode = self.mode().map(|mode| ("MFAAS_ISOLATION_MODE", mode.to_string()));
        let Self::Blind(buffer_cores) = self else { return Vec::from_iter(mode) };
        mode.into_iter().chain([("MFAAS_BUFFER_CORES", buffer_cores.to_string())]).collect()
    }

    /// For the row: what is done, or which of the kernel's mechanisms the controller has here and which it lacks.
    pub(super) fn described(self, kit: &Kit, cores: &[usize]) -> anyhow::Result<String> {
        Ok(match self {
            Self::Standalone => "nobody beside the primary".to_owned(),
            Self::Nothing => "the secondary is a process like any other".to_owned(),
            Self::Nice => format!("the secondary has the priority {NICE} (setpriority(2))"),
            Self::StaticCores => format!("the secondary has cores {:?}", upper_half(cores)),
            Self::Quota => format!("the secondary's group has {} % of all cores", QUOTA * 100.0),
            Self::Of(_) | Self::Blind(_) => {
                let mut controller = Controller::start(kit, self, cores)?;
                let mechanisms = controller.mechanisms();
                controller.stop()?;
                mechanisms?
            }
        })
    }
}

fn upper_half(cores: &[usize]) -> &[usize] {
    &cores[cores.len() / 2..]
}

/// A policy in force over a primary and a secondary. Ended with this value.
#[derive(Debug)]
pub(super) struct InForce<'a> {
    site: &'a Site,
    own: OwnGroup,
    controller: Option<Controller>,
    secondary: Option<Running>,
    /// Made for a quota.
    group: Option<PathBuf>,
}

impl<'a> InForce<'a> {
    /// Starts the secondary, if there is one, and begins it once it is held back.
    pub(super) fn begin(
        kit: &Kit,
        site: &'a Site,
        policy: Policy,
        work: Work,
        cores: &[usize],
    ) -> anyhow::Result<Self> {
        let own = OwnGroup::find()?;
        let mut this = Self { site, own, controller: None, secondary: None, group: None };
        if policy == Policy::Standalone {
            return Ok(this);
        }
        // Before this process is moved: it is no part of either.
        if policy.mode().is_some() {
            this.controller = Some(Controller::start(kit, policy, cores)?);
        }
        let secondary = this.secondary.insert(Running::start(kit, work, cores.len(), site.bulk())?);
        let process = secondary.process();
        this.hold_back(policy, process, cores)?;
        if let Some(mode) = policy.mode() {
            this.prefer_primary(mode)?;
        }
        if let Some(secondary) = &mut this.secondary {
            secondary.go()?;
        }
        Ok(this)
    }

    fn hold_back(&mut self, policy: Policy, process: Pid, cores: &[usize]) -> anyhow::Result<()> {
        match policy {
            Policy::Standalone | Policy::Nothing => Ok(()),
            Policy::Nice => {
                setpriority_process(Some(process), NICE).context("lower the secondary's priority")
            }
            Policy::StaticCores => {
                keep_on(Some(process), upper_half(cores)).context("keep the secondary on some cores")
            }
            Policy::Quota => {
                let group = self.own.with_quota(QUOTA * cores.len() as f64)?;
                join(&group, process.as_raw_pid().unsigned_abs())?;
                self.group = Some(group);
                Ok(())
            }
            Policy::Of(_) | Policy::Blind(_) => {
                let controller = self.controller.as_ref().context("a controller")?;
                // Workers of bulk calls, as their node places them, and whoever makes the calls.
                let mut secondary = self.site.bulk_workers()?;
                secondary.push(process.as_raw_pid().unsigned_abs());
                let mut place = secondary.into_iter().map(|pid| place_child(&controller.socket(), pid));
                place.try_for_each(|placed| placed.context("place the secondary"))
            }
        }
    }

    /// The node with its workers, and this process, which makes the calls: a generator that waits for a core would pass for a
    /// node that does.
    fn prefer_primary(&self, mode: Mode) -> anyhow::Result<()> {
        let controller = self.controller.as_ref().context("a controller")?;
        let expected = if mode == Mode::RealTime { CLASS_RR } else { CLASS_OTHER };
        for pid in self.primary()? {
            place_primary(&controller.socket(), pid, self.site.own_cores()).context("place the primary")?;
            let found = class(pid);
            ensure!(
                found == Some(expected),
                "process {pid} of the primary is in the scheduler's class {found:?} and not in {expected}: {}",
                controller.said()
            );
        }
        Ok(())
    }

    fn primary(&self) -> anyhow::Result<Vec<u32>> {
        let mut primary = self.site.processes()?;
        primary.push(std::process::id());
        Ok(primary)
    }

    /// What the secondary has done, in the unit of its work; nothing without one.
    pub(super) fn progress(&mut self) -> anyhow::Result<f64> {
        self.secondary.as_mut().map_or(Ok(0.0), Running::progress)
    }

    /// Ends the policy and the secondary. What a round was measured with counts only if that worked.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> anyhow::Result<()> {
        // Limits first: what stands still cannot die.
        let lifted = self.controller.as_ref().map_or(Ok(()), Controller::lift);
        let ended = self.secondary.take().map_or(Ok(()), |mut secondary| secondary.end());
        let stopped =
            self.controller.take().map_or(Ok(false), |mut controller| controller.stop().map(|()| true));
        let group =
            self.group.take().map_or(Ok(()), |group| fs::remove_dir(group).context("remove the quota"));
        // All are tried before one of them is told.
        let home = if matches!(stopped, Ok(false)) { Ok(()) } else { self.bring_home() };
        lifted.and(ended).and(stopped.map(drop)).and(group).and(home)
    }

    /// The primary goes back to where it was started, and so do the node's workers of bulk calls.
    fn bring_home(&self) -> anyhow::Result<()> {
        for pid in self.primary()?.into_iter().chain(self.site.bulk_workers()?) {
            self.own.return_here(pid)?;
            let found = class(pid);
            ensure!(
                found == Some(CLASS_OTHER),
                "process {pid} of the node stays in the scheduler's class {found:?}"
            );
        }
        self.own.remove_below();
        Ok(())
    }
}

impl Drop for InForce<'_> {
    fn drop(&mut self) {
        // Whoever wants to know has asked before.
        let _ = self.undo();
    }
}

/// The control group in which this benchmark and its nodes run, for CPU time.
#[derive(Debug)]
struct OwnGroup {
    /// `/proc/self/cgroup`.
    says: String,
    directory: Option<PathBuf>,
    version_two: bool,
    /// Where the controller makes the groups for CPU time.
    place: Option<PathBuf>,
    /// Where it makes groups in other hierarchies of version 1.
    others: Vec<PathBuf>,
}

impl OwnGroup {
    fn find() -> anyhow::Result<Self> {
        let says = fs::read_to_string("/proc/self/cgroup").context("read our control groups")?;
        let hierarchies = Hierarchies::of_this_process().context("read our control groups")?;
        let one = hierarchies.version_one("cpu");
        let two = hierarchies.version_two();
        let version_two = one.is_none();
        let place = one.clone().or_else(|| {
            let two = two.as_ref()?;
            let above = two.own.parent().filter(|_| two.own != two.mount);
            Some(above.unwrap_or(&two.own).to_owned())
        });
        let others =
            ["cpuset", "freezer", "memory", "blkio"].map(|controller| hierarchies.version_one(controller));
        let others = others.into_iter().flatten().collect();
        Ok(Self { says, directory: one.or(two.map(|two| two.own)), version_two, place, others })
    }

    /// A new group whose processes have the CPU time of so many cores.
    fn with_quota(&self, cores: f64) -> anyhow::Result<PathBuf> {
        let place = self.place.as_ref().context("no hierarchy of control groups is mounted")?;
        let group = place.join(format!("{}-quota", group_name()));
        if self.version_two {
            // Where it is refused the file is missing, which says so.
            let _ = write(&place.join("cgroup.subtree_control"), "+cpu");
        }
        fs::create_dir(&group).with_context(|| format!("make {}", group.display()))?;
        let quota_us = (cores * PERIOD_US) as u64;
        let written = if self.version_two {
            write(&group.join("cpu.max"), &format!("{quota_us} {PERIOD_US}"))
        } else {
            write(&group.join("cpu.cfs_quota_us"), &quota_us.to_string())
        };
        if written.is_err() {
            let _ = fs::remove_dir(&group);
        }
        written.map(|()| group)
    }

    /// Moves a process back here, if it was moved.
    fn return_here(&self, pid: u32) -> anyhow::Result<()> {
        let says = fs::read_to_string(format!("/proc/{pid}/cgroup"));
        match (&self.directory, says) {
            (Some(directory), Ok(says)) if says != self.says => join(directory, pid),
            // It was not moved, or has ended.
            _ => Ok(()),
        }
    }

    fn places(&self) -> impl Iterator<Item = &PathBuf> {
        self.place.iter().chain(&self.others)
    }

    /// What the controller could not remove while the primary was in it.
    fn remove_below(&self) {
        for place in self.places() {
            remove(&place.join(group_name()));
        }
    }
}

/// Removes the groups of this run, as soon as the last workers of its node are gone.
pub(super) fn remove_own() -> anyhow::Result<()> {
    let own = OwnGroup::find()?;
    for _ in 0..GONE_LOOKS {
        own.remove_below();
        if !own.places().any(|place| place.join(group_name()).exists()) {
            break;
        }
        std::thread::sleep(GONE_PAUSE);
    }
    // What is left then, the next run sweeps away.
    Ok(())
}

/// Removes groups that runs left which were killed: real-time that they were given is given to nobody else.
pub(super) fn sweep() -> anyhow::Result<()> {
    for place in OwnGroup::find()?.places() {
        let entries = fs::read_dir(place).with_context(|| format!("list {}", place.display()))?;
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            let owner = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
            if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
                remove(&entry.path());
            }
        }
    }
    Ok(())
}

/// Removes a group and those below it, as far as nobody is in them.
fn remove(group: &Path) {
    let below = fs::read_dir(group).into_iter().flatten().filter_map(Result::ok);
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&entry.path());
    }
    // It is not there, or somebody is in it.
    let _ = fs::remove_dir(group);
}

fn join(group: &Path, pid: u32) -> anyhow::Result<()> {
    write(&group.join("cgroup.procs"), &pid.to_string())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("write '{text}' to {}", path.display()))
}

/// How it is had here, and why it is not, or not better.
fn mechanism(mechanism: &Mechanism) -> String {
    let by = mechanism.by.as_ref().map_or("not here".to_owned(), |by| format!("by {by}"));
    let why = mechanism.missing.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    format!("{} {by}{why}", mechanism.name)
}

/// Of this run alone.
fn group_name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// The isolation controller as it ships.
#[derive(Debug)]
struct Controller {
    child: Child,
    directory: tempfile::TempDir,
}

impl Controller {
    fn start(kit: &Kit, policy: Policy, cores: &[usize]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("a directory for the controller")?;
        let log = fs::File::create(directory.path().join("log")).context("make the controller's log")?;
        let child = on_cores(kit, (&kit.programs.isolation()?, &["serve"]), cores)?
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("MFAAS_ISOLATION_SOCKET", directory.path().join("socket"))
            .env("MFAAS_STATE_DIR", directory.path().join("state"))
            .env("MFAAS_READY_FILE", directory.path().join("ready"))
            .env("MFAAS_ISOLATION_GROUP", group_name())
            // As `mfaas up` does.
            .env("MFAAS_ISOLATION_MOVES_PRIMARY", "1")
            .envs(policy.variables())
            .env("MFAAS_LOG", "warn")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("start the isolation controller")?;
        let mut controller = Self { child, directory };
        let deadline = Instant::now() + CONTROLLER_WAIT_MAX;
        while !controller.directory.path().join("ready").exists() {
            let ended = controller.child.try_wait().context("look after the controller")?.is_some();
            ensure!(
                !ended && Instant::now() < deadline,
                "the controller does not start: {}",
                controller.said()
            );
            std::thread::sleep(LOOK);
        }
        Ok(controller)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Its log.
    fn said(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default().trim().replace('\n', " / ")
    }

    fn mechanisms(&self) -> anyhow::Result<String> {
        let answer = ask(&self.socket(), &Request::Status).context("ask the controller")?;
        let Response::Status(status) = answer else { bail!("the controller says {answer:?}") };
        let mut described: Vec<String> = status.mechanisms.iter().map(mechanism).collect();
        described.push(format!("buffer cores {}", status.cores.buffer));
        Ok(described.join("; "))
    }

    fn lift(&self) -> anyhow::Result<()> {
        ask(&self.socket(), &Request::Off).context("lift all limits").map(drop)
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("ask the controller to stop")?;
        let deadline = Instant::now() + CONTROLLER_WAIT_MAX;
        while self.child.try_wait().context("wait for the controller")?.is_none() {
            ensure!(Instant::now() < deadline, "the controller does not stop");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if self.stop().is_err() {
            // Its watchdog lifts what it leaves.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
