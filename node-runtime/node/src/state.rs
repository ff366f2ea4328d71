//! What the node must still know after a crash: the highest epoch it ever saw, the last documents
//! that it accepted, its identity, and a cache of bytes by digest.
//!
//! Every write is a new file, synced, renamed, and the directory synced: a crash leaves the old
//! content or the new. What is read back is never believed: documents are verified again and
//! blobs are hashed again. A damaged record of the highest epoch stops the node, since without it
//! an old set could be replayed. Of the root that a key list names the file is the only witness: which lists led to it is not
//! kept. So the file is named after what was pinned then, and another pin begins anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Utc};
use mfaas_attest::SetOrder;
use mfaas_ident::{AliasName, AssetContent, Digest, Epoch, FunctionName, TenantName, VersionNumber};

const SEEN_FILE: &str = "seen.json";
const SET_FILE: &str = "serving-set.dsse";
/// The key list in the directory of a node of the release before, which knew no other root than the pinned key.
const OLD_KEY_LIST_FILE: &str = "key-list.dsse";
const DIRECTIVES_FILE: &str = "orders.json";
const ALIASES_FILE: &str = "aliases.json";
const KEY_FILE: &str = "node.key";
const CERTIFICATE_FILE: &str = "node.pem";
const BLOBS_DIR: &str = "blobs";

/// Bytes of one file of this directory that are ever read.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {action}: {source}", .path.display())]
pub(crate) struct StateError {
    path: PathBuf,
    action: &'static str,
    source: io::Error,
}

/// The newest documents ever seen; none is followed by an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seen {
    /// Of a serving set with a good signature.
    pub(crate) epoch: Epoch,
    /// When the set of that epoch was signed.
    pub(crate) issued_at: Option<DateTime<Utc>>,
    /// Of a key list with a good signature.
    pub(crate) key_list_version: u32,
    /// What the set of that epoch named. Nothing in the record of the release before.
    #[serde(default)]
    pub(crate) set_key_list_version: u32,
}

impl Seen {
    /// Where the newest set stands.
    pub(crate) fn set_order(&self) -> SetOrder {
        let Self { epoch, issued_at, set_key_list_version: key_list_version, .. } = *self;
        SetOrder { key_list_version, epoch, issued_at }
    }

    /// Takes the place of a newer set.
    pub(crate) fn see_set(&mut self, order: SetOrder) {
        let SetOrder { key_list_version, epoch, issued_at } = order;
        *self = Self { epoch, issued_at, set_key_list_version: key_list_version, ..*self };
    }
}

/// Where an alias led on a node that takes no new versions.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptAlias {
    pub(crate) tenant: TenantName,
    pub(crate) function: FunctionName,
    pub(crate) alias: AliasName,
    pub(crate) version: VersionNumber,
}

/// Who this node is towards its server. Not printable: half of it is a private key.
pub(crate) struct NodeIdentity {
    /// PKCS#8, PEM.
    pub(crate) key_pem: Vec<u8>,
    /// The certificate and what it hangs on, PEM.
    pub(crate) certificate_pem: Vec<u8>,
}

/// The state directory, mode 0700.
#[derive(Debug, Clone)]
pub(crate) struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Opens or makes the directory.
    pub(crate) fn open(path: &Path) -> Result<Self, StateError> {
        let blobs = path.join(BLOBS_DIR);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&blobs).map_err(|source| StateError {
            path: blobs,
            action: "creating the directory",
            source,
        })?;
        Ok(Self { path: path.to_owned() })
    }

    /// The highest numbers ever seen; zeros on the first start.
    pub(crate) fn seen(&self) -> Result<Seen, StateError> {
        let Some(bytes) = self.read(SEEN_FILE)? else { return Ok(Seen::default()) };
        serde_json::from_slice(&bytes).map_err(|e| StateError {
            path: self.path.join(SEEN_FILE),
            action: "reading the highest epoch ever seen; without it the node must not load anything",
            source: e.into(),
        })
    }

    /// Makes `seen` durable. Returns only after it reached the disk.
    pub(crate) fn record_seen(&self, seen: &Seen) -> Result<(), StateError> {
        let bytes = serde_json::to_vec(seen).map_err(|e| StateError {
            path: self.path.join(SEEN_FILE),
            action: "encoding",
            source: e.into(),
        })?;
        self.write(SEEN_FILE, &bytes)
    }

    /// The envelope of the last accepted serving set.
    pub(crate) fn serving_set(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.read(SET_FILE)
    }

    /// Keeps the envelope of an accepted serving set.
    pub(crate) fn store_serving_set(&self, envelope: &[u8]) -> Result<(), StateError> {
        self.write(SET_FILE, envelope)
    }

    /// The envelope of the last key list that was accepted under that pin.
    pub(crate) fn key_list(&self, pin: Digest) -> Result<Option<Vec<u8>>, StateError> {
        Ok(match self.read(&key_list_name(pin))? {
            Some(envelope) => Some(envelope),
            None => self.read(OLD_KEY_LIST_FILE)?,
        })
    }

    /// Keeps the envelope of a key list that was accepted under that pin.
    pub(crate) fn store_key_list(&self, pin: Digest, envelope: &[u8]) -> Result<(), StateError> {
        self.write(&key_list_name(pin), envelope)
    }

    /// The last directives that were followed, and the bans that the server may not have yet.
    pub(crate) fn directives(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.read(DIRECTIVES_FILE)
    }

    /// Keeps them.
    pub(crate) fn store_directives(&self, bytes: &[u8]) -> Result<(), StateError> {
        self.write(DIRECTIVES_FILE, bytes)
    }

    /// Which aliases led where when the node was cordoned; empty when that is not known.
    pub(crate) fn aliases(&self) -> Result<Vec<KeptAlias>, StateError> {
        let Some(bytes) = self.read(ALIASES_FILE)? else { return Ok(Vec::new()) };
        serde_json::from_slice(&bytes).map_err(|e| StateError {
            path: self.path.join(ALIASES_FILE),
            action: "reading the aliases of a cordoned node",
            source: e.into(),
        })
    }

    /// Keeps them.
    pub(crate) fn store_aliases(&self, aliases: &[KeptAlias]) -> Result<(), StateError> {
        self.write(ALIASES_FILE, &serde_json::to_vec(aliases).unwrap_or_default())
    }

    /// What the node joined with, if it has.
    pub(crate) fn identity(&self) -> Result<Option<NodeIdentity>, StateError> {
        let pair = self.read(KEY_FILE)?.zip(self.read(CERTIFICATE_FILE)?);
        Ok(pair.map(|(key_pem, certificate_pem)| NodeIdentity { key_pem, certificate_pem }))
    }

    /// The key that the node asks with, until it has joined; none before the first time.
    pub(crate) fn key(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.read(KEY_FILE)
    }

    /// Keeps it, so that a node whose answer is lost asks again with the same one.
    pub(crate) fn store_key(&self, key_pem: &[u8]) -> Result<(), StateError> {
        self.write(KEY_FILE, key_pem)
    }

    /// Keeps the identity. The certificate comes last: its presence means that the node joined.
    pub(crate) fn store_identity(&self, identity: &NodeIdentity) -> Result<(), StateError> {
        self.write(KEY_FILE, &identity.key_pem)?;
        self.write(CERTIFICATE_FILE, &identity.certificate_pem)
    }

    /// The cached blob of that digest. A file with other content is removed and counts as absent.
    pub(crate) fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StateError> {
        let name = blob_name(digest);
        let Some(bytes) = self.read(&name)? else { return Ok(None) };
        if Digest::of(&bytes) == digest {
            return Ok(Some(bytes));
        }
        let path = self.path.join(name);
        tracing::warn!(path = %path.display(), "a cached blob does not match its name and is removed");
        match fs::remove_file(&path) {
            Ok(()) => Ok(None),
            Err(source) => Err(StateError { path, action: "removing a damaged blob", source }),
        }
    }

    /// The cached asset of that digest, open to be read. A file with other content is removed and counts as absent.
    pub(crate) fn asset(&self, content: &AssetContent) -> Result<Option<File>, StateError> {
        let path = self.path.join(blob_name(content.digest));
        let failed = |action, source| StateError { path: path.clone(), action, source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("reading", e)),
        };
        let (mut bytes, most) = (Vec::new(), content.bytes.saturating_add(1));
        (&file).take(most).read_to_end(&mut bytes).map_err(|e| failed("reading", e))?;
        if Digest::of(&bytes) == content.digest {
            return Ok(Some(file));
        }
        tracing::warn!(path = %path.display(), "a cached asset does not match its name and is removed");
        match fs::remove_file(&path) {
            Ok(()) => Ok(None),
            Err(source) => Err(failed("removing a damaged asset", source)),
        }
    }

    /// Keeps a blob under the digest of its bytes.
    pub(crate) fn store_blob(&self, bytes: &[u8]) -> Result<(), StateError> {
        self.write(&blob_name(Digest::of(bytes)), bytes)
    }

    /// Keeps blobs under the digests of their bytes, all of them or, after a crash, some.
    pub(crate) fn store_blobs(&self, blobs: &[Vec<u8>]) -> Result<(), StateError> {
        for bytes in blobs {
            let path = self.path.join(blob_name(Digest::of(bytes)));
            replace(&path, bytes).map_err(|source| StateError { path, action: "writing", source })?;
        }
        let path = self.path.join(BLOBS_DIR);
        sync_directory(&path).map_err(|source| StateError { path, action: "writing", source })
    }

    /// Removes every cached blob for which `keep` is false. Failures are logged: they cost space.
    pub(crate) fn prune_blobs(&self, keep: impl Fn(Digest) -> bool) {
        let Ok(entries) = fs::read_dir(self.path.join(BLOBS_DIR)) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let digest = name.to_str().and_then(|name| Digest::parse(name).ok());
            if !digest.is_some_and(&keep)
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::warn!(path = %entry.path().display(), %error, "a cached blob could not be removed");
            }
        }
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StateError> {
        let path = self.path.join(name);
        let error = |source| StateError { path: path.clone(), action: "reading", source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(error(e)),
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(error)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(error(io::Error::other("the file is larger than anything we write")));
        }
        Ok(Some(bytes))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        let path = self.path.join(name);
        write_durably(&path, bytes).map_err(|source| StateError { path, action: "writing", source })
    }
}

fn key_list_name(pin: Digest) -> String {
    format!("key-list-{pin}.dsse")
}

fn blob_name(digest: Digest) -> String {
    format!("{BLOBS_DIR}/{digest}")
}

/// Replaces `path` by `bytes`, mode 0600, so that a crash leaves either the old or the new.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes)?;
    sync_directory(parent(path))
}

/// The same, but until the directory is synced a crash may leave the old.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    /// Of this process; the same blob may be written twice at once.
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let mut draft_name = path.file_name().unwrap_or_default().to_owned();
    draft_name.push(format!(".{}-{}.new", std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed)));
    let draft = parent(path).join(draft_name);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&draft, path)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
