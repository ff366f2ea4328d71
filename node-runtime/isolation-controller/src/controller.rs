//! The control loop: looks, lets the state machines decide, and writes limits only when they say so.
//!
//! Must never limit anything while the kill switch is pulled, and must never let one failed write keep it from the next.

mod cores;
mod disks;
mod memory;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use mfaas_confine::SchedulingClass;
use mfaas_ident::Moment;
use mfaas_isolation::CoreSet;
use mfaas_isolation_client::{Change, Mode, Refused, Request, Response, Role, Status};
use mfaas_rules::{Code, codes};

use crate::config::{Config, Settings, merged};
use crate::egress::Egress;
use crate::machine;
use crate::members::{MEMBERS_MAX, Record, Terms};
use crate::meters::note;
use crate::processes::{self, Process};
use crate::secondary::Secondary;
use crate::socket::{Asked, Peer};
use crate::store::Store;
use crate::watchdog::Watchdog;
use cores::CoreControl;
use disks::DiskControl;
use memory::MemoryControl;

/// How often the kill switch, signals and the watchdog are looked at: it is to act within a tenth of a second.
const LOOK: Duration = Duration::from_millis(20);
/// How often memory and members are looked at.
const SLOW_LOOK: Duration = Duration::from_millis(100);
/// How long a member that is ended for want of memory has to give it back, if it stands still.
const LAST_BREATH: Duration = Duration::from_secs(1);

/// What signals have asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    /// To end.
    pub(crate) stop: Arc<AtomicBool>,
    /// To pull the kill switch.
    pub(crate) off: Arc<AtomicBool>,
    /// To put it back.
    pub(crate) on: Arc<AtomicBool>,
}

/// The loop's state.
pub(crate) struct Controller {
    config: Config,
    store: Store,
    /// What was set by command.
    changed: Change,
    settings: Settings,
    secondary: Secondary,
    cores: CoreControl,
    memory: MemoryControl,
    disks: DiskControl,
    egress: Egress,
    watchdog: Watchdog,
    is_off: bool,
    origin: Instant,
}

impl Controller {
    /// Takes up what a life before has left: its members, what was set by command, and the kill switch.
    pub(crate) fn start(config: Config, all: CoreSet, watchdog: Watchdog) -> anyhow::Result<Self> {
        let store = Store::open(&config.state_dir)?;
        let changed = store.settings()?;
        let settings = config.settings.changed(&changed, all.len());
        let settings = settings.map_err(|reason| anyhow::anyhow!("what was set by command: {reason}"))?;
        let mut controller = Self {
            secondary: Secondary::recall(config.group.naming(), store.members()?),
            cores: CoreControl::start(all, &settings)?,
            memory: MemoryControl::start(&settings)?,
            disks: DiskControl::start(&config.disks)?,
            egress: Egress::start(&config.egress, &store),
            is_off: store.is_off(),
            origin: Instant::now(),
            store,
            changed,
            settings,
            watchdog,
            config,
        };
        if controller.is_off {
            tracing::warn!("the kill switch is pulled: nothing is limited until `mfaas node isolation on`");
            controller.lift();
        } else {
            controller.engage();
        }
        Ok(controller)
    }

    /// Runs until a signal says that it is over.
    pub(crate) fn run(mut self, asked: &Receiver<Asked>, signals: &Signals) -> anyhow::Result<()> {
        let (mut look, mut slow_look, mut round) = (Instant::now(), Instant::now(), Instant::now());
        while !signals.stop.load(Ordering::Relaxed) {
            match asked.recv_timeout(self.wait()) {
                Ok(Asked { peer, request, answer }) => {
                    // Whoever asked may be gone.
                    let _ = answer.send(self.answer(peer, request));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("nobody listens at the socket any more"),
            }
            let now = Instant::now();
            if now.duration_since(look) >= LOOK {
                look = now;
                self.obey(signals);
                self.watchdog.keep();
            }
            if self.is_off {
                continue;
            }
            if self.is_blind() {
                self.cores.look(self.now(), &self.secondary);
            }
            if now.duration_since(slow_look) >= SLOW_LOOK {
                slow_look = now;
                self.look_at_members();
            }
            if now.duration_since(round) >= disks::ROUND {
                round = now;
                self.disks.look(self.now(), &self.secondary.groups);
            }
        }
        self.lift();
        self.watchdog.dismiss();
        self.secondary.groups.remove();
        tracing::info!("the isolation controller stops, and has lifted every limit");
        Ok(())
    }

    fn wait(&self) -> Duration {
        if self.is_blind() && !self.is_off { self.cores.interval(&self.settings) } else { LOOK }
    }

    fn is_blind(&self) -> bool {
        self.settings.mode == Mode::Blind
    }

    fn now(&self) -> Moment {
        Moment(self.origin.elapsed().as_micros() as u64)
    }

    /// The kill switch, by file or signal.
    fn obey(&mut self, signals: &Signals) {
        for (signal, off) in [(&signals.off, true), (&signals.on, false)] {
            if signal.swap(false, Ordering::Relaxed) {
                self.switch(off, "a signal");
                note("keeping the kill switch", self.store.set_off(off));
            }
        }
        self.switch(self.store.is_off(), "the file `off`");
    }

    fn switch(&mut self, off: bool, by: &str) {
        if off == self.is_off {
            return;
        }
        self.is_off = off;
        if off {
            self.lift();
            tracing::warn!(by, "the kill switch is pulled: every limit is lifted");
        } else {
            self.engage();
            tracing::info!(by, mode = %self.settings.mode, "the secondary is limited again");
        }
    }

    fn lift(&mut self) {
        self.cores.lifted();
        self.memory.lifted();
        self.disks.lift(&self.secondary.groups);
        self.egress.lift(&self.store);
        note("lifting limits", self.secondary.lift(self.cores.all()));
        note(
            "lifting the class of the primary",
            self.secondary.members.set_class(Role::Primary, SchedulingClass::Other),
        );
        note("taking real time from the primary", self.secondary.groups.set_real_time(false));
    }

    /// Limits as the settings say.
    fn engage(&mut self) {
        self.cores.engage(&self.secondary);
        self.memory.engage();
        self.disks.engage();
        self.egress.engage(self.secondary.groups.network(), &self.store);
        note("setting the idle class", self.secondary.set_idle_class(true));
        let class = self.class_of_primary();
        if class == SchedulingClass::RealTime {
            note("giving real time to the primary", self.secondary.groups.set_real_time(true));
        }
        note("setting the class of the primary", self.secondary.members.set_class(Role::Primary, class));
        if class != SchedulingClass::RealTime {
            note("taking real time from the primary", self.secondary.groups.set_real_time(false));
        }
    }

    fn class_of_primary(&self) -> SchedulingClass {
        if self.settings.mode == Mode::RealTime && !self.is_off {
            SchedulingClass::RealTime
        } else {
            SchedulingClass::Other
        }
    }

    fn look_at_members(&mut self) {
        if self.secondary.members.forget_dead() {
            note("keeping who is placed", self.store.keep_members(&self.secondary.members.records()));
        }
        if self.is_blind() {
            self.cores.keep(&self.secondary);
        }
        if self.memory.look(self.now(), &self.secondary) {
            self.cores.breathe(Instant::now() + LAST_BREATH, &self.secondary);
        }
    }

    fn answer(&mut self, peer: Peer, request: Request) -> Response {
        let done = match request {
            Request::Status => return Response::Status(Box::new(self.status())),
            Request::Ended { pid } => return Response::Ended { by_us: self.memory.has_ended(pid, peer.pid) },
            Request::Place { pid, role, may_stop, own_cores } => {
                self.place(peer, pid, Terms { role, may_stop, own_cores })
            }
            Request::Off => self.allowed(peer).and_then(|()| self.command(true)),
            Request::On => self.allowed(peer).and_then(|()| self.command(false)),
            Request::Set(change) => self.allowed(peer).and_then(|()| self.set(&change)),
        };
        match done {
            Ok(()) => Response::Done,
            Err(refused) => Response::Refused(refused),
        }
    }

    /// Whether somebody may change how all are limited.
    fn allowed(&self, peer: Peer) -> Result<(), Refused> {
        let may = is_own(peer) || self.config.primary_users.contains(&peer.uid);
        let reason = || format!("user {} is neither root nor one of MFAAS_PRIMARY_USERS", peer.uid);
        if may { Ok(()) } else { Err(refused(codes::MF1101, reason())) }
    }

    /// Whether somebody may have processes placed.
    fn may_place(&self, peer: Peer) -> Result<(), Refused> {
        if self.config.secondary_users.contains(&peer.uid) {
            return Ok(());
        }
        let reason = format!("user {} is neither root nor one of MFAAS_SECONDARY_USERS", peer.uid);
        self.allowed(peer).map_err(|_| refused(codes::MF1101, reason))
    }

    fn command(&mut self, off: bool) -> Result<(), Refused> {
        // Lifted first: a disk that is full must not stand in the way.
        self.switch(off, "a command");
        self.store.set_off(off).map_err(|error| refused(codes::MF1104, error.to_string()))
    }

    fn set(&mut self, change: &Change) -> Result<(), Refused> {
        let wrong = |error: String| refused(codes::MF1103, error);
        let settings = self.settings.changed(change, self.cores.all().len()).map_err(wrong)?;
        self.cores.set(&settings).map_err(|error| wrong(error.to_string()))?;
        self.memory.set(&settings).map_err(|error| wrong(error.to_string()))?;
        tracing::info!(mode = %settings.mode, buffer_cores = settings.buffer_cores, "settings are changed");
        (self.settings, self.changed) = (settings, merged(&self.changed, change));
        match change.off {
            Some(off) if off != self.is_off => self.command(off)?,
            Some(_) | None if self.is_off => {}
            Some(_) | None => self.engage(),
        }
        let kept = self.store.keep_settings(&self.changed);
        kept.map_err(|error| {
            refused(codes::MF1104, format!("changed until the next start, and not kept: {error}"))
        })
    }

    fn place(&mut self, peer: Peer, pid: u32, terms: Terms) -> Result<(), Refused> {
        let Terms { role, may_stop, .. } = terms;
        match role {
            Role::Primary => self.allowed(peer)?,
            Role::Secondary => self.may_place(peer)?,
        }
        let gone = || refused(codes::MF1104, format!("process {pid} has ended"));
        let process = Process::open(pid).map_err(|_| gone())?;
        if !processes::is_or_descends(pid, peer.pid) {
            let reason = format!("process {pid} was not started by process {}, which asks", peer.pid);
            return Err(refused(codes::MF1101, reason));
        }
        if !self.secondary.members.has_room() {
            return Err(refused(codes::MF1102, format!("{MEMBERS_MAX} processes are placed already")));
        }
        // Lives after all that was read of it: so it was read of this one.
        let record = Record::of(&process, peer.pid, terms).ok_or_else(gone)?;
        let at_us = self.now().0;
        let placed = match role {
            Role::Primary => {
                // With what it has started: once it is a member.
                self.secondary.members.add(process, record, at_us);
                self.place_primary()
            }
            Role::Secondary => self
                .secondary
                .place(&process, may_stop, !self.is_off)
                .map(|()| self.secondary.members.add(process, record, at_us)),
        };
        let kept = placed.and_then(|()| self.store.keep_members(&self.secondary.members.records()));
        kept.map_err(|error| refused(codes::MF1104, format!("process {pid} cannot be placed: {error}")))
    }

    /// Moves the primary, and puts it into its class.
    fn place_primary(&self) -> io::Result<()> {
        let Secondary { groups, members } = &self.secondary;
        groups.add_primary(&members.processes(Role::Primary))?;
        members.set_class(Role::Primary, self.class_of_primary())
    }

    fn status(&self) -> Status {
        let mut mechanisms = self.secondary.groups.mechanisms();
        mechanisms.push(self.cores.mechanism());
        mechanisms.extend(self.egress.mechanisms());
        Status {
            off: self.is_off,
            mode: self.settings.mode,
            revision: self.changed.revision,
            cpu: Some(self.secondary.cpu_time()),
            cores: self.cores.status(&self.settings),
            memory_bytes: self.secondary.groups.memory_bytes().ok().flatten(),
            memory_bytes_max: self.memory.bytes_max(),
            available_bytes: machine::memory().map_or(0, |memory| memory.available_bytes),
            killed: self.memory.killed(),
            disks: self.disks.status(),
            members: self.secondary.members.shown(),
            mechanisms,
        }
    }
}

fn refused(code: Code, reason: String) -> Refused {
    Refused { code: code.to_string(), reason }
}

/// Whether somebody could do by themselves whatever this program does.
fn is_own(peer: Peer) -> bool {
    peer.uid == 0 || peer.uid == rustix::process::geteuid().as_raw()
}
