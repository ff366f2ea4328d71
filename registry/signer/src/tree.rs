//! The tree of shards in the database, changed where functions have changed.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_attest::{AttestError, Change, ShardPrefix, ShardRef, ShardStore, update};
use mfaas_ident::Digest;
use postgres::Transaction;

use crate::ledger::sets::{self, Name};

/// Functions that are read and written at once: a change of all of them fits into little memory.
const FUNCTIONS_AT_ONCE: usize = 500;

/// A tree that is being changed, in the snapshot of one transaction.
pub(crate) struct Tree<'a, 'b> {
    tx: &'a mut Transaction<'b>,
    root: Option<ShardRef>,
    /// Not stored yet.
    new: BTreeMap<Digest, String>,
    changed: Changed,
}

/// What the changes come to.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Shards of the new tree that the old one did not have.
    pub(crate) used: BTreeSet<Digest>,
    /// Shards of the old tree that the new one does not have.
    pub(crate) unused: BTreeSet<Digest>,
}

/// Why a tree cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    /// A shard of it is gone, or is not what it is named as.
    #[error("the tree of the last serving set is damaged: {0}")]
    Damaged(String),
    /// Said by whoever asked for the statement.
    #[error(transparent)]
    Database(anyhow::Error),
}

impl From<AttestError> for TreeError {
    fn from(error: AttestError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl<'a, 'b> Tree<'a, 'b> {
    /// The tree below `root`, or an empty one.
    pub(crate) fn new(tx: &'a mut Transaction<'b>, root: Option<ShardRef>) -> Self {
        Self { tx, root, new: BTreeMap::new(), changed: Changed::default() }
    }

    /// Brings these functions to what the database says of them, and returns the new root. New shards are stored with it.
    pub(crate) fn bring(mut self, names: &BTreeSet<Name>) -> Result<(ShardRef, Changed), TreeError> {
        // Neighbours in the tree share the shards above them.
        let mut places: Vec<_> =
            names.iter().map(|name| (ShardPrefix::of(&name.0, &name.1), name.clone())).collect();
        places.sort_unstable();
        let names: Vec<Name> = places.into_iter().map(|(_, name)| name).collect();
        for names in names.chunks(FUNCTIONS_AT_ONCE) {
            let mut served = sets::served(self.tx, names).map_err(TreeError::Database)?;
            let changes = names.iter().map(|name| -> Change { (name.clone(), served.remove(name)) });
            let changes: Vec<Change> = changes.collect();
            self.change(changes)?;
        }
        let root = match self.root {
            Some(root) => root,
            None => self.change(Vec::new())?,
        };
        Ok((root, self.changed))
    }

    fn change(&mut self, changes: Vec<Change>) -> Result<ShardRef, TreeError> {
        let old = self.root;
        let root = update(self, old, changes)?;
        self.root = Some(root);
        let new = std::mem::take(&mut self.new);
        sets::store_shards(self.tx, &new).map_err(TreeError::Database)?;
        Ok(root)
    }
}

impl ShardStore for Tree<'_, '_> {
    type Error = TreeError;

    fn get(&mut self, digest: &Digest) -> Result<Vec<u8>, TreeError> {
        if let Some(new) = self.new.get(digest) {
            return Ok(new.clone().into_bytes());
        }
        let found = sets::shard(self.tx, digest).map_err(TreeError::Database)?;
        let body = found.ok_or_else(|| TreeError::Damaged(format!("shard {digest} is gone")))?;
        Ok(body.into_bytes())
    }

    fn put(&mut self, digest: Digest, bytes: String) {
        self.new.insert(digest, bytes);
        if !self.changed.unused.remove(&digest) {
            self.changed.used.insert(digest);
        }
    }

    fn remove(&mut self, digest: Digest) {
        self.new.remove(&digest);
        if !self.changed.used.remove(&digest) {
            self.changed.unused.insert(digest);
        }
    }
}
