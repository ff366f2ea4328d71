//! A server that adds nothing of its own: a call goes through as many threads as in a node, each of which serves the victim
//! alone, and one of them computes what the function would.
//!
//! What a victim waits here beside the attacker of a node is what the machine makes every server wait whose threads share its
//! cores: in the kernel's queues of packets, and of threads that want a core.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;

use crate::function::{ANSWER_BYTES, Constants, REQUEST_BYTES, work};
use crate::sys::pin_to;

const READ_BYTES: usize = 64 << 10;
const HEADERS_MAX: usize = 16;

/// A relay and its threads, which end when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

/// One call on its way.
struct Call {
    request: [u8; REQUEST_BYTES],
    answer: Vec<u8>,
    /// The connection that waits for it.
    caller: Sender<Vec<u8>>,
}

impl Relay {
    /// Computes what `constants` say, on some cores.
    pub fn start(constants: Constants, cores: &[usize]) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen")?;
        let address = listener.local_addr()?;
        let (stopping, open) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (stopped, opened, cores) = (Arc::clone(&stopping), Arc::clone(&open), cores.to_vec());
        let accept = move || {
            // Whatever it starts stays on the same cores.
            if pin_to(&cores).is_ok() {
                accept(&listener, constants, &stopped, &opened);
            }
        };
        let acceptor = std::thread::Builder::new().name("relay".to_owned()).spawn(accept)?;
        Ok(Self { address, stopping, acceptor: Some(acceptor), open })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        // The acceptor looks when somebody comes. Where nobody can, the process ends with it.
        if TcpStream::connect(self.address).is_ok()
            && let Some(acceptor) = self.acceptor.take()
        {
            drop(acceptor.join());
        }
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Its thread reads the end; one that the client closed has read it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, constants: Constants, stopping: &AtomicBool, open: &Mutex<Vec<TcpStream>>) {
    let compute = move |mut call: Call| {
        let mut answer = [0; ANSWER_BYTES];
        let length = work(&constants, &call.request, &mut answer);
        call.answer.extend_from_slice(&answer[..length]);
        call
    };
    let back = stage(|call: Call| drop(call.caller.send(call.answer)));
    let worker = stage(move |call| drop(back.send(compute(call))));
    let dispatcher = stage(move |call| drop(worker.send(call)));
    for stream in listener.incoming().map_while(Result::ok) {
        if stopping.load(Ordering::Relaxed) {
            return;
        }
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that resets leaves nothing to be shut down later.
        open.retain(|stream| stream.peer_addr().is_ok());
        open.extend(stream.try_clone());
        let dispatcher = dispatcher.clone();
        // A connection that breaks is a call that is lost, which the generator counts.
        std::thread::spawn(move || drop(serve(stream, &dispatcher)));
    }
}

/// A thread that does one thing to each call; it ends when nobody can send to it any more.
fn stage(mut step: impl FnMut(Call) + Send + 'static) -> Sender<Call> {
    let (sender, calls) = channel();
    std::thread::spawn(move || calls.into_iter().for_each(&mut step));
    sender
}

/// Answers the requests of one connection until it ends.
fn serve(mut stream: TcpStream, dispatcher: &Sender<Call>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let (caller, answers) = channel();
    let (mut received, mut bytes) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        let read = stream.read(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        received.extend_from_slice(&bytes[..read]);
        let Some((request, end)) = request(&received)? else { continue };
        received.drain(..end);
        dispatcher.send(Call { request, answer: Vec::new(), caller: caller.clone() })?;
        let answer = answers.recv()?;
        let mut message = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len()).into_bytes();
        message.extend_from_slice(&answer);
        stream.write_all(&message)?;
    }
}

/// The beginning of the first request's body and where it ends, once all of it is there.
fn request(bytes: &[u8]) -> anyhow::Result<Option<([u8; REQUEST_BYTES], usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(bytes)? else { return Ok(None) };
    let length = request.headers.iter().find(|header| header.name == "content-length");
    let length: usize = std::str::from_utf8(length.context("a request without a length")?.value)?.parse()?;
    let body = bytes.get(head..head + length);
    let begin = body.map(|body| body.first_chunk().copied().context("a request that is too short"));
    Ok(begin.transpose()?.map(|begin| (begin, head + length)))
}
