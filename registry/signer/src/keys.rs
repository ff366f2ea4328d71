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
use crate::rotation::{self, Change, OnlineKeys};

const STATEMENTS_KEY: &str = "statements.key";
const SETS_KEY: &str = "serving-sets.key";
/// Both, in an installation from before there were two; the next replacement makes two of it.
const ONLINE_KEY: &str = "online.key";
const ROOT_KEY: &str = "root.key";
const ROOT_PUBLIC: &str = "root.pub";
const KEY_LIST: &str = "keylist.json";
/// A key file is a few hundred bytes.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Makes root key, online keys and the key list, unless all of them are there.
///
/// Some of them is an error: to replace one of them silently would lock out every node.
pub(crate) fn init(root_dir: &Path, keys_dir: &Path) -> anyhow::Result<()> {
    let mut files = vec![root_dir.join(ROOT_KEY), root_dir.join(ROOT_PUBLIC), root_dir.join(KEY_LIST)];
    match keys_dir.join(ONLINE_KEY) {
        online if online.exists() => files.push(online),
        _ => files.extend([keys_dir.join(STATEMENTS_KEY), keys_dir.join(SETS_KEY)]),
    }
    let missing: Vec<_> = files.iter().filter(|file| !file.exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if missing.len() != files.len() {
        bail!("some key files exist, but not {missing:?}: nothing was changed");
    }
    let root = PrivateKey::generate()?;
    let online = OnlineKeys { statements: PrivateKey::generate()?, sets: PrivateKey::generate()? };
    let list = sign(&rotation::first_list(&online.public(), Utc::now()), &[&root])?;
    for dir in [root_dir, keys_dir] {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .with_context(|| dir.display().to_string())?;
    }
    write_new(&keys_dir.join(STATEMENTS_KEY), online.statements.to_pem()?.as_bytes(), 0o600)?;
    write_new(&keys_dir.join(SETS_KEY), online.sets.to_pem()?.as_bytes(), 0o600)?;
    write_new(&root_dir.join(ROOT_KEY), root.to_pem()?.as_bytes(), 0o600)?;
    write_new(&root_dir.join(ROOT_PUBLIC), root.public().to_pem()?.as_bytes(), 0o644)?;
    write_new(&root_dir.join(KEY_LIST), &list, 0o644)
}

/// Signs the next key list with the root key and makes the online keys that it names anew; returns the list's version. Nothing
/// runs with them before the list is published and the signer started anew.
///
/// The list is written before the keys take their places: a crash in between leaves a list that names
/// keys that nobody uses, and the next rotation goes on from there.
pub(crate) fn rotate(root_dir: &Path, keys_dir: &Path, change: Change) -> anyhow::Result<u32> {
    let root = read_key(&root_dir.join(ROOT_KEY))?;
    let path = root_dir.join(KEY_LIST);
    let envelope = fs::read(&path).with_context(|| path.display().to_string())?;
    let list = verify::<KeyList>(&envelope, &Trust::pinned(root.public()))?;
    let present = load(keys_dir)?;
    let (before, replaced) = (present.public(), change.replaces());
    let next_key = |present, replaced| if replaced { PrivateKey::generate() } else { Ok(present) };
    let online = OnlineKeys {
        statements: next_key(present.statements, replaced.statements)?,
        sets: next_key(present.sets, replaced.sets)?,
    };
    let next = rotation::next_list(&list, &before, &online.public(), change, Utc::now())?;
    let envelope = sign(&next, &[&root])?;
    // Whose the new files are says the one that is there.
    let single = Some(keys_dir.join(ONLINE_KEY)).filter(|online| online.exists());
    let halves = [(STATEMENTS_KEY, &online.statements), (SETS_KEY, &online.sets)]
        .map(|(name, key)| {
            let path = keys_dir.join(name);
            let half =
                write_beside(&path, single.as_ref().unwrap_or(&path), key.to_pem()?.as_bytes(), 0o600)?;
            anyhow::Ok((half, path))
        })
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    fs::rename(write_beside(&path, &path, &envelope, 0o644)?, &path)?;
    for (half, path) in halves {
        fs::rename(half, path)?;
    }
    if let Some(single) = single {
        fs::remove_file(single)?;
    }
    for dir in [root_dir, keys_dir] {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(next.version)
}

/// The root key that stands beside a file of the root directory.
pub(crate) fn root_beside(file: &Path) -> anyhow::Result<PublicKey> {
    let root = file.with_file_name(ROOT_PUBLIC);
    let text = fs::read_to_string(&root).with_context(|| root.display().to_string())?;
    PublicKey::from_pem(&text).with_context(|| root.display().to_string())
}

/// Puts a key list into the database, after the root key beside the file has verified it.
pub(crate) fn publish(file: &Path, database_url: &str) -> anyhow::Result<()> {
    let envelope = fs::read(file).with_context(|| file.display().to_string())?;
    let list = verify::<KeyList>(&envelope, &Trust::pinned(root_beside(file)?))?;
    ledger::publish_key_list(database_url, list.version, std::str::from_utf8(&envelope)?)
}

/// The online keys of `keys_dir`; refuses a file that others can read. The single key counts as long as it is there: a
/// rotation takes it away last.
pub(crate) fn load(keys_dir: &Path) -> anyhow::Result<OnlineKeys<PrivateKey>> {
    let online = keys_dir.join(ONLINE_KEY);
    let (statements, sets) = if online.exists() {
        (online.clone(), online)
    } else {
        (keys_dir.join(STATEMENTS_KEY), keys_dir.join(SETS_KEY))
    };
    Ok(OnlineKeys { statements: read_key(&statements)?, sets: read_key(&sets)? })
}

impl OnlineKeys<PrivateKey> {
    pub(crate) fn public(&self) -> OnlineKeys<PublicKey> {
        OnlineKeys { statements: self.statements.public(), sets: self.sets.public() }
    }
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

/// Writes the successor of the file at `path` next to it, for the owner of `like`, and returns where.
fn write_beside(path: &Path, like: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<PathBuf> {
    let half = path.with_extension("next");
    match fs::remove_file(&half) {
        // What a rotation that died left behind was never used.
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| half.display().to_string()),
    }
    write_new(&half, bytes, mode)?;
    let owner = fs::metadata(like).with_context(|| like.display().to_string())?;
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
