//! What holds a worker, in words: for the report to the server, and for metrics.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use mfaas_ident::sanitise_line;
use mfaas_ring::preload::{CONTROL_BYTES_MAX, ControlLine, KeysLine, SpeculationControls, SpeculationLine};

use super::sharing::{IsolationMinimum, Sharing};

/// A process of its own under an allow-list of system calls. It needs no namespaces, since no call
/// that names a file, a process or a socket is on the list.
const LEVEL: &str = "seccomp";

/// Bytes of the reason for missing keys that are kept: a report has room for 500 of everything here.
const REASON_BYTES_MAX: usize = 90;

/// What a worker reports about itself when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) keys: KeysLine,
    pub(crate) speculation: SpeculationLine,
}

/// What the workers are to take, what they reported last, and who runs in them.
#[derive(Debug)]
pub(crate) struct Protection {
    speculation: SpeculationControls,
    started: Mutex<Option<Started>>,
    /// What tenants share workers with; nothing while each has its own.
    shared: OnceLock<Option<Sharing>>,
    /// What must hold a call at least.
    minimum: OnceLock<IsolationMinimum>,
}

/// With every control over speculation.
impl Default for Protection {
    fn default() -> Self {
        Self::taking(SpeculationControls::ALL)
    }
}

impl Protection {
    /// Workers take these controls over speculation.
    pub(crate) fn taking(speculation: SpeculationControls) -> Self {
        Self { speculation, started: Mutex::new(None), shared: OnceLock::new(), minimum: OnceLock::new() }
    }

    /// What a worker that starts is to take.
    pub(crate) fn speculation(&self) -> SpeculationControls {
        self.speculation
    }

    /// Keeps the report of a worker, and logs it if it differs from the one before.
    pub(crate) fn record(&self, started: Started) {
        let Started { keys, speculation } = started;
        let keys = KeysLine { on: keys.on, reason: sanitise_line(&keys.reason, REASON_BYTES_MAX) };
        let started = Started { keys, speculation: bounded(speculation) };
        let before = self.lock().replace(started.clone());
        if before.as_ref() == Some(&started) {
            return;
        }
        if started.keys.on {
            tracing::info!("calls run under protection keys");
        } else {
            tracing::warn!(reason = started.keys.reason, "calls run without protection keys");
        }
        for (name, control) in controls(&started.speculation) {
            metrics::gauge!("mfaas_speculation_control", "control" => name)
                .set(f64::from(u8::from(control.holds)));
            if control.holds {
                tracing::info!(control = name, reason = control.reason, "a control over speculation holds");
            } else {
                tracing::warn!(
                    control = name,
                    reason = control.reason,
                    "a control over speculation is missing"
                );
            }
        }
    }

    /// Whether tenants share workers and what must hold a call, for as long as the node runs. Logs it.
    pub(crate) fn pools_are(&self, shared: bool, sharing: Sharing, minimum: IsolationMinimum) {
        if *self.minimum.get_or_init(|| minimum) != IsolationMinimum::Verified {
            tracing::warn!(%minimum, "code runs that is not verified, in worker processes of its tenant's own");
        }
        let shared = self.shared.get_or_init(|| shared.then_some(sharing));
        match shared {
            None => tracing::info!("each tenant has worker processes of its own"),
            Some(Sharing::WithVerifiedCode) if !self.keys_are_on() => {
                tracing::info!("tenants share worker processes and verified code keeps them apart");
            }
            Some(_) => tracing::info!("tenants share worker processes"),
        }
    }

    /// In a few words, with the reason for what is missing.
    pub(crate) fn text(&self) -> String {
        let pools = match self.shared.get() {
            None => "",
            Some(None) => ", a worker pool for each tenant",
            Some(Some(_)) => ", one worker pool for all tenants",
        };
        let code = match self.minimum.get() {
            None => "",
            Some(IsolationMinimum::Verified) => ", verified code",
            Some(_) => ", code that is not verified too",
        };
        let pools = format!("{code}{pools}");
        let started = self.lock();
        let Some(Started { keys, speculation }) = &*started else { return format!("{LEVEL}{pools}") };
        let mut text = match keys {
            KeysLine { on: true, .. } => format!("{LEVEL}{pools}, protection keys"),
            KeysLine { on: false, reason } => format!("{LEVEL}{pools}, no protection keys: {reason}"),
        };
        for (name, ControlLine { holds, reason }) in controls(speculation) {
            let no = if *holds { "" } else { "no " };
            text.push_str(&format!("; {no}{name}: {reason}"));
        }
        text
    }

    /// Whether tenants share workers.
    pub(crate) fn tenants_share(&self) -> bool {
        self.shared.get().is_some_and(Option::is_some)
    }

    /// Whether the workers' calls run under protection keys.
    pub(crate) fn keys_are_on(&self) -> bool {
        self.lock().as_ref().is_some_and(|started| started.keys.on)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The controls with the names that settings, report and metrics have for them.
fn controls(line: &SpeculationLine) -> [(&'static str, &ControlLine); 3] {
    [
        ("indirect-branches", &line.indirect_branches),
        ("store-bypass", &line.store_bypass),
        ("core-scheduling", &line.core_scheduling),
    ]
}

fn bounded(line: SpeculationLine) -> SpeculationLine {
    let bounded = |control: ControlLine| ControlLine {
        reason: sanitise_line(&control.reason, CONTROL_BYTES_MAX),
        ..control
    };
    SpeculationLine {
        indirect_branches: bounded(line.indirect_branches),
        store_bypass: bounded(line.store_bypass),
        core_scheduling: bounded(line.core_scheduling),
    }
}

/// The controls whose names stand in a list with commas between them; `none` for none of them.
pub(crate) fn parse_controls(list: &str) -> Result<SpeculationControls, String> {
    let mut controls = SpeculationControls::NONE;
    if list.trim() == "none" {
        return Ok(controls);
    }
    for name in list.split(',').map(str::trim) {
        match name {
            "indirect-branches" => controls.indirect_branches = true,
            "store-bypass" => controls.store_bypass = true,
            "core-scheduling" => controls.core_scheduling = true,
            other => {
                let known = "indirect-branches, store-bypass, core-scheduling, or none alone";
                return Err(format!("`{}` is none of {known}", sanitise_line(other, CONTROL_BYTES_MAX)));
            }
        }
    }
    Ok(controls)
}

#[cfg(test)]
mod tests;
