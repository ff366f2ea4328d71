//! An NFS server: connections to it, and requests over them.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nfs3_client::PortmapperClient;
use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_client::rpc::RpcClient;
use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::{NFS_PROGRAM, Nfs3Result, nfs_fh3, nfsstat3};
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::{self, Opaque, Pack, Unpack};
use nfs3_types::{mount, nfs3, portmap};
use percent_encoding::percent_decode_str;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use url::Url;

use crate::error::VolumeError;
use crate::limits::OPERATIONS_MAX;

/// How long a request is sent again over other connections when one is lost. A server is started again in less.
const LOST_MAX: Duration = Duration::from_secs(15);
const LOST_PAUSE: Duration = Duration::from_millis(200);
/// An answer that has not come by then does not come over this connection.
const REPLY_MAX: Duration = Duration::from_secs(10);
/// Ports that servers take for those of somebody who may connect from them.
const PRIVILEGED_PORTS: std::ops::Range<u16> = 600..1_024;
const PORTS_TRIED: usize = 32;

/// An answer has no more bytes than this: what is read, and what is said around it.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// A connection that nobody used for so long may be closed, and is not used any more.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A connection.
struct Connection {
    client: RpcClient<Stream>,
    /// The same one, to see whether the server has closed it.
    socket: OwnedFd,
    idle_since: Instant,
}

impl Connection {
    /// Whether it can be asked over it: nothing is under way, and the server has not said that it is over.
    fn is_open(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let said = rustix::net::recv(&self.socket, &mut [0_u8; 1], flags);
        self.idle_since.elapsed() < IDLE_MAX && matches!(said, Err(Errno::AGAIN))
    }
}

/// What goes to a server and comes from it.
struct Stream(TcpStream);

impl AsyncRead for Stream {
    async fn async_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("an answer that is too long"));
        }
        match self.0.read(into).await? {
            // The client of the library would ask again and again.
            0 if !into.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => Ok(bytes),
        }
    }
}

impl AsyncWrite for Stream {
    async fn async_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes).await? {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written),
        }
    }
}

/// The handle in the answer to a mount request; what stands behind it is not looked at.
struct Mounted(nfs_fh3);

impl Unpack for Mounted {
    fn unpack(input: &mut impl Read) -> xdr_codec::Result<(Self, usize)> {
        let (status, status_bytes) = mount::mountstat3::unpack(input)?;
        if !matches!(status, mount::mountstat3::MNT3_OK) {
            return Err(io::Error::other(format!("it refuses the export: {status}")).into());
        }
        let (handle, handle_bytes) = nfs_fh3::unpack(input)?;
        let rest = io::copy(input, &mut io::sink())?;
        Ok((Self(handle), status_bytes + handle_bytes + rest as usize))
    }
}

/// Where an export is, and as whom it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NfsAddress {
    host: String,
    export: String,
    uid: u32,
    gid: u32,
    nfs_port: Option<u16>,
    mount_port: Option<u16>,
}

impl NfsAddress {
    /// Of `nfs://HOST/EXPORT?uid=…&gid=…&nfsport=…&mountport=…`.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        let has_more = url.port().is_some() || url.fragment().is_some() || url.password().is_some();
        if has_more || !url.username().is_empty() || url.path().is_empty() {
            return None;
        }
        let mut address = Self {
            host: url.host_str()?.trim_matches(['[', ']']).to_owned(),
            export: percent_decode_str(url.path()).decode_utf8().ok()?.into_owned(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            nfs_port: None,
            mount_port: None,
        };
        for (name, value) in url.query_pairs() {
            match &*name {
                "uid" => address.uid = value.parse().ok()?,
                "gid" => address.gid = value.parse().ok()?,
                "nfsport" => address.nfs_port = Some(value.parse().ok()?),
                "mountport" => address.mount_port = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(address)
    }
}

/// The server of an export.
pub(crate) struct Server {
    address: NfsAddress,
    root: Mutex<Option<nfs_fh3>>,
    requests: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.address).finish()
    }
}

impl Server {
    pub(crate) fn new(address: NfsAddress) -> Self {
        let (root, idle) = Default::default();
        Self { address, root, requests: Semaphore::new(OPERATIONS_MAX), idle }
    }

    /// The root of the export.
    pub(crate) async fn root(&self) -> Result<nfs_fh3, VolumeError> {
        let began = Instant::now();
        loop {
            if let Some(root) = self.known_root() {
                return Ok(root);
            }
            match self.mount().await {
                Err(error) if began.elapsed() < LOST_MAX => {
                    tracing::debug!(%error, "an export of a file server is asked for again");
                }
                mounted => return mounted,
            }
            tokio::time::sleep(LOST_PAUSE).await;
        }
    }

    /// The root of what is exported now; the one before where that cannot be asked for.
    pub(crate) async fn root_now(&self) -> Result<nfs_fh3, VolumeError> {
        match (self.mount().await, self.known_root()) {
            (Err(_), Some(root)) => Ok(root),
            (mounted, _) => mounted,
        }
    }

    fn known_root(&self) -> Option<nfs_fh3> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn mount(&self) -> Result<nfs_fh3, VolumeError> {
        let _turn = self.requests.acquire().await.map_err(VolumeError::unavailable)?;
        let export = dirpath(Opaque::borrowed(self.address.export.as_bytes()));
        let asked = async {
            let port = self.port(self.address.mount_port, mount::PROGRAM, mount::VERSION).await?;
            let mut connection = self.open(port).await?;
            let procedure = mount::MOUNT_PROGRAM::MOUNTPROC3_MNT as u32;
            let mounted = connection.client.call(mount::PROGRAM, mount::VERSION, procedure, &export).await;
            mounted.map_err(|error| self.failed(error))
        };
        let Mounted(root) = self.in_time(asked).await?;
        *self.root.lock().unwrap_or_else(PoisonError::into_inner) = Some(root.clone());
        Ok(root)
    }

    /// The root has to be asked again.
    pub(crate) fn forget_root(&self) {
        *self.root.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Asks for what may be asked for twice: it is if no answer comes.
    pub(crate) async fn ask<C, R, E>(
        &self,
        procedure: NFS_PROGRAM,
        request: &C,
    ) -> Result<Result<R, nfsstat3>, VolumeError>
    where
        C: Pack + Send + Sync,
        Nfs3Result<R, E>: Unpack,
    {
        let began = Instant::now();
        loop {
            match self.ask_once(procedure, request).await {
                Err(error) if began.elapsed() < LOST_MAX => {
                    tracing::debug!(%error, "a request to a file server is sent again");
                }
                answered => return answered,
            }
            tokio::time::sleep(LOST_PAUSE).await;
        }
    }

    /// Asks for what may not: no answer leaves open whether it was done.
    pub(crate) async fn ask_once<C, R, E>(
        &self,
        procedure: NFS_PROGRAM,
        request: &C,
    ) -> Result<Result<R, nfsstat3>, VolumeError>
    where
        C: Pack + Send + Sync,
        Nfs3Result<R, E>: Unpack,
    {
        let began = Instant::now();
        loop {
            match self.try_ask(procedure, request).await {
                // It says so when it is about to have an answer, and has done nothing.
                Ok(Err(nfsstat3::NFS3ERR_JUKEBOX)) if began.elapsed() < LOST_MAX => {}
                answered => return answered,
            }
            tokio::time::sleep(LOST_PAUSE).await;
        }
    }

    async fn try_ask<C, R, E>(
        &self,
        procedure: NFS_PROGRAM,
        request: &C,
    ) -> Result<Result<R, nfsstat3>, VolumeError>
    where
        C: Pack + Send + Sync,
        Nfs3Result<R, E>: Unpack,
    {
        let _turn = self.requests.acquire().await.map_err(VolumeError::unavailable)?;
        let asked = async {
            let mut connection = match self.idle_connection() {
                Some(connection) => connection,
                None => {
                    let port = self.port(self.address.nfs_port, nfs3::PROGRAM, nfs3::VERSION).await?;
                    self.open(port).await?
                }
            };
            let (client, number) = (&mut connection.client, procedure as u32);
            let answered = client.call(nfs3::PROGRAM, nfs3::VERSION, number, request).await;
            let answered = answered.map_err(|error| self.failed(error))?;
            self.lock_idle().push(Connection { idle_since: Instant::now(), ..connection });
            Ok(answered)
        };
        // One over which an answer may still come is not used again.
        match self.in_time(asked).await {
            Ok(Nfs3Result::Ok(reply)) => Ok(Ok(reply)),
            Ok(Nfs3Result::Err((status, _))) => Ok(Err(status)),
            Err(error) => {
                // Others that are idle have broken off as well, if the server was started again.
                self.lock_idle().clear();
                Err(error)
            }
        }
    }

    async fn in_time<T>(
        &self,
        asked: impl Future<Output = Result<T, VolumeError>>,
    ) -> Result<T, VolumeError> {
        tokio::time::timeout(REPLY_MAX, asked).await.unwrap_or_else(|late| Err(self.failed(late)))
    }

    fn idle_connection(&self) -> Option<Connection> {
        let mut idle = self.lock_idle();
        idle.retain(Connection::is_open);
        idle.pop()
    }

    fn lock_idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self, port: u16) -> Result<Connection, VolumeError> {
        let stream = self.connect(port).await?;
        let socket = stream.as_fd().try_clone_to_owned().map_err(|error| self.failed(error))?;
        let client = RpcClient::new_with_auth(Stream(stream), self.credential(), opaque_auth::default());
        Ok(Connection { client, socket, idle_since: Instant::now() })
    }

    /// The next requests meet connections that the server closes: before that, or when it is asked.
    #[cfg(test)]
    pub(crate) async fn break_connections(&self, when_asked: bool) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        for _ in 0..3 {
            let connection = self.open(port).await.expect("it listens");
            let (mut accepted, _) = listener.accept().await.expect("it connects");
            if when_asked {
                tokio::spawn(async move { accepted.read(&mut [0; 8]).await });
            }
            self.lock_idle().push(connection);
        }
    }

    /// Where the server has a program, as its port mapper says unless it is known.
    async fn port(&self, known: Option<u16>, program: u32, version: u32) -> Result<u16, VolumeError> {
        if let Some(port) = known {
            return Ok(port);
        }
        let mut mapper = PortmapperClient::new(Stream(self.connect(portmap::PMAP_PORT).await?));
        let port = mapper.getport(program, version, portmap::IPPROTO_TCP).await;
        port.map_err(|error| self.failed(error))
    }

    async fn connect(&self, port: u16) -> Result<TcpStream, VolumeError> {
        let found = tokio::net::lookup_host((&*self.address.host, port)).await;
        let mut last = None;
        for address in found.map_err(|error| self.failed(error))? {
            match connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| self.failed("its name has no address"), |error| self.failed(error)))
    }

    fn credential(&self) -> opaque_auth<'static> {
        let NfsAddress { uid, gid, .. } = self.address;
        opaque_auth::auth_unix(&auth_unix { uid, gid, ..auth_unix::default() })
    }

    fn failed(&self, error: impl std::fmt::Display) -> VolumeError {
        VolumeError::Unavailable(format!("the file server {}: {error}", self.address.host))
    }
}

/// From a port of those that servers ask for, if this program may have one.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = || if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let any = if address.is_ipv4() { "0.0.0.0" } else { "::" };
    let mut stream = None;
    for _ in 0..PORTS_TRIED {
        let (socket, port) = (socket()?, rand::random_range(PRIVILEGED_PORTS));
        let from = SocketAddr::new(any.parse().map_err(io::Error::other)?, port);
        let connected = match socket.bind(from) {
            Ok(()) => socket.connect(address).await,
            Err(error) => Err(error),
        };
        match connected {
            Ok(connected) => {
                stream = Some(connected);
                break;
            }
            Err(error)
                if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            Err(error) => return Err(error),
        }
    }
    let stream = match stream {
        Some(stream) => stream,
        None => socket()?.connect(address).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}
