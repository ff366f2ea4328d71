//! Bytes by their SHA-256: uploads and artifacts, in a directory or an S3-compatible store.
//!
//! Writing goes to `incoming/<uuid>` and is renamed to `sha256/<2 digits>/<64 digits>` when it is
//! whole, so no reader ever sees half a blob. Reading hashes again: a name is a claim about the
//! bytes, and a store that lies is found out here. Must never return bytes that do not match,
//! read more than the caller asked for, or decide what bytes mean.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use mfaas_ident::Digest;
use mfaas_rules::{Code, codes};
use object_store::aws::AmazonS3Builder;
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

mod collect;
mod copying;
mod multipart;
mod numbered;

pub use collect::StoredBlob;
use multipart::Uploads;

/// Bytes held back before a write turns into a multipart upload (S3 wants at least 5 MiB a part).
const WRITE_BUFFER_BYTES: usize = 8 << 20;
/// What is written to find out whether the store takes bytes.
const PROBE_BYTES: usize = 64 << 10;
/// The object that says that this is the store, and not an empty directory over which it was to be mounted.
const MARKER: &str = "mfaas-blob-store";
/// What it says to people.
const MARKER_TEXT: &[u8] =
    b"The blob store of an mfaas site. Without this file no program takes it for one.\n";
/// What a crashed writer left in `incoming/` is removed after this time.
const ABANDONED_AFTER: Duration = Duration::from_secs(3_600);

/// Why bytes could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The store's address is not one that we understand.
    #[error("`{url}` is not a blob store: {reason}")]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What answers at the address is not the store, or not the whole of it.
    #[error(
        "{place} is not the blob store of this site: `{MARKER}` is missing there; look whether it is mounted"
    )]
    Unmarked {
        /// Its address.
        place: String,
    },
    /// There is no blob of that name in the store, which is whole.
    #[error("blob {digest} is missing")]
    Missing {
        /// Its name.
        digest: Digest,
    },
    /// The bytes do not hash to their name.
    #[error("blob {digest} is corrupt: its bytes hash to {found}")]
    Corrupt {
        /// Its name.
        digest: Digest,
        /// What the bytes hash to.
        found: Digest,
    },
    /// More bytes than the caller allowed.
    #[error("more than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// The sender of the bytes failed, for example a client that went away.
    #[error("the bytes could not be received")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store does not say which uploads nobody finished.
    #[error(
        "the blob store {place} could not be asked for unfinished multipart uploads; if it cannot list them, give the bucket \
         a lifecycle rule AbortIncompleteMultipartUpload: {source}"
    )]
    Uploads {
        /// Its address.
        place: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store failed; trying again may help.
    #[error("the blob store {place} is not available: {source}")]
    Store {
        /// Its address.
        place: String,
        /// The cause.
        #[source]
        source: object_store::Error,
    },
    /// The directory, or the end of a stream, failed; trying again may help.
    #[error("the blob store {place} is not available: {source}")]
    Io {
        /// Its address.
        place: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl BlobError {
    /// The stable code, for errors that say something about the bytes.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Corrupt { .. } => Some(codes::MF0601),
            Self::Missing { .. } => Some(codes::MF0607),
            Self::TooLarge { .. } => Some(codes::MF0101),
            Self::Address { .. }
            | Self::Unmarked { .. }
            | Self::Source(_)
            | Self::Uploads { .. }
            | Self::Store { .. }
            | Self::Io { .. } => None,
        }
    }

    /// The store is away, is not the site's, or does not hold what was stored in it.
    fn is_of_the_store(&self) -> bool {
        match self {
            Self::Unmarked { .. }
            | Self::Missing { .. }
            | Self::Corrupt { .. }
            | Self::Uploads { .. }
            | Self::Store { .. }
            | Self::Io { .. } => true,
            Self::Address { .. } | Self::TooLarge { .. } | Self::Source(_) => false,
        }
    }

    /// True when the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unmarked { .. }
            | Self::Uploads { .. }
            | Self::Store { .. }
            | Self::Io { .. }
            | Self::Source(_) => true,
            Self::Address { .. } | Self::Missing { .. } | Self::Corrupt { .. } | Self::TooLarge { .. } => {
                false
            }
        }
    }
}

/// Bytes that were received and have no name yet.
#[derive(Debug)]
pub struct Incoming {
    place: Path,
    digest: Digest,
    bytes: u64,
}

impl Incoming {
    /// Their SHA-256.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    /// Its address, for errors.
    url: Arc<str>,
    prefix: Path,
    kind: Kind,
}

/// Where abandoned writes are found besides the objects below `incoming/`.
#[derive(Debug, Clone)]
enum Kind {
    /// Files of a directory, half-written staging files included.
    Directory(PathBuf),
    /// Multipart uploads of a bucket.
    Bucket(Uploads),
}

impl Blobs {
    /// Opens `file:///absolute/directory` (made by whoever owns it) or `s3://bucket/prefix`
    /// (credentials, region and endpoint from the `AWS_*` variables).
    pub fn open(url: &str) -> Result<Self, BlobError> {
        describe_metrics();
        let address = |reason: &str| BlobError::Address { url: url.to_owned(), reason: reason.to_owned() };
        if let Some(path) = url.strip_prefix("file://") {
            let directory = PathBuf::from(path);
            if !directory.is_absolute() || !directory.is_dir() {
                return Err(address("it is not an existing absolute directory"));
            }
            let store = LocalFileSystem::new_with_prefix(&directory).map_err(|e| address(&e.to_string()))?;
            // A row that names a blob is durable, so the blob has to be as well.
            let store = Arc::new(store.with_fsync(true));
            return Ok(Self {
                store,
                url: url.into(),
                prefix: Path::default(),
                kind: Kind::Directory(directory),
            });
        }
        let rest =
            url.strip_prefix("s3://").ok_or_else(|| address("it starts with neither file:// nor s3://"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build();
        let store = Arc::new(store.map_err(|e| address(&e.to_string()))?);
        let uploads = Uploads::of(Arc::clone(&store)).map_err(|e| address(&e.to_string()))?;
        Ok(Self { store, url: url.into(), prefix: Path::from(prefix), kind: Kind::Bucket(uploads) })
    }

    /// Stores `bytes`; storing the same bytes again is harmless.
    pub async fn put(&self, bytes: Bytes) -> Result<Digest, BlobError> {
        let digest = Digest::of(&bytes);
        let incoming = self.incoming();
        measured("put", async {
            self.store.put(&incoming, bytes.into()).await.map_err(self.failed())?;
            self.rename(&incoming, &digest).await
        })
        .await?;
        Ok(digest)
    }

    /// Receives a stream of at most `bytes_max` bytes, hashing while it flows. Nobody finds them by their name before
    /// [`Self::publish`]; what is not published is for [`Self::discard`].
    ///
    /// Nothing stays behind when the stream fails or is too long.
    pub async fn receive<S, E>(&self, stream: S, bytes_max: u64) -> Result<Incoming, BlobError>
    where
        S: Stream<Item = Result<Bytes, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let place = self.incoming();
        let mut writer = BufWriter::with_capacity(Arc::clone(&self.store), place.clone(), WRITE_BUFFER_BYTES);
        // How long this takes is the sender's doing.
        let received = counted("receive", self.copy(stream, &mut writer, bytes_max).await);
        match received {
            Ok((digest, bytes)) => {
                counted("receive", writer.shutdown().await.map_err(|source| self.io(source)))?;
                Ok(Incoming { place, digest, bytes })
            }
            Err(error) => {
                // The first error is the one to tell; what is left is swept later.
                let _ = writer.abort().await;
                Err(error)
            }
        }
    }

    /// Gives received bytes their name; the same bytes again are harmless.
    pub async fn publish(&self, incoming: &Incoming) -> Result<(), BlobError> {
        measured("publish", self.rename(&incoming.place, &incoming.digest)).await
    }

    /// Throws received bytes away that were not published.
    pub async fn discard(&self, incoming: &Incoming) -> Result<(), BlobError> {
        measured("discard", async { self.store.delete(&incoming.place).await.map_err(self.failed()) }).await
    }

    /// The bytes of that name, hashed again; at most `bytes_max`. A blob is missing only in a store that is marked.
    pub async fn get(&self, digest: &Digest, bytes_max: u64) -> Result<Bytes, BlobError> {
        measured("get", self.read(digest, bytes_max)).await
    }

    async fn read(&self, digest: &Digest, bytes_max: u64) -> Result<Bytes, BlobError> {
        let found = match self.store.get(&self.place(digest)).await {
            Err(object_store::Error::NotFound { .. }) => {
                self.ready().await?;
                return Err(BlobError::Missing { digest: *digest });
            }
            found => found.map_err(self.failed())?,
        };
        if found.meta.size > bytes_max {
            return Err(BlobError::TooLarge { bytes_max });
        }
        let bytes = found.bytes().await.map_err(self.failed())?;
        let hash = Digest::of(&bytes);
        if hash == *digest { Ok(bytes) } else { Err(BlobError::Corrupt { digest: *digest, found: hash }) }
    }

    /// Whether there is a blob of that name; says nothing about its bytes.
    pub async fn exists(&self, digest: &Digest) -> Result<bool, BlobError> {
        measured("exists", async {
            match self.store.head(&self.place(digest)).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(self.failed()(error)),
            }
        })
        .await
    }

    /// Answers when the store does, and is marked.
    pub async fn ready(&self) -> Result<(), BlobError> {
        match self.store.head(&self.marker()).await {
            Ok(_) => Ok(()),
            Err(object_store::Error::NotFound { .. }) => {
                Err(BlobError::Unmarked { place: self.url.to_string() })
            }
            Err(error) => Err(self.failed()(error)),
        }
    }

    /// Marks this as the store. Only for whoever knows that it is: see `Catalog::mark_blob_store`.
    pub async fn mark(&self) -> Result<(), BlobError> {
        let text = Bytes::from_static(MARKER_TEXT);
        self.store.put(&self.marker(), text.into()).await.map(drop).map_err(self.failed())
    }

    /// Answers when the store is marked and takes bytes: a full one answers every question, and takes none.
    pub async fn writable(&self) -> Result<(), BlobError> {
        self.ready().await?;
        let probe = self.incoming();
        let stored = self.store.put(&probe, Bytes::from_static(&[0; PROBE_BYTES]).into()).await;
        let stored = stored.map(drop).map_err(self.failed());
        // What is left of a probe that failed is swept like any other file there.
        let removed = self.store.delete(&probe).await.map_err(self.failed());
        stored.and(removed)
    }

    /// Whether it is a directory: nothing is encrypted on the way to it.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory(_))
    }

    /// The error of a store that has not answered for that long.
    pub fn silent(&self, waited: Duration) -> BlobError {
        let reason = format!("no answer within {} s", waited.as_secs());
        self.io(std::io::Error::new(std::io::ErrorKind::TimedOut, reason))
    }

    /// Removes what crashed writers left behind more than an hour ago; returns how many files or uploads.
    pub async fn sweep(&self) -> Result<u64, BlobError> {
        match &self.kind {
            Kind::Directory(directory) => {
                sweep_directory(directory.join("incoming"), ABANDONED_AFTER).map_err(|source| self.io(source))
            }
            Kind::Bucket(uploads) => self.sweep_bucket(uploads, ABANDONED_AFTER).await,
        }
    }

    async fn sweep_bucket(&self, uploads: &Uploads, age: Duration) -> Result<u64, BlobError> {
        let removed = self.sweep_objects(age).await?;
        let incoming = self.prefix.clone().join("incoming");
        let aborted = uploads.abort_older(&incoming, age).await;
        let aborted = aborted.map_err(|source| BlobError::Uploads { place: self.url.to_string(), source })?;
        Ok(removed + aborted)
    }

    async fn sweep_objects(&self, age: Duration) -> Result<u64, BlobError> {
        let (mut removed, now) = (0, SystemTime::now());
        let mut left = self.store.list(Some(&self.prefix.clone().join("incoming")));
        while let Some(object) = left.next().await {
            let object = object.map_err(self.failed())?;
            if now.duration_since(object.last_modified.into()).is_ok_and(|old| old > age) {
                self.store.delete(&object.location).await.map_err(self.failed())?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// What gets a name outside of the store is lost to everybody once the store is there again.
    async fn rename(&self, incoming: &Path, digest: &Digest) -> Result<(), BlobError> {
        self.ready().await?;
        self.store.rename(incoming, &self.place(digest)).await.map_err(self.failed())
    }

    async fn copy<S, E>(
        &self,
        stream: S,
        writer: &mut BufWriter,
        bytes_max: u64,
    ) -> Result<(Digest, u64), BlobError>
    where
        S: Stream<Item = Result<Bytes, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut stream = std::pin::pin!(stream);
        let (mut hash, mut total) = (Sha256::new(), 0_u64);
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|e| BlobError::Source(e.into()))?;
            total += piece.len() as u64;
            if total > bytes_max {
                return Err(BlobError::TooLarge { bytes_max });
            }
            hash.update(&piece);
            writer.put(piece).await.map_err(self.failed())?;
        }
        Ok((Digest::from_bytes(hash.finalize().into()), total))
    }

    fn failed(&self) -> impl Fn(object_store::Error) -> BlobError {
        |source| BlobError::Store { place: self.url.to_string(), source }
    }

    fn io(&self, source: std::io::Error) -> BlobError {
        BlobError::Io { place: self.url.to_string(), source }
    }

    fn marker(&self) -> Path {
        self.prefix.clone().join(MARKER)
    }

    fn incoming(&self) -> Path {
        self.prefix.clone().join("incoming").join(uuid::Uuid::new_v4().to_string())
    }

    fn place(&self, digest: &Digest) -> Path {
        let name = digest.to_string();
        self.prefix.clone().join("sha256").join(&name[..2]).join(name.as_str())
    }
}

fn describe_metrics() {
    metrics::describe_histogram!(
        "mfaas_blob_request_seconds",
        "How long the blob store took to answer, by operation."
    );
    metrics::describe_counter!(
        "mfaas_blob_errors_total",
        "Requests that the blob store failed, or for which it had not what was stored in it, by operation."
    );
}

/// The same with its time, and its failure if it is the store's.
async fn measured<T>(
    operation: &'static str,
    work: impl Future<Output = Result<T, BlobError>>,
) -> Result<T, BlobError> {
    let began = Instant::now();
    let ended = work.await;
    metrics::histogram!("mfaas_blob_request_seconds", "operation" => operation)
        .record(began.elapsed().as_secs_f64());
    counted(operation, ended)
}

/// The same with its failure alone.
fn counted<T>(operation: &'static str, ended: Result<T, BlobError>) -> Result<T, BlobError> {
    if ended.as_ref().is_err_and(BlobError::is_of_the_store) {
        metrics::counter!("mfaas_blob_errors_total", "operation" => operation).increment(1);
    }
    ended
}

/// Everything in `incoming` older than `age`, half-written staging files included.
fn sweep_directory(incoming: PathBuf, age: Duration) -> std::io::Result<u64> {
    if !incoming.is_dir() {
        return Ok(0);
    }
    let mut removed = 0;
    for entry in std::fs::read_dir(&incoming)? {
        let entry = entry?;
        // A writer may finish, or another sweeper be faster, at any moment here.
        let modified = match entry.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            metadata => metadata?.modified()?,
        };
        if SystemTime::now().duration_since(modified).is_ok_and(|old| old > age) {
            match std::fs::remove_file(entry.path()) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                outcome => outcome?,
            }
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests;
