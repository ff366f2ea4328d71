//! The watchdog: a second process of this program, which lets the secondary go on when the controller dies, however it dies. It
//! learns of that by the end of a pipe, so within moments, and needs nothing but the groups and the records on the disk.

use std::io::{self, Read as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use mfaas_isolation::CoreSet;
use mfaas_startup::Variables;

use crate::config::GroupConfig;
use crate::egress;
use crate::secondary::Secondary;
use crate::store::Store;

/// The command under which this program is its own watchdog.
pub(crate) const COMMAND: &str = "watchdog";
/// What the controller says when it ends in order.
const DISMISSED: u8 = b'.';

/// The running watchdog, as its controller sees it.
#[derive(Debug)]
pub(crate) struct Watchdog {
    process: Child,
    /// Its end says that the controller is gone.
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts one.
    pub(crate) fn start() -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut process = command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let pipe = process.stdin.take();
        Ok(Self { process, pipe })
    }

    /// Starts another one if this one has ended. Without one nothing is limited that would have to be lifted after a death: to be
    /// called often.
    pub(crate) fn keep(&mut self) {
        if !matches!(self.process.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        match Self::start() {
            Ok(another) => {
                tracing::warn!("the watchdog had ended, and was started again");
                *self = another;
            }
            Err(error) => tracing::error!(%error, "the watchdog has ended and cannot be started again"),
        }
    }

    /// Lets it end without doing anything, and waits for that.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // It is gone, or reads.
            let _ = io::Write::write_all(&mut pipe, &[DISMISSED]);
        }
        let _ = self.process.wait();
    }
}

/// What the watchdog does: waits for the end of the controller, and lets the secondary go on.
pub(crate) fn watch(variables: &Variables, all: &CoreSet) -> anyhow::Result<()> {
    let store = Store::open(variables.required("MFAAS_STATE_DIR")?.as_ref())?;
    let mut word = [0];
    let said = io::stdin().lock().read(&mut word)?;
    if said == 1 && word == [DISMISSED] {
        return Ok(());
    }
    let secondary = Secondary::recall(GroupConfig::read(variables)?.naming(), store.members()?);
    secondary.let_go_on(all).and(egress::remove(&store))?;
    tracing::warn!(
        "the isolation controller died: the secondary has all cores again, goes on and sends as ever"
    );
    Ok(())
}
