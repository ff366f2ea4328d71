//! What each service of this program does as a process: it stops at a signal, and says when it is ready.

use std::path::Path;

use mfaas_attest::SandboxLevel;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::BuilderError;

/// SIGTERM and SIGINT.
pub(crate) struct Shutdown {
    terminate: Signal,
    interrupt: Signal,
}

impl Shutdown {
    pub(crate) fn listen() -> Result<Self, BuilderError> {
        let failed = BuilderError::io("the signals of this process");
        let listen = || Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?));
        let (terminate, interrupt) = listen().map_err(failed)?;
        Ok(Self { terminate, interrupt })
    }

    pub(crate) async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Written beside and renamed, so that whoever waits for it never reads half of it.
pub(crate) fn write_ready_file(path: &Path, sandbox: SandboxLevel) -> Result<(), BuilderError> {
    let text = serde_json::json!({ "pid": std::process::id(), "sandbox": sandbox }).to_string();
    let part = path.with_extension("part");
    std::fs::write(&part, text).map_err(BuilderError::io(&part))?;
    std::fs::rename(&part, path).map_err(BuilderError::io(path))
}
