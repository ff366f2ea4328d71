//! What the collection of blobs needs of a store: who lies there since when, and one removed unless it was renewed.
//!
//! Whether a blob may go is for whoever asks: nothing here knows who refers to it. Must never remove anything that is
//! not a blob by its name.

use std::time::SystemTime;

use futures::StreamExt as _;
use mfaas_ident::Digest;
use object_store::{ObjectStore as _, ObjectStoreExt as _};

use crate::{BlobError, Blobs};

/// A blob as the store lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredBlob {
    /// Its name.
    pub digest: Digest,
    /// When its bytes were stored last, by the store's clock. Storing them again renews it.
    pub stored_at: SystemTime,
    /// How many.
    pub bytes: u64,
}

impl Blobs {
    /// The blobs whose digest begins with this byte, in no order: a 256th part of the store.
    pub async fn list(&self, first_byte: u8) -> Result<Vec<StoredBlob>, BlobError> {
        let directory = self.prefix.clone().join("sha256").join(format!("{first_byte:02x}"));
        let (mut found, mut left) = (Vec::new(), self.store.list(Some(&directory)));
        while let Some(object) = left.next().await {
            let object = object.map_err(self.failed())?;
            let digest = object.location.filename().and_then(|name| Digest::parse(name).ok());
            // What lies elsewhere, or is called otherwise, was not put there by us.
            if let Some(digest) = digest.filter(|digest| self.place(digest) == object.location) {
                let stored_at = object.last_modified.into();
                found.push(StoredBlob { digest, stored_at, bytes: object.size });
            }
        }
        Ok(found)
    }

    /// Removes a blob that was not stored again since `before`; says whether it did. Between the look and the removal
    /// nobody may store it again: see `Catalog::collect_blobs`, which keeps them from it.
    pub async fn remove_older(&self, digest: &Digest, before: SystemTime) -> Result<bool, BlobError> {
        let place = self.place(digest);
        let stored_at: SystemTime = match self.store.head(&place).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            found => found.map_err(self.failed())?.last_modified.into(),
        };
        if stored_at >= before {
            return Ok(false);
        }
        match self.store.delete(&place).await {
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            removed => removed.map(|()| true).map_err(self.failed()),
        }
    }
}
