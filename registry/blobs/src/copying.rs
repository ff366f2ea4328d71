//! Blobs that go from one store to another, and blobs that are looked through without being kept in memory.
//!
//! The bytes are hashed while they flow. Must never give a name to bytes that hash to another one.

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use mfaas_ident::Digest;
use object_store::ObjectStoreExt as _;
use sha2::{Digest as _, Sha256};

use crate::{BlobError, Blobs};

impl Blobs {
    /// Stores a blob of this store in another one, at most `bytes_max`; answers how many bytes it has.
    pub async fn copy_to(&self, digest: &Digest, to: &Self, bytes_max: u64) -> Result<u64, BlobError> {
        let stream = self.open_unverified(digest, bytes_max).await?;
        let incoming = to.receive(stream, bytes_max).await?;
        if incoming.digest() != *digest {
            to.discard(&incoming).await?;
            return Err(BlobError::Corrupt { digest: *digest, found: incoming.digest() });
        }
        to.publish(&incoming).await?;
        Ok(incoming.bytes())
    }

    /// Reads a blob to its end and hashes it; answers how many bytes it has.
    pub async fn check(&self, digest: &Digest, bytes_max: u64) -> Result<u64, BlobError> {
        let pieces = self.open_blob(digest, bytes_max).await?;
        pieces.try_fold(0, async |bytes, piece| Ok(bytes + piece.len() as u64)).await
    }

    /// The bytes of a blob as they come. Behind the last of them stands an error if they hash to another name: whoever acts on
    /// them waits for the end.
    pub async fn open_blob(
        &self,
        digest: &Digest,
        bytes_max: u64,
    ) -> Result<impl Stream<Item = Result<Bytes, BlobError>> + use<>, BlobError> {
        let pieces = self.open_unverified(digest, bytes_max).await?;
        let (store, digest) = (self.clone(), *digest);
        let state = (Box::pin(pieces), Sha256::new());
        Ok(stream::try_unfold(state, move |(mut pieces, mut hash)| {
            let store = store.clone();
            async move {
                if let Some(piece) = pieces.next().await {
                    let piece = piece.map_err(store.failed())?;
                    hash.update(&piece);
                    return Ok(Some((piece, (pieces, hash))));
                }
                let found = Digest::from_bytes(hash.finalize().into());
                if found == digest { Ok(None) } else { Err(BlobError::Corrupt { digest, found }) }
            }
        }))
    }

    /// The same, not hashed. A blob is missing only in a store that is marked.
    async fn open_unverified(
        &self,
        digest: &Digest,
        bytes_max: u64,
    ) -> Result<impl Stream<Item = Result<Bytes, object_store::Error>> + use<>, BlobError> {
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
        Ok(found.into_stream())
    }
}
