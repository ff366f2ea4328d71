//! The isolation controller of this machine is told that this node is primary. It answers calls with or without that: who is not
//! known is only not in the real-time class, in the mode that has one.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Before the controller is asked again: it may start after the node.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Asks until it is known; threads and workers that start meanwhile are this process's or its children. Workers have `own_cores` for
/// themselves.
pub(crate) fn announce(socket: PathBuf, own_cores: Vec<usize>) -> io::Result<()> {
    let ask = move || {
        let mut was_told = false;
        while let Err(error) = mfaas_isolation_client::join_primary(&socket, &own_cores) {
            if !was_told {
                tracing::warn!(%error, "the isolation controller does not know this node as primary; it is asked again");
            }
            was_told = true;
            thread::sleep(ASK_AGAIN);
        }
        tracing::info!(socket = %socket.display(), "this node is primary");
    };
    thread::Builder::new().name("primary".to_owned()).spawn(ask).map(drop)
}
