//! The socket at which clients ask to be let in.
//!
//! Must never be open to another user, not for a moment, and never hold up one client for another.

use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use mfaas_ring::Geometry;
use mfaas_ring::local_api::{LocalEnd, read_open_request, refuse, welcome};
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::client::{Client, SLOTS, Target};
use super::inbox::{Event, Inbox};

/// Clients at once. One more is refused with that reason.
pub(super) const CLIENTS_MAX: usize = 16;
/// Connections that the kernel keeps for us.
const BACKLOG: i32 = 16;
/// Clients that are spoken to at once before they have a ring; more wait in the kernel's queue.
const GREETINGS_MAX: usize = 4;
/// After a failed accept, which mostly means that descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listening socket; its file goes when it does.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl LocalSocket {
    /// Listens at `path` with mode 0600. A socket that a dead node left there is replaced; anything else is
    /// an error.
    pub(crate) fn bind(path: &Path) -> anyhow::Result<Self> {
        clear(path)?;
        let address = SocketAddrUnix::new(path).context("the path of the socket")?;
        let fd =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .context("a socket")?;
        rustix::net::bind(&fd, &address).context("binding the socket")?;
        // Nobody connects before it listens, so the mode holds from the first moment.
        let restricted = rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR).context("restricting the socket");
        let listens = restricted.and_then(|()| rustix::net::listen(&fd, BACKLOG).context("listening"));
        let socket = Self { listener: UnixListener::from(fd), path: path.to_owned() };
        listens?;
        Ok(socket)
    }

    /// Lets clients in until `stop` turns true.
    pub(super) async fn receive(self, inbox: &Arc<Inbox>, mut stop: watch::Receiver<bool>) {
        let listener = match self.listen() {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the local socket accepts no clients"),
        };
        let (places, greetings) =
            (Arc::new(Semaphore::new(CLIENTS_MAX)), Arc::new(Semaphore::new(GREETINGS_MAX)));
        loop {
            // The semaphore is never closed.
            let Ok(greeting) = Arc::clone(&greetings).acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (inbox, place) = (Arc::clone(inbox), Arc::clone(&places).try_acquire_owned().ok());
                    tokio::task::spawn_blocking(move || {
                        receive_one(stream, place, &inbox);
                        drop(greeting);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a client of the local socket cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn listen(&self) -> std::io::Result<tokio::net::UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // Gone already only if somebody else took it away.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Takes away a socket that nobody listens at.
fn clear(path: &Path) -> anyhow::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    ensure!(metadata.file_type().is_socket(), "{} exists and is no socket", path.display());
    match UnixStream::connect(path) {
        Ok(_) => bail!("another node listens at {} already", path.display()),
        Err(_) => std::fs::remove_file(path).context("taking away the old socket"),
    }
}

fn receive_one(stream: tokio::net::UnixStream, place: Option<OwnedSemaphorePermit>, inbox: &Arc<Inbox>) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    match greet(stream, place) {
        Ok((stream, end, targets, place)) => {
            let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::info!(client = number, functions = targets.len(), "a client is let in");
            inbox.post(Event::Enters(Box::new(Client::new(
                number,
                stream,
                end,
                targets,
                &inbox.word,
                place,
            ))));
        }
        Err(error) => tracing::info!(error = format!("{error:#}"), "a client is not let in"),
    }
}

type LetIn = (UnixStream, LocalEnd, Vec<Target>, OwnedSemaphorePermit);

fn greet(stream: tokio::net::UnixStream, place: Option<OwnedSemaphorePermit>) -> anyhow::Result<LetIn> {
    let mut stream = stream.into_std().context("a connection")?;
    stream.set_nonblocking(false).context("a connection")?;
    check_user(&stream)?;
    // Before any answer: a client that is still writing would not read it.
    let request = read_open_request(&mut stream)?;
    let Some(place) = place else {
        refuse(&mut stream, &format!("{CLIENTS_MAX} clients are inside already"))?;
        bail!("too many clients");
    };
    let targets: Option<Vec<_>> = request.functions.iter().map(|name| Target::parse(name)).collect();
    let Some(targets) = targets else {
        refuse(&mut stream, "a name is not of the form tenant/function[@selector]")?;
        bail!("a name that is none");
    };
    let end = welcome(&mut stream, Geometry::new(SLOTS)?)?;
    Ok((stream, end, targets, place))
}

/// The mode of the socket's file keeps others out; should it have been loosened, this does.
fn check_user(stream: &UnixStream) -> anyhow::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream).context("who connected")?.uid;
    let own = rustix::process::geteuid();
    ensure!(peer == own || peer.is_root(), "a client of another user");
    Ok(())
}
