//! The keys of an installation: made once, read at start, given a passphrase by whoever wants one. How they are replaced
//! stands in [`crate::keylist`].

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use chrono::Utc;
use mfaas_attest::{PrivateKey, PublicKey, sign};

use crate::keyfile::{self, KeyFile, make_dir, write_new};
use crate::passphrase::Source;
use crate::rotation::{self, OnlineKeys};

pub(crate) const STATEMENTS_KEY: &str = "statements.key";
pub(crate) const SETS_KEY: &str = "serving-sets.key";
/// Both, in an installation from before there were two; the next replacement makes two of it.
pub(crate) const ONLINE_KEY: &str = "online.key";
pub(crate) const ROOT_KEY: &str = "root.key";
pub(crate) const ROOT_PUBLIC: &str = "root.pub";
pub(crate) const KEY_LIST: &str = "keylist.json";

/// Makes root key, online keys and the key list, unless all of them are there. With a source of a passphrase the root key
/// takes one.
///
/// Some of them is an error: to replace one of them silently would lock out every node.
pub(crate) fn init(root_dir: &Path, keys_dir: &Path, passphrase: Option<&Source>) -> anyhow::Result<()> {
    let root_key = root_dir.join(ROOT_KEY);
    let mut files = vec![root_key.clone(), root_dir.join(ROOT_PUBLIC), root_dir.join(KEY_LIST)];
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
    make_dir(root_dir)?;
    make_dir(keys_dir)?;
    let root = KeyFile {
        key: PrivateKey::generate()?,
        passphrase: passphrase.map(|source| source.read_new(&root_key)).transpose()?,
    };
    let online = OnlineKeys { statements: PrivateKey::generate()?, sets: PrivateKey::generate()? };
    let list = rotation::first_list(&root.key.public(), &online.public(), Utc::now());
    let list = sign(&list, &[&root.key])?;
    write_new(&keys_dir.join(STATEMENTS_KEY), online.statements.to_pem()?.as_bytes(), 0o600)?;
    write_new(&keys_dir.join(SETS_KEY), online.sets.to_pem()?.as_bytes(), 0o600)?;
    write_new(&root_key, root.to_text()?.as_bytes(), 0o600)?;
    write_new(&root_dir.join(ROOT_PUBLIC), root.key.public().to_pem()?.as_bytes(), 0o644)?;
    write_new(&root_dir.join(KEY_LIST), &list, 0o644)
}

/// Makes a root key for one holder, and its public half beside it; returns where that is.
pub(crate) fn make_root_key(path: &Path, passphrase: Option<&Source>) -> anyhow::Result<PathBuf> {
    let public = path.with_extension("pub");
    anyhow::ensure!(public != path, "{}: the public key takes the name ending in .pub", path.display());
    for file in [path, &public] {
        anyhow::ensure!(!file.exists(), "{} exists already: nothing was changed", file.display());
    }
    let passphrase = passphrase.map(|source| source.read_new(path)).transpose()?;
    let file = KeyFile { key: PrivateKey::generate()?, passphrase };
    write_new(path, file.to_text()?.as_bytes(), 0o600)?;
    write_new(&public, file.key.public().to_pem()?.as_bytes(), 0o644)?;
    Ok(public)
}

/// Gives a key file a passphrase, or another one.
pub(crate) fn set_passphrase(path: &Path, old: &Source, new: &Source) -> anyhow::Result<()> {
    let KeyFile { key, .. } = KeyFile::read(path, old)?;
    let file = KeyFile { key, passphrase: Some(new.read_new(path)?) };
    keyfile::replace(path, path, file.to_text()?.as_bytes(), 0o600)
}

/// The online keys of `keys_dir`; refuses a file that others can read. The single key counts as long as it is there: a
/// rotation takes it away last.
pub(crate) fn load(keys_dir: &Path, passphrase: &Source) -> anyhow::Result<OnlineKeys<KeyFile>> {
    let online = keys_dir.join(ONLINE_KEY);
    let (statements, sets) = if online.exists() {
        (online.clone(), online)
    } else {
        (keys_dir.join(STATEMENTS_KEY), keys_dir.join(SETS_KEY))
    };
    let read = |path: PathBuf| {
        KeyFile::read(&path, passphrase).with_context(|| format!("the online keys in {}", keys_dir.display()))
    };
    Ok(OnlineKeys { statements: read(statements)?, sets: read(sets)? })
}

impl OnlineKeys<PrivateKey> {
    pub(crate) fn public(&self) -> OnlineKeys<PublicKey> {
        OnlineKeys { statements: self.statements.public(), sets: self.sets.public() }
    }
}

impl OnlineKeys<KeyFile> {
    pub(crate) fn public(&self) -> OnlineKeys<PublicKey> {
        OnlineKeys { statements: self.statements.key.public(), sets: self.sets.key.public() }
    }

    /// Whether a thief of one of the files needs nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        self.statements.passphrase.is_none() || self.sets.passphrase.is_none()
    }

    /// The keys alone.
    pub(crate) fn into_keys(self) -> OnlineKeys<PrivateKey> {
        OnlineKeys { statements: self.statements.key, sets: self.sets.key }
    }
}
