//! The Unix socket: one request a connection, answered by the control loop. Who asks is what the kernel says.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use mfaas_isolation_client::{REQUEST_BYTES_MAX, Refused, Request, Response};
use mfaas_rules::codes;
use rustix::net::sockopt::socket_peercred;

/// Connections at a time; further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 64;
/// How long a request may take to arrive, and its answer to leave.
const EXCHANGE_MAX: Duration = Duration::from_secs(2);
/// Before a connection is taken again after one could not be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Who may connect: all, since programs of a site have several groups. What they may ask is decided by their users.
const MODE: u32 = 0o666;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
}

/// A request on its way to the control loop.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) peer: Peer,
    pub(crate) request: Request,
    pub(crate) answer: Sender<Response>,
}

/// Listens from now on; requests go to `asked`.
pub(crate) fn listen(path: &Path, asked: Sender<Asked>) -> io::Result<()> {
    // What a life before has left: nobody listens there any more, or the supervisor would not have started us.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    thread::Builder::new().name("socket".to_owned()).spawn(move || accept(&listener, &asked))?;
    Ok(())
}

fn accept(listener: &UnixListener, asked: &Sender<Asked>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        if open.load(Ordering::Acquire) >= CONNECTIONS_MAX {
            thread::sleep(ACCEPT_PAUSE);
            continue;
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        open.fetch_add(1, Ordering::AcqRel);
        let (asked, left) = (asked.clone(), Left(Arc::clone(&open)));
        let thread = thread::Builder::new().name("request".to_owned()).spawn(move || {
            let _left = left;
            if let Err(error) = exchange(stream, &asked) {
                tracing::debug!(%error, "a request was not answered");
            }
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "a request could not be read");
        }
    }
}

/// A connection that ends.
struct Left(Arc<AtomicUsize>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn exchange(mut stream: UnixStream, asked: &Sender<Asked>) -> io::Result<()> {
    stream.set_read_timeout(Some(EXCHANGE_MAX))?;
    stream.set_write_timeout(Some(EXCHANGE_MAX))?;
    let credentials = socket_peercred(&stream)?;
    let pid = credentials.pid.as_raw_nonzero().get().unsigned_abs();
    let peer = Peer { pid, uid: credentials.uid.as_raw() };
    let mut line = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let response = match read(&line) {
        Ok(request) => {
            let (answer, answered) = mpsc::channel();
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            asked.send(Asked { peer, request, answer }).map_err(gone)?;
            answered.recv_timeout(EXCHANGE_MAX).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        }
        Err(reason) => Response::Refused(Refused { code: codes::MF1103.to_string(), reason }),
    };
    let mut line = serde_json::to_vec(&response)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn read(line: &str) -> Result<Request, String> {
    if !line.ends_with('\n') {
        return Err(format!("the request is not one line of at most {REQUEST_BYTES_MAX} bytes"));
    }
    serde_json::from_str(line).map_err(|error| format!("the request is not understood: {error}"))
}
