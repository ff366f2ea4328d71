//! A small balancer on a socket of its own, which does to connections what balancers do, and a server behind it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What becomes of one request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    /// The connection ends before anything is read.
    Cut,
    /// The request reaches the server and the connection ends before the answer.
    CutBeforeAnswer,
    /// The answer ends in its middle.
    CutInAnswer,
    /// This answer, of the balancer alone.
    Say(&'static str),
    /// The server's answer.
    Pass,
}

/// The balancer; each connection carries one request.
pub(super) struct Proxy {
    pub(super) url: String,
    /// Heads of requests that have reached the server.
    arrived: Arc<Mutex<Vec<String>>>,
    /// What was not done.
    deeds: Arc<Mutex<VecDeque<Deed>>>,
}

impl Proxy {
    /// Does these things, one after the other, and passes everything on from then on.
    pub(super) async fn new(deeds: &[Deed]) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let behind = server.local_addr().unwrap();
        let arrived: Arc<Mutex<Vec<String>>> = Arc::default();
        tokio::spawn(serve(server, Arc::clone(&arrived)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let deeds = Arc::new(Mutex::new(deeds.iter().copied().collect::<VecDeque<_>>()));
        let left = Arc::clone(&deeds);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let deed = left.lock().unwrap().pop_front().unwrap_or(Deed::Pass);
                treat(stream, behind, deed).await;
            }
        });
        Self { url, arrived, deeds }
    }

    /// How many requests have reached the server.
    pub(super) fn arrived(&self) -> usize {
        self.arrived.lock().unwrap().len()
    }

    /// How many of its deeds are left.
    pub(super) fn left(&self) -> usize {
        self.deeds.lock().unwrap().len()
    }

    /// The values of a header in the requests that have reached the server.
    pub(super) fn values(&self, header: &str) -> Vec<String> {
        let of = |head: &String| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(header))?;
            Some(line.split_once(": ")?.1.to_owned())
        };
        self.arrived.lock().unwrap().iter().filter_map(of).collect()
    }
}

/// The server: whatever it is asked, the answer is `true`.
async fn serve(listener: TcpListener, arrived: Arc<Mutex<Vec<String>>>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        arrived.lock().unwrap().push(request);
        let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\ntrue";
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

async fn treat(mut stream: TcpStream, behind: std::net::SocketAddr, deed: Deed) {
    if matches!(deed, Deed::Cut) {
        return;
    }
    let request = read_request(&mut stream).await;
    let answer = match deed {
        Deed::Say(answer) => answer.to_owned(),
        Deed::Cut | Deed::CutBeforeAnswer | Deed::CutInAnswer | Deed::Pass => {
            let mut server = TcpStream::connect(behind).await.unwrap();
            server.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            server.read_to_string(&mut answer).await.unwrap();
            answer
        }
    };
    let sent = match deed {
        Deed::CutBeforeAnswer => 0,
        Deed::CutInAnswer => answer.len() - 2,
        Deed::Cut | Deed::Say(_) | Deed::Pass => answer.len(),
    };
    stream.write_all(&answer.as_bytes()[..sent]).await.unwrap();
}

/// One request with its body, whose length its head has to name.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .to_ascii_lowercase()
                .split("content-length: ")
                .nth(1)
                .map_or(0, |rest| rest.lines().next().unwrap().trim().parse().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request ends early: {text}");
    }
}
