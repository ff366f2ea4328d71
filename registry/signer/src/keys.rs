//! Key files: made once, read at start, replaced only by a rotation.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use chrono::Utc;
use mfaas_attest::{KeyList, PrivateKey, PublicKey, Trust, sign, verify};
use zeroize::Zeroizing;

use crate::ledger;
use crate::rotation::{self, Change};

const ONLINE_KEY: &str = "online.key";
const ROOT_KEY: &str = "root.key";
const ROOT_PUBLIC: &str = "root.pub";
const KEY_LIST: &str = "keylist.json";
/// A key file is a few hundred bytes.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Makes root key, online key and the key list, unless all of them are there.
///
/// Half a set is an error: to replace one of them silently would lock out every node.
pub(crate) fn init(root_dir: &Path, keys_dir: &Path) -> anyhow::Result<()> {
    let files = [
        root_dir.join(ROOT_KEY),
        root_dir.join(ROOT_PUBLIC),
        root_dir.join(KEY_LIST),
        keys_dir.join(ONLINE_KEY),
    ];
    let missing: Vec<_> = files.iter().filter(|file| !file.exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if missing.len() != files.len() {
        bail!("some key files exist, but not {missing:?}: nothing was changed");
    }
    let (root, online) = (PrivateKey::generate()?, PrivateKey::generate()?);
    let list = sign(&rotation::first_list(&online.public(), Utc::now()), &[&root])?;
    for dir in [root_dir, keys_dir] {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .with_context(|| dir.display().to_string())?;
    }
    write_new(&keys_dir.join(ONLINE_KEY), online.to_pem()?.as_bytes(), 0o600)?;
    write_new(&root_dir.join(ROOT_KEY), root.to_pem()?.as_bytes(), 0o600)?;
    write_new(&root_dir.join(ROOT_PUBLIC), root.public().to_pem()?.as_bytes(), 0o644)?;
    write_new(&root_dir.join(KEY_LIST), &list, 0o644)
}

/// Signs the next key list with the root key and, unless the present key is only renewed, makes the
/// online key that it names; returns the list's version. Nothing runs with it before the list is
/// published and the signer started anew.
///
/// The list is written before the key takes its place: a crash in between leaves a list that names
/// a key that nobody uses, and the next rotation goes on from there.
pub(crate) fn rotate(root_dir: &Path, keys_dir: &Path, change: Change) -> anyhow::Result<u32> {
    let root = read_key(&root_dir.join(ROOT_KEY))?;
    let present = load(keys_dir)?.public();
    let path = root_dir.join(KEY_LIST);
    let envelope = fs::read(&path).with_context(|| path.display().to_string())?;
    let list = verify::<KeyList>(&envelope, &Trust::pinned(root.public()))?;
    let fresh = match change {
        Change::Replace | Change::ReplaceLeaked => Some(PrivateKey::generate()?),
        Change::Renew => None,
    };
    let online = fresh.as_ref().map_or(present, PrivateKey::public);
    let next = rotation::next_list(&list, &present, &online, change, Utc::now())?;
    let envelope = sign(&next, &[&root])?;
    let half = fresh.map(|key| write_beside(&keys_dir.join(ONLINE_KEY), key.to_pem()?.as_bytes(), 0o600));
    let half = half.transpose()?;
    fs::rename(write_beside(&path, &envelope, 0o644)?, &path)?;
    if let Some(half) = half {
        fs::rename(half, keys_dir.join(ONLINE_KEY))?;
    }
    for dir in [root_dir, keys_dir] {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(next.version)
}

/// Puts a key list into the database, after the root key beside the file has verified it.
pub(crate) fn publish(file: &Path, database_url: &str) -> anyhow::Result<()> {
    let envelope = fs::read(file).with_context(|| file.display().to_string())?;
    let root = file.with_file_name(ROOT_PUBLIC);
    let root = fs::read_to_string(&root).with_context(|| root.display().to_string())?;
    let list = verify::<KeyList>(&envelope, &Trust::pinned(PublicKey::from_pem(&root)?))?;
    ledger::publish_key_list(database_url, list.version, std::str::from_utf8(&envelope)?)
}

/// The online key of `keys_dir`; refuses a file that others can read.
pub(crate) fn load(keys_dir: &Path) -> anyhow::Result<PrivateKey> {
    read_key(&keys_dir.join(ONLINE_KEY))
}

fn read_key(path: &Path) -> anyhow::Result<PrivateKey> {
    let about = || path.display().to_string();
    let metadata = fs::metadata(path).with_context(about)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        bail!("{} can be read by others (mode {:o})", about(), metadata.permissions().mode() & 0o777);
    }
    if metadata.len() > KEY_FILE_BYTES_MAX {
        bail!("{} is too large to be a key", about());
    }
    let pem = Zeroizing::new(fs::read_to_string(path).with_context(about)?);
    PrivateKey::from_pem(&pem).with_context(about)
}

/// Writes the successor of the file at `path` next to it, for the same owner, and returns where.
fn write_beside(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<PathBuf> {
    let half = path.with_extension("next");
    match fs::remove_file(&half) {
        // What a rotation that died left behind was never used.
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| half.display().to_string()),
    }
    write_new(&half, bytes, mode)?;
    let owner = fs::metadata(path).with_context(|| path.display().to_string())?;
    std::os::unix::fs::chown(&half, Some(owner.uid()), Some(owner.gid()))?;
    Ok(half)
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .with_context(|| path.display().to_string())?;
    file.write_all(bytes)?;
    Ok(file.sync_all()?)
}
