//! Between a store and its database: lets so many bytes pass, and cuts the connection; or lets nothing pass, and cuts nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// What is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// What the database is asked: it may not hear all of it.
    Requests,
    /// What it answers: it has done all of it.
    Answers,
}

/// How the socket of a PostgreSQL server is called.
pub(crate) const SOCKET: &str = ".s.PGSQL.5432";

/// A socket that leads to a server.
pub(crate) struct Relay {
    directory: tempfile::TempDir,
    /// Bytes that may still pass, in all; without a limit if negative.
    left: Arc<AtomicI64>,
    /// Bytes that have passed in that direction.
    passed: Arc<AtomicI64>,
    ends: Arc<Notify>,
    passes: watch::Sender<bool>,
    _connections: JoinSet<()>,
}

impl Relay {
    pub(crate) fn new(cut: Cut, server: PathBuf) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let (left, passed) = (Arc::new(AtomicI64::new(-1)), Arc::new(AtomicI64::new(0)));
        let ends = Arc::new(Notify::new());
        let (passes, whether) = watch::channel(true);
        let way = Way {
            server,
            cut,
            left: Arc::clone(&left),
            passed: Arc::clone(&passed),
            ends: Arc::clone(&ends),
            passes: whether,
        };
        let mut connections = JoinSet::new();
        connections.spawn(way.serve(listener));
        Self { directory, left, passed, ends, passes, _connections: connections }
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join(SOCKET)
    }

    /// The database through this relay.
    pub(crate) fn url(&self, database: &str, user: &str) -> String {
        format!("postgres:///{database}?host={}&port=5432&user={user}", self.directory.path().display())
    }

    /// Lets so many bytes pass from now on; then the connection is cut, and those after it are whole.
    pub(crate) fn cut_after(&self, bytes: i64) {
        self.left.store(bytes, Ordering::SeqCst);
    }

    /// Whether it has cut one.
    pub(crate) fn has_cut(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }

    /// Ends all connections that there are.
    pub(crate) fn drop_all(&self) {
        self.ends.notify_waiters();
    }

    /// Whether anything passes from now on. Connections stay whole, and can be made.
    pub(crate) fn let_pass(&self, passes: bool) {
        self.passes.send_replace(passes);
    }

    /// Lets everything pass.
    pub(crate) fn lift(&self) {
        self.left.store(-1, Ordering::SeqCst);
    }

    /// How many bytes have passed in the direction that it cuts.
    pub(crate) fn passed(&self) -> i64 {
        self.passed.load(Ordering::SeqCst)
    }
}

/// How connections are relayed.
#[derive(Clone)]
struct Way {
    server: PathBuf,
    cut: Cut,
    left: Arc<AtomicI64>,
    passed: Arc<AtomicI64>,
    ends: Arc<Notify>,
    passes: watch::Receiver<bool>,
}

impl Way {
    async fn serve(self, listener: UnixListener) {
        let mut connections = JoinSet::new();
        loop {
            let Ok((client, _)) = listener.accept().await else { return };
            connections.spawn(self.clone().relay(client));
            while connections.try_join_next().is_some() {}
        }
    }

    /// Ends both directions when one of them ends.
    async fn relay(self, client: UnixStream) {
        let Ok(server) = UnixStream::connect(&self.server).await else { return };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let metered = Some((&*self.left, &*self.passed));
        let (requests, answers) = match self.cut {
            Cut::Requests => (metered, None),
            Cut::Answers => (None, metered),
        };
        tokio::select! {
            () = copy(from_client, to_server, requests, self.passes.clone()) => {}
            () = copy(from_server, to_client, answers, self.passes.clone()) => {}
            () = self.ends.notified() => {}
        }
    }
}

/// Copies to the end, or until no more may pass.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    meter: Option<(&AtomicI64, &AtomicI64)>,
    mut passes: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        if passes.wait_for(|passes| *passes).await.is_err() {
            return;
        }
        let mut pass = count;
        if let Some((left, passed)) = meter {
            let before = left.load(Ordering::SeqCst);
            if before >= 0 {
                pass = count.min(before as usize);
                left.store(before - count as i64, Ordering::SeqCst);
            }
            passed.fetch_add(pass as i64, Ordering::SeqCst);
        }
        if to.write_all(&buffer[..pass]).await.is_err() || pass < count {
            return;
        }
    }
}
