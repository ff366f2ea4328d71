//! Key files: made once, read at start, never written again.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use chrono::{TimeDelta, Utc};
use mfaas_attest::{KeyList, ListedKey, PrivateKey, PublicKey, Purpose, Trust, sign, verify};
use zeroize::Zeroizing;

use crate::ledger;

const ONLINE_KEY: &str = "online.key";
const ROOT_KEY: &str = "root.key";
const ROOT_PUBLIC: &str = "root.pub";
const KEY_LIST: &str = "keylist.json";
/// How long nodes accept what a listed key signed.
const KEY_VALID_DAYS: i64 = 365;
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
    let list = sign(&first_list(&online.public()), &[&root])?;
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
    let path = keys_dir.join(ONLINE_KEY);
    let about = || path.display().to_string();
    let metadata = fs::metadata(&path).with_context(about)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        bail!("{} can be read by others (mode {:o})", about(), metadata.permissions().mode() & 0o777);
    }
    if metadata.len() > KEY_FILE_BYTES_MAX {
        bail!("{} is too large to be a key", about());
    }
    let pem = Zeroizing::new(fs::read_to_string(&path).with_context(about)?);
    PrivateKey::from_pem(&pem).with_context(about)
}

fn first_list(online: &PublicKey) -> KeyList {
    let issued_at = Utc::now();
    let not_after = issued_at + TimeDelta::days(KEY_VALID_DAYS);
    let row = |purpose| ListedKey { keyid: online.id(), public: *online, purpose, not_after };
    KeyList { version: 1, issued_at, keys: vec![row(Purpose::Artifact), row(Purpose::ServingSet)] }
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
