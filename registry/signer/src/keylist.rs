//! How a key list comes about: prepared where the online keys are, signed by one holder of a root key after the other,
//! put in the place of the list before it, published.
//!
//! The signatures are counted by [`TrustedRoot`], as nodes do. Must never publish, or put into place, what a node would not
//! take next.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use chrono::Utc;
use mfaas_attest::{Draft, KeyId, KeyList, PublicKey, Purpose, RootKeys, TrustedRoot};

use crate::connection;
use crate::keyfile::{KeyFile, read_public, remove_if_there, replace, sync_dir, write_new};
use crate::keys::{self, KEY_LIST, ONLINE_KEY, ROOT_KEY, ROOT_PUBLIC, SETS_KEY, STATEMENTS_KEY};
use crate::ledger;
use crate::passphrase::Source;
use crate::rotation::{self, Change, OnlineKeys};

const DRAFT: &str = "keylist.draft.json";

/// What the next list is to change.
#[derive(Debug)]
pub(crate) struct Rotation {
    /// The online keys.
    pub(crate) change: Change,
    /// The root; the present one stays without.
    pub(crate) root: Option<RootKeys>,
}

/// How far a rotation came.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The list is in its place, and so are the keys that it names.
    Done(u32),
    /// The draft needs more signatures.
    Waits { draft: PathBuf, why: String },
}

/// A root key file, and who knows its passphrase.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) path: PathBuf,
    pub(crate) passphrase: Source,
}

/// Prepares the next key list and makes the online keys anew that it replaces. Signs it where the root key lies beside it,
/// and puts everything into place if that is enough. Nothing runs with the keys before the list is published and the signer
/// started anew. A draft that was begun before is forgotten, and its keys too.
pub(crate) fn rotate(
    root_dir: &Path,
    keys_dir: &Path,
    wanted: Rotation,
    (root_passphrase, online_passphrase): (Source, &Source),
) -> anyhow::Result<Progress> {
    let present = read_present(&root_dir.join(KEY_LIST))?;
    let list = present.list().context("the present key list is empty")?;
    let files = keys::load(keys_dir, online_passphrase)?;
    let (before, replaced) = (files.public(), wanted.change.replaces());
    let next_key = |present: KeyFile, replaced| if replaced { present.successor() } else { Ok(present) };
    let online = OnlineKeys {
        statements: next_key(files.statements, replaced.statements)?,
        sets: next_key(files.sets, replaced.sets)?,
    };
    let root = wanted.root.or_else(|| list.root.clone());
    let next = rotation::next_list(list, root, (&before, &online.public()), wanted.change, Utc::now())?;
    let mut draft = Draft::new(next)?;
    let holder = Holder { path: root_dir.join(ROOT_KEY), passphrase: root_passphrase };
    if holder.path.exists() {
        let root = holder.read()?;
        let signs = root_keys(&present, draft.document()).any(|key| key == root.public());
        if signs {
            draft.sign(&root)?;
        }
    }
    prepare_keys(keys_dir, &online)?;
    let path = root_dir.join(DRAFT);
    replace(&path, &root_dir.join(KEY_LIST), &draft.to_bytes()?, 0o644)?;
    match present.follow(&draft.to_bytes()?) {
        Ok(_) => finish(root_dir, keys_dir).map(Progress::Done),
        Err(error) => Ok(Progress::Waits { draft: path, why: error.to_string() }),
    }
}

/// Puts the draft in the place of the present list, if enough have signed it, and the keys that it names in the place of the
/// present ones; returns the list's version.
///
/// The list comes first. A crash in between leaves a list that names keys that nobody uses yet: the same again goes on.
pub(crate) fn finish(root_dir: &Path, keys_dir: &Path) -> anyhow::Result<u32> {
    let (path, draft) = (root_dir.join(KEY_LIST), root_dir.join(DRAFT));
    let present = read_present(&path)?;
    let next = if draft.exists() {
        let next = follow(&present, &draft)?;
        ensure!(next.version() > present.version(), "{} is the present key list", draft.display());
        let keys = prepared_keys(keys_dir, &next)?;
        keep(&path, present.version())?;
        fs::rename(&draft, &path)?;
        sync_dir(root_dir)?;
        place_keys(keys_dir, &keys)?;
        next
    } else {
        let keys = prepared_keys(keys_dir, &present)?;
        place_keys(keys_dir, &keys)?;
        present
    };
    Ok(next.version())
}

/// Adds a holder's signature to the draft at `path`, which is to follow the list at `after`; says what would change before
/// the key is asked for.
pub(crate) fn sign(
    path: &Path,
    after: &Path,
    holder: &Holder,
    mut tell: impl FnMut(&str),
) -> anyhow::Result<()> {
    let present = read_present(after)?;
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let mut draft = Draft::<KeyList>::read(&bytes).with_context(|| path.display().to_string())?;
    ensure!(
        draft.document().version == present.version() + 1,
        "{} is version {}, and the list that it is to follow is {}",
        path.display(),
        draft.document().version,
        present.version()
    );
    for line in differences(&present, draft.document()) {
        tell(&line);
    }
    let key = holder.read()?;
    ensure!(
        root_keys(&present, draft.document()).any(|root| root == key.public()),
        "{} is no key of the present root nor of the next",
        holder.path.display()
    );
    draft.sign(&key)?;
    let bytes = draft.to_bytes()?;
    replace(path, path, &bytes, 0o644)?;
    tell(&match present.follow(&bytes) {
        Ok(_) => "enough have signed: take it back and finish the rotation".to_owned(),
        Err(error) => format!("signed; {error}"),
    });
    Ok(())
}

/// Puts a key list into the database, and before it those that were superseded without being published, which lie beside it.
/// Each is verified as nodes do, from the root key beside the file through every list that was published.
pub(crate) fn publish(file: &Path, database_url: &str) -> anyhow::Result<()> {
    let mut client = connection::connect(database_url)?;
    let mut root = TrustedRoot::of_key(root_beside(file)?);
    for (version, envelope) in ledger::key_lists(&mut client)? {
        root = root
            .follow(envelope.as_bytes())
            .with_context(|| format!("key list {version} in the database"))?;
    }
    let newest = read_present(file)?.version();
    let mut lists = Vec::new();
    let missing = root.version() + 1..newest;
    let kept = missing.map(|version| kept_path(file, version)).filter(|path| path.exists());
    for path in kept.chain([file.to_owned()]) {
        let next = follow(&root, &path)?;
        if next.version() > root.version() {
            lists.push((next.version(), String::from_utf8(read(&path)?)?));
        }
        root = next;
    }
    ledger::publish_key_lists(&mut client, &lists)
}

/// The root key that stands beside a file of the root directory.
pub(crate) fn root_beside(file: &Path) -> anyhow::Result<PublicKey> {
    read_public(&file.with_file_name(ROOT_PUBLIC))
}

/// The list at `path` and its root. One that does not name it is verified by the root key beside it.
pub(crate) fn read_present(path: &Path) -> anyhow::Result<TrustedRoot> {
    let bytes = read(path)?;
    let about = || path.display().to_string();
    let names_root = Draft::<KeyList>::read(&bytes).with_context(about)?.document().root.is_some();
    if names_root {
        return TrustedRoot::of_list(&bytes).with_context(about);
    }
    TrustedRoot::of_key(root_beside(path)?).resume(&bytes).with_context(about)
}

impl Holder {
    #[expect(clippy::print_stderr, reason = "the holder of the key should know how it is kept")]
    fn read(&self) -> anyhow::Result<mfaas_attest::PrivateKey> {
        let file = KeyFile::read(&self.path, &self.passphrase)?;
        if file.passphrase.is_none() {
            let path = self.path.display();
            eprintln!(
                "mfaas-signer: {path} takes no passphrase: anyone who reads the file can sign. Give it one: mfaas-signer \
                 set-passphrase {path}"
            );
        }
        Ok(file.key)
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

fn follow(root: &TrustedRoot, path: &Path) -> anyhow::Result<TrustedRoot> {
    root.follow(&read(path)?).with_context(|| path.display().to_string())
}

/// Where a list lies that another one has superseded.
fn kept_path(list: &Path, version: u32) -> PathBuf {
    list.with_file_name(format!("keylist-{version}.json"))
}

/// Keeps the list that is superseded: nodes need each one.
fn keep(list: &Path, version: u32) -> anyhow::Result<()> {
    let kept = kept_path(list, version);
    if kept.exists() {
        return Ok(());
    }
    write_new(&kept, &read(list)?, 0o644)
}

/// The keys of both roots.
fn root_keys(present: &TrustedRoot, next: &KeyList) -> impl Iterator<Item = PublicKey> {
    let next = next.root.iter().flat_map(|root| root.keys.clone()).collect::<Vec<_>>();
    present.root().keys.clone().into_iter().chain(next)
}

const HALVES: [(&str, &str, Purpose); 2] =
    [("statements", STATEMENTS_KEY, Purpose::Artifact), ("serving-sets", SETS_KEY, Purpose::ServingSet)];

/// A prepared key, named after itself: a draft takes its own keys and no others.
fn prepared_path(keys_dir: &Path, half: &str, key: KeyId) -> PathBuf {
    keys_dir.join(format!("{half}-{key}.next"))
}

/// Writes the keys that the next list names next to the present ones.
fn prepare_keys(keys_dir: &Path, online: &OnlineKeys<KeyFile>) -> anyhow::Result<()> {
    remove_prepared(keys_dir)?;
    // Whose the new files are says the one that is there.
    let single = Some(keys_dir.join(ONLINE_KEY)).filter(|online| online.exists());
    for ((half, name, _), file) in HALVES.iter().zip([&online.statements, &online.sets]) {
        let like = single.clone().unwrap_or_else(|| keys_dir.join(name));
        replace(
            &prepared_path(keys_dir, half, file.key.public().id()),
            &like,
            file.to_text()?.as_bytes(),
            0o600,
        )?;
    }
    Ok(())
}

/// The files that were prepared for a list, each with its place.
fn prepared_keys(keys_dir: &Path, list: &TrustedRoot) -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    let list = list.list().context("no key list")?;
    let mut found = Vec::new();
    for (half, name, purpose) in HALVES {
        let rows = list.keys.iter().filter(|row| row.purpose == purpose);
        let file = rows.map(|row| prepared_path(keys_dir, half, row.keyid)).find(|path| path.exists());
        let Some(file) = file else {
            bail!(
                "{} has no key that was prepared for key list {}: rotate again",
                keys_dir.display(),
                list.version
            )
        };
        found.push((file, keys_dir.join(name)));
    }
    Ok(found)
}

fn place_keys(keys_dir: &Path, prepared: &[(PathBuf, PathBuf)]) -> anyhow::Result<()> {
    for (file, place) in prepared {
        fs::rename(file, place).with_context(|| place.display().to_string())?;
    }
    sync_dir(keys_dir)?;
    remove_if_there(&keys_dir.join(ONLINE_KEY))?;
    remove_prepared(keys_dir)?;
    sync_dir(keys_dir)
}

/// What a rotation that was given up left behind was never used.
fn remove_prepared(keys_dir: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(keys_dir).with_context(|| keys_dir.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "next") {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

/// What a holder should look at before signing.
fn differences(present: &TrustedRoot, next: &KeyList) -> Vec<String> {
    let empty = Vec::new();
    let before = present.list().map_or(&empty, |list| &list.keys);
    let mut lines = vec![format!(
        "key list {} of {}, after {}; it ends {}",
        next.version,
        next.issued_at,
        present.version(),
        next.expires_at.map_or("never".to_owned(), |end| end.to_string())
    )];
    let (old, root) = (present.root(), next.root.as_ref().unwrap_or_else(|| present.root()));
    lines.push(format!(
        "root: {} of {} keys sign (now {} of {})",
        root.threshold,
        root.keys.len(),
        old.threshold,
        old.keys.len()
    ));
    let gone = old.keys.iter().filter(|key| !root.keys.contains(key)).map(|key| ("removes", key));
    let come = root.keys.iter().map(|key| (if old.keys.contains(key) { "keeps" } else { "adds" }, key));
    lines.extend(gone.chain(come).map(|(what, key)| format!("  {what} root key {}", key.id())));
    for row in before
        .iter()
        .filter(|row| !next.keys.iter().any(|n| (n.purpose, n.keyid) == (row.purpose, row.keyid)))
    {
        lines.push(format!("  removes {} key {}", row.purpose, row.keyid));
    }
    for row in &next.keys {
        let known = before.iter().find(|known| (known.purpose, known.keyid) == (row.purpose, row.keyid));
        let what = if known.is_some() { "keeps" } else { "adds" };
        lines.push(format!("  {what} {} key {} until {}", row.purpose, row.keyid, row.not_after));
    }
    lines
}
