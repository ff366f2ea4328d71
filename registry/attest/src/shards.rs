//! The functions of a serving set: a tree of small documents that name each other by digest.
//!
//! Where a function lies follows from the hash of its name: every branch leads on by one more hexadecimal digit of it. What lies
//! below a prefix is one leaf while it is at most [`LEAF_FUNCTIONS_MAX`] functions, and a branch otherwise. So the same functions
//! are always the same tree, and a changed function changes the few shards on the way to it. Only the root's digest is signed:
//! whoever believes that believes all below it.

use std::collections::BTreeMap;

use mfaas_ident::{Digest, FunctionName, TenantName};

use crate::{AttestError, ServedFunction};

/// Bytes of a shard: what a leaf full of the largest functions has.
pub const SHARD_BYTES_MAX: usize = 256 << 10;
/// Shards in one answer of a server.
pub const SHARDS_AT_ONCE_MAX: usize = 64;
/// Functions of a leaf.
const LEAF_FUNCTIONS_MAX: usize = 8;
/// Digits of a hash, so branches above a leaf.
const DIGITS: usize = 64;

/// What a shard is named by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardRef {
    /// SHA-256 of its bytes.
    pub digest: Digest,
    /// How many functions lie below it.
    pub functions: u32,
}

/// One document of the tree.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Shard {
    /// What lies below, by the next digit. More functions than a leaf holds.
    Branch(BTreeMap<HexDigit, ShardRef>),
    /// The functions themselves, sorted by tenant and name.
    Leaf(Vec<ServedFunction>),
}

/// A hexadecimal digit, lower-case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "char", into = "char")]
pub struct HexDigit(char);

impl TryFrom<char> for HexDigit {
    type Error = String;
    fn try_from(digit: char) -> Result<Self, String> {
        match digit {
            '0'..='9' | 'a'..='f' => Ok(Self(digit)),
            other => Err(format!("`{other}` is no lower-case hexadecimal digit")),
        }
    }
}

impl From<HexDigit> for char {
    fn from(digit: HexDigit) -> Self {
        digit.0
    }
}

/// The place of a shard: the first digits of the hashes of all that lies below. Everything below a prefix sorts right after it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ShardPrefix(String);

impl ShardPrefix {
    /// The prefix of a function alone: all digits.
    pub fn of(tenant: &TenantName, name: &FunctionName) -> Self {
        Self(Digest::of(format!("{tenant}/{name}").as_bytes()).to_string())
    }

    /// One digit further.
    pub fn child(&self, digit: HexDigit) -> Self {
        Self(format!("{}{}", self.0, digit.0))
    }

    /// Whether `other` is this place or lies below it.
    pub fn holds(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// One digit further on the way to `below`.
    pub fn towards(&self, below: &Self) -> Option<Self> {
        self.next_digit(below).map(|digit| self.child(digit))
    }

    /// The digit by which a branch at `self` leads to `below`.
    fn next_digit(&self, below: &Self) -> Option<HexDigit> {
        below.0[self.0.len()..].chars().next().map(HexDigit)
    }
}

impl Shard {
    /// The shard that `named` means, which lies at `prefix`. Bytes that do not have the digest are not parsed.
    pub fn read(bytes: &[u8], named: &ShardRef, prefix: &ShardPrefix) -> Result<Self, AttestError> {
        if bytes.len() > SHARD_BYTES_MAX {
            return Err(AttestError::TooLarge { bytes: bytes.len(), bytes_max: SHARD_BYTES_MAX });
        }
        let found = Digest::of(bytes);
        if found != named.digest {
            return Err(inconsistent(format!("shard {} has the digest {found}", named.digest)));
        }
        let shard: Self =
            serde_json::from_slice(bytes).map_err(|e| AttestError::Malformed { reason: e.to_string() })?;
        shard.check(named, prefix).map_err(inconsistent)?;
        Ok(shard)
    }

    fn check(&self, named: &ShardRef, prefix: &ShardPrefix) -> Result<(), String> {
        match self {
            Self::Branch(_) if prefix.0.len() >= DIGITS => return Err("a branch below all digits".to_owned()),
            Self::Branch(_) => {}
            Self::Leaf(functions) => {
                let name = |function: &ServedFunction| (function.tenant.clone(), function.name.clone());
                if !functions.windows(2).all(|pair| name(&pair[0]) < name(&pair[1])) {
                    return Err("functions are not sorted or not unique".to_owned());
                }
                if let Some(function) = functions.iter().find(|function| !prefix.holds(&place(function))) {
                    return Err(format!("{}/{} lies in another shard", function.tenant, function.name));
                }
                functions.iter().try_for_each(ServedFunction::check)?;
            }
        }
        let is_leaf = matches!(self, Self::Leaf(_));
        let functions = self.functions();
        if functions != u64::from(named.functions) || is_leaf != (functions <= LEAF_FUNCTIONS_MAX as u64) {
            let kind = if is_leaf { "leaf" } else { "branch" };
            return Err(format!("a {kind} of {functions} functions, named as {}", named.functions));
        }
        Ok(())
    }

    /// How many functions lie below it.
    fn functions(&self) -> u64 {
        match self {
            Self::Branch(children) => children.values().map(|child| u64::from(child.functions)).sum(),
            Self::Leaf(functions) => functions.len() as u64,
        }
    }

    /// Where a branch at `prefix` leads on the way to `below`.
    pub fn child_towards(
        &self,
        prefix: &ShardPrefix,
        below: &ShardPrefix,
    ) -> Option<(ShardPrefix, ShardRef)> {
        let Self::Branch(children) = self else { return None };
        let digit = prefix.next_digit(below)?;
        Some((prefix.child(digit), *children.get(&digit)?))
    }

    /// Its bytes and what they are named by.
    pub fn encode(&self) -> Result<(ShardRef, String), AttestError> {
        let malformed = |reason: String| AttestError::Malformed { reason };
        let bytes = serde_json::to_string(self).map_err(|e| malformed(e.to_string()))?;
        if bytes.len() > SHARD_BYTES_MAX {
            return Err(AttestError::TooLarge { bytes: bytes.len(), bytes_max: SHARD_BYTES_MAX });
        }
        let functions = u32::try_from(self.functions()).map_err(|e| malformed(e.to_string()))?;
        Ok((ShardRef { digest: Digest::of(bytes.as_bytes()), functions }, bytes))
    }
}

fn place(function: &ServedFunction) -> ShardPrefix {
    ShardPrefix::of(&function.tenant, &function.name)
}

fn inconsistent(reason: String) -> AttestError {
    AttestError::Inconsistent { reason }
}

/// Where the shards of a tree lie while it is changed.
pub trait ShardStore {
    /// Why a shard cannot be had.
    type Error: From<AttestError>;
    /// The bytes of a shard of the tree.
    fn get(&mut self, digest: &Digest) -> Result<Vec<u8>, Self::Error>;
    /// A shard that is part of the tree from now on.
    fn put(&mut self, digest: Digest, bytes: String);
    /// A shard that is no part of it any more.
    fn remove(&mut self, digest: Digest);
}

/// A whole tree in memory.
impl ShardStore for BTreeMap<Digest, String> {
    type Error = AttestError;

    fn get(&mut self, digest: &Digest) -> Result<Vec<u8>, AttestError> {
        let found = BTreeMap::get(self, digest).map(|bytes| bytes.clone().into_bytes());
        found.ok_or_else(|| inconsistent(format!("shard {digest} is missing")))
    }

    fn put(&mut self, digest: Digest, bytes: String) {
        self.insert(digest, bytes);
    }

    fn remove(&mut self, digest: Digest) {
        BTreeMap::remove(self, &digest);
    }
}

/// The tree of these functions, and its root.
pub fn tree_of(
    functions: impl IntoIterator<Item = ServedFunction>,
) -> Result<(ShardRef, BTreeMap<Digest, String>), AttestError> {
    let mut shards = BTreeMap::new();
    let changes = functions.into_iter().map(|f| ((f.tenant.clone(), f.name.clone()), Some(f)));
    let root = update(&mut shards, None, changes)?;
    Ok((root, shards))
}

/// A function, and what it is from now on; nothing where it is not served any more.
pub type Change = ((TenantName, FunctionName), Option<ServedFunction>);

/// Changes functions of the tree below `root`, or of an empty one, and returns its new root.
pub fn update<S: ShardStore>(
    store: &mut S,
    root: Option<ShardRef>,
    changes: impl IntoIterator<Item = Change>,
) -> Result<ShardRef, S::Error> {
    let changes = changes.into_iter().map(|change| (ShardPrefix::of(&change.0.0, &change.0.1), change));
    let changed = change(store, root, &ShardPrefix::default(), changes.collect())?;
    match changed {
        Some(root) => Ok(root),
        None => put(store, &Shard::Leaf(Vec::new())),
    }
}

/// What the shard at `prefix` becomes; nothing where no function is left below it.
fn change<S: ShardStore>(
    store: &mut S,
    old: Option<ShardRef>,
    prefix: &ShardPrefix,
    changes: BTreeMap<ShardPrefix, Change>,
) -> Result<Option<ShardRef>, S::Error> {
    if changes.is_empty() {
        return Ok(old);
    }
    let shard = match &old {
        Some(old) => Shard::read(&store.get(&old.digest)?, old, prefix)?,
        None => Shard::Leaf(Vec::new()),
    };
    if let Some(old) = &old {
        store.remove(old.digest);
    }
    match shard {
        Shard::Leaf(functions) => {
            let mut below: BTreeMap<_, _> = functions.into_iter().map(|f| (place(&f), f)).collect();
            for (place, (_, function)) in changes {
                match function {
                    Some(function) => drop(below.insert(place, function)),
                    None => drop(below.remove(&place)),
                }
            }
            build(store, prefix, below)
        }
        Shard::Branch(mut children) => {
            for (digit, changes) in by_digit(prefix, changes) {
                let child = change(store, children.remove(&digit), &prefix.child(digit), changes)?;
                children.extend(child.map(|child| (digit, child)));
            }
            let branch = Shard::Branch(children);
            if branch.functions() > LEAF_FUNCTIONS_MAX as u64 {
                return put(store, &branch).map(Some);
            }
            let Shard::Branch(children) = branch else { return Ok(None) };
            let mut below = BTreeMap::new();
            for (digit, child) in children {
                let prefix = prefix.child(digit);
                // So few functions are a leaf wherever they are.
                if let Shard::Leaf(functions) = Shard::read(&store.get(&child.digest)?, &child, &prefix)? {
                    below.extend(functions.into_iter().map(|f| (place(&f), f)));
                }
                store.remove(child.digest);
            }
            build(store, prefix, below)
        }
    }
}

/// The shard of these functions and all below it.
fn build<S: ShardStore>(
    store: &mut S,
    prefix: &ShardPrefix,
    below: BTreeMap<ShardPrefix, ServedFunction>,
) -> Result<Option<ShardRef>, S::Error> {
    if below.is_empty() {
        return Ok(None);
    }
    if below.len() <= LEAF_FUNCTIONS_MAX {
        let mut functions: Vec<_> = below.into_values().collect();
        functions.sort_unstable_by(|a, b| (&a.tenant, &a.name).cmp(&(&b.tenant, &b.name)));
        return put(store, &Shard::Leaf(functions)).map(Some);
    }
    let mut children = BTreeMap::new();
    for (digit, below) in by_digit(prefix, below) {
        children.extend(build(store, &prefix.child(digit), below)?.map(|child| (digit, child)));
    }
    put(store, &Shard::Branch(children)).map(Some)
}

fn put<S: ShardStore>(store: &mut S, shard: &Shard) -> Result<ShardRef, S::Error> {
    let (named, bytes) = shard.encode()?;
    store.put(named.digest, bytes);
    Ok(named)
}

/// What lies below a branch at `prefix`, for each of its children.
fn by_digit<T>(
    prefix: &ShardPrefix,
    below: BTreeMap<ShardPrefix, T>,
) -> BTreeMap<HexDigit, BTreeMap<ShardPrefix, T>> {
    let mut children: BTreeMap<HexDigit, BTreeMap<ShardPrefix, T>> = BTreeMap::new();
    for (place, one) in below {
        if let Some(digit) = prefix.next_digit(&place) {
            children.entry(digit).or_default().insert(place, one);
        }
    }
    children
}

#[cfg(test)]
mod tests;
