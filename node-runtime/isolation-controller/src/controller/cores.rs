//! Cores of the secondary: looked at, decided about, and written.

use std::io;
use std::time::{Duration, Instant};

use mfaas_ident::Moment;
use mfaas_isolation::{
    CoreSet, CpuIsolation, CpuLimit, CpuSample, CpuSettings, Occupancy, SettingError, Siblings,
};
use mfaas_isolation_client::{Cores, Mechanism};

use crate::bpf::BpfError;
use crate::config::Settings;
use crate::meters::{self, note};
use crate::occupancy::Probe;
use crate::processes;
use crate::secondary::Secondary;

/// How long more cores than the buffer have to be idle before the secondary gets them.
const GROW_AFTER_US: u64 = 1_000;
/// How long the primary may be seen on a core of the secondary. Where only idle cores are known it never is.
const YIELD_AFTER_US: u64 = 1_000;
/// How often a look makes sense while the secondary has nothing that it could lose, and without buffer cores, where it gives way by
/// its class alone: each costs some microseconds of a core that calls may want.
const LOOK_WITHOUT_CORES: Duration = Duration::from_micros(250);
const LOOK_WITHOUT_BUFFER: Duration = Duration::from_millis(1);
/// How long the secondary stands still at a time, and how long it goes on then, on one core, where nothing else wants to run: what was
/// killed meanwhile can end only then (version 1), and no build waits for ever.
const STOPPED_MAX: Duration = Duration::from_secs(10);
const BREATH: Duration = Duration::from_millis(100);

/// Whether what may be stopped stands still.
#[derive(Debug, Clone, Copy)]
enum Standing {
    Going,
    /// Since then.
    Stopped(Instant),
    /// It was to be stopped, and goes on until then.
    Breathing(Instant),
}

/// What is known and decided about cores.
#[derive(Debug)]
pub(super) struct CoreControl {
    all: CoreSet,
    /// Those that no worker of the primary has for itself.
    shared: CoreSet,
    isolation: CpuIsolation,
    probe: Probe,
    /// Why the scheduler cannot be watched.
    unwatched: Option<BpfError>,
    standing: Standing,
    idle: Option<u32>,
    changes: u64,
}

impl CoreControl {
    /// Watches these cores.
    pub(super) fn start(all: CoreSet, settings: &Settings) -> Result<Self, SettingError> {
        let (probe, unwatched) = Probe::open(&all);
        if let Some(error) = &unwatched {
            tracing::warn!(
                %error, "idle cores are read from /proc/stat, which misses bursts: BPF needs CAP_BPF, CAP_PERFMON and tracefs"
            );
        }
        let isolation = CpuIsolation::new(settings_of(settings, &all), siblings(&all))?;
        Ok(Self {
            all,
            shared: all,
            isolation,
            probe,
            unwatched,
            standing: Standing::Going,
            idle: None,
            changes: 0,
        })
    }

    /// All that may be used.
    pub(super) fn all(&self) -> &CoreSet {
        &self.all
    }

    /// How often to look makes sense.
    pub(super) fn interval(&self, settings: &Settings) -> Duration {
        let least = match self.isolation.limit() {
            _ if settings.buffer_cores == 0 => LOOK_WITHOUT_BUFFER,
            CpuLimit::Frozen => LOOK_WITHOUT_CORES,
            CpuLimit::Lifted | CpuLimit::Cores(_) => Duration::ZERO,
        };
        Duration::from_micros(self.probe.interval_us()).max(least)
    }

    /// Other settings, for the next look.
    pub(super) fn set(&mut self, settings: &Settings) -> Result<(), SettingError> {
        self.isolation.set(settings_of(settings, &self.all))
    }

    /// Everything was lifted, and stays so.
    pub(super) fn lifted(&mut self) {
        self.isolation.lift();
        self.standing = Standing::Going;
        self.idle = None;
        meters::secondary_cores(self.all.len());
    }

    /// Begins with all cores.
    pub(super) fn engage(&mut self, secondary: &Secondary) {
        self.isolation.lift();
        self.isolation.engage();
        note("letting the secondary go on", self.put(CpuLimit::Lifted, secondary));
    }

    /// One look, and what follows from it.
    pub(super) fn look(&mut self, now: Moment, secondary: &Secondary) {
        let idle = match self.probe.idle(&self.all) {
            Ok(idle) => idle,
            Err(error) => return note("looking at the cores", Err(error)),
        };
        self.idle = Some(idle.len() as u32);
        self.keep_off(secondary);
        let sample = CpuSample { now, allowed: self.shared, occupancy: Occupancy::Idle(idle) };
        if let Some(limit) = self.isolation.step(&sample) {
            note("giving the secondary its cores", self.put(limit, secondary));
        }
        self.let_breathe(Instant::now(), secondary);
    }

    /// Notes which cores no worker of the primary has for itself. This program keeps to those as well, as far as there are some.
    fn keep_off(&mut self, secondary: &Secondary) {
        let mut shared = self.all;
        secondary.members.own_cores().for_each(|core| shared.remove(core));
        if shared == self.shared {
            return;
        }
        self.shared = shared;
        note("keeping off the workers' cores", processes::set_cores(std::process::id(), &self.open()));
        // What may not stand still is on a core that may be a worker's by now.
        if self.isolation.limit() == CpuLimit::Frozen {
            note("keeping the secondary off the workers' cores", secondary.set_cores(&last_of(&self.open())));
        }
    }

    /// Cores for what has to be somewhere: all, if workers have every one for themselves.
    fn open(&self) -> CoreSet {
        if self.shared.is_empty() { self.all } else { self.shared }
    }

    /// Keeps what members have started meanwhile on their cores.
    pub(super) fn keep(&self, secondary: &Secondary) {
        if let CpuLimit::Cores(cores) = self.isolation.limit()
            && secondary.has_to_be_kept()
        {
            note("giving the secondary its cores", secondary.set_cores(&cores));
        }
    }

    /// Puts a decision into force. A set of cores cannot be empty: what may not be stopped keeps the last one.
    fn put(&mut self, limit: CpuLimit, secondary: &Secondary) -> io::Result<()> {
        self.changes += 1;
        let (cores, is_stopped) = match limit {
            CpuLimit::Lifted => (self.all, false),
            CpuLimit::Cores(cores) => (cores, false),
            CpuLimit::Frozen => (last_of(&self.open()), true),
        };
        meters::secondary_cores(if is_stopped { 0 } else { cores.len() });
        // What is to leave leaves first; what is to go on finds its cores.
        if is_stopped {
            let stopped = self.stop(secondary);
            stopped.and(secondary.set_cores(&cores))
        } else {
            secondary.set_cores(&cores).and(self.go_on(secondary))
        }
    }

    fn stop(&mut self, secondary: &Secondary) -> io::Result<()> {
        if let Standing::Going = self.standing {
            self.standing = Standing::Stopped(Instant::now());
            return secondary.set_stopped(true);
        }
        Ok(())
    }

    fn go_on(&mut self, secondary: &Secondary) -> io::Result<()> {
        match std::mem::replace(&mut self.standing, Standing::Going) {
            Standing::Going => Ok(()),
            Standing::Stopped(_) | Standing::Breathing(_) => secondary.set_stopped(false),
        }
    }

    /// Lets what stands still for long go on for a moment, and stops it again.
    fn let_breathe(&mut self, now: Instant, secondary: &Secondary) {
        match self.standing {
            Standing::Stopped(since) if now.duration_since(since) >= STOPPED_MAX => {
                self.breathe(now + BREATH, secondary);
            }
            Standing::Breathing(until) if now >= until => {
                self.standing = Standing::Stopped(now);
                note("stopping the secondary", secondary.set_stopped(true));
            }
            _ => {}
        }
    }

    /// Lets what stands still go on until then.
    pub(super) fn breathe(&mut self, until: Instant, secondary: &Secondary) {
        if !matches!(self.standing, Standing::Going) {
            self.standing = Standing::Breathing(until);
            note("letting the secondary go on", secondary.set_stopped(false));
        }
    }

    /// For people.
    pub(super) fn status(&self, settings: &Settings) -> Cores {
        let secondary = match self.isolation.limit() {
            CpuLimit::Lifted => self.all.to_string(),
            CpuLimit::Cores(cores) => cores.to_string(),
            CpuLimit::Frozen => String::new(),
        };
        Cores {
            all: self.all.to_string(),
            secondary,
            idle: self.idle,
            buffer: settings.buffer_cores,
            changes: self.changes,
        }
    }

    /// How idle cores are known here.
    pub(super) fn mechanism(&self) -> Mechanism {
        Mechanism {
            name: "idle cores".to_owned(),
            by: Some(self.probe.name().to_owned()),
            missing: self.unwatched.as_ref().map(|error| format!("BPF: {error}")),
        }
    }
}

fn last_of(cores: &CoreSet) -> CoreSet {
    cores.difference(&cores.take(cores.len().saturating_sub(1)))
}

fn settings_of(settings: &Settings, all: &CoreSet) -> CpuSettings {
    CpuSettings {
        buffer_cores: settings.buffer_cores as usize,
        secondary_cores_max: all.len(),
        grow_after_us: GROW_AFTER_US,
        yield_after_us: YIELD_AFTER_US,
    }
}

/// Threads of one physical core, as the kernel says it.
fn siblings(all: &CoreSet) -> Siblings {
    let list = |core| {
        let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        CoreSet::parse(&std::fs::read_to_string(path).ok()?).ok()
    };
    Siblings::from_groups(all.iter().filter_map(list))
}
