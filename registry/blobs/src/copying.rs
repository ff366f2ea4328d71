//! Blobs that go from one store to another, and blobs that are looked through without being kept in memory.
//!
//! The bytes are hashed while they flow. Must never give a name to bytes that hash to another one.

use futures::StreamExt as _;
use mfaas_ident::Digest;
use object_store::ObjectStoreExt as _;
use sha2::{Digest as _, Sha256};

use crate::{BlobError, Blobs};

impl Blobs {
    /// Stores a blob of this store in another one, at most `bytes_max`; answers how many bytes it has.
    pub async fn copy_to(&self, digest: &Digest, to: &Self, bytes_max: u64) -> Result<u64, BlobError> {
        let stream = self.open_blob(digest, bytes_max).await?;
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
        let mut stream = std::pin::pin!(self.open_blob(digest, bytes_max).await?);
        let (mut hash, mut bytes) = (Sha256::new(), 0_u64);
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(self.failed())?;
            bytes += piece.len() as u64;
            hash.update(&piece);
        }
        let found = Digest::from_bytes(hash.finalize().into());
        if found == *digest { Ok(bytes) } else { Err(BlobError::Corrupt { digest: *digest, found }) }
    }

    /// The bytes of a blob as they come, not hashed yet. A blob is missing only in a store that is marked.
    pub async fn open_blob(
        &self,
        digest: &Digest,
        bytes_max: u64,
    ) -> Result<impl futures::Stream<Item = Result<bytes::Bytes, object_store::Error>> + use<>, BlobError>
    {
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
