//! Bans: what the node's directives and this node's own verdicts say, and what the scheduler holds of it.
//!
//! Must never let a function take calls whose bytes are banned: a ban is held before the function is defined.

use std::collections::HashMap;
use std::sync::Arc;

use mfaas_dispatch::{Commands, Scheduler};

use crate::directives::{BanKey, Standing};
use crate::serving::log_forwarder::LogForwarder;
use crate::serving::table::Served;

/// The bans in force.
#[derive(Debug)]
pub(super) struct Bans {
    standing: Arc<Standing>,
    log_forwarder: Arc<LogForwarder>,
    /// With the crashes that led to each, as far as it is known here.
    in_force: HashMap<BanKey, u32>,
    /// What the scheduler holds is not what was shown last.
    changed: bool,
}

impl Bans {
    pub(super) fn new(standing: Arc<Standing>, log_forwarder: Arc<LogForwarder>) -> Self {
        Self { standing, log_forwarder, in_force: HashMap::new(), changed: false }
    }

    /// The scheduler has banned a function for its crashes.
    pub(super) fn record(&mut self, served: Option<&Arc<Served>>, crashes: u32) {
        self.changed = true;
        let Some(served) = served else { return };
        self.standing.record_ban(&served.key, crashes);
        self.in_force.insert(BanKey::of(&served.key), crashes);
        tracing::error!(function = %served.key, crashes, "a function is banned on this node");
        self.log_forwarder
            .node_line(served, &format!("banned on this node after {crashes} crashes of its worker"));
    }

    /// Bans and lifts what is banned and no longer banned. Asked for in the thread that records bans: one
    /// that is recorded meanwhile is in the directives before this looks at them.
    pub(super) fn renew<'a>(
        &mut self,
        defined: impl Iterator<Item = &'a Served>,
        scheduler: &mut Scheduler,
        commands: &mut Commands,
    ) {
        self.in_force = self.standing.bans();
        defined.for_each(|served| self.hold(served, scheduler, commands));
    }

    /// The same for one function.
    pub(super) fn hold(&mut self, served: &Served, scheduler: &mut Scheduler, commands: &mut Commands) {
        let function = served.id;
        match (self.in_force.get(&BanKey::of(&served.key)), scheduler.ban_of(function)) {
            (Some(crashes), None) => {
                self.changed = true;
                if let Err(misuse) = scheduler.ban(function, *crashes, commands) {
                    tracing::error!(function = %served.key, %misuse, "a ban cannot be held");
                }
            }
            // Lifting forgets crashes, so only what is banned is lifted.
            (None, Some(_)) => {
                self.changed = true;
                scheduler.lift(function);
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Whether the scheduler holds other bans than when this was asked last.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}
