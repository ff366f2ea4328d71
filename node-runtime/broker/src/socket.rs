//! The Unix socket, and who may use it: the user is what the kernel says.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::broker::Broker;
use crate::connection;

/// Connections at a time: a node has two, and a moment later two more when it was started again.
const CONNECTIONS_MAX: usize = 16;
/// Before a connection is taken again after one could not be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Who may connect: all, since node and broker have different groups. Who is heard is decided by the user.
const MODE: u32 = 0o666;

/// Listens from now on.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    // What a life before has left: nobody listens there any more, or the supervisor would not have started us.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    Ok(listener)
}

/// Serves whoever may ask, for ever.
pub(crate) async fn accept(listener: &UnixListener, users: &BTreeSet<u32>, broker: &Arc<Broker>) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match user_of(&stream) {
            Ok(user) if may_ask(user, users) => {}
            Ok(user) => {
                tracing::warn!(
                    user,
                    "a program of this user may not ask: name it in MFAAS_BROKER_USERS if it is a node"
                );
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "a connection whose user is not known is closed");
                continue;
            }
        }
        let broker = Arc::clone(broker);
        tokio::spawn(async move {
            match connection::serve(stream, &broker).await {
                Ok(()) => tracing::info!("a node has left"),
                Err(error) => tracing::warn!(%error, "the connection of a node ended"),
            }
            drop(permit);
        });
    }
}

fn user_of(stream: &UnixStream) -> io::Result<u32> {
    Ok(stream.peer_cred()?.uid())
}

/// What the kernel says of a user that this program's user namespace does not know: of any of them.
const UNKNOWN_USER: u32 = 65_534;

fn may_ask(user: u32, users: &BTreeSet<u32>) -> bool {
    if user == UNKNOWN_USER {
        return false;
    }
    user == 0 || user == rustix::process::geteuid().as_raw() || users.contains(&user)
}
