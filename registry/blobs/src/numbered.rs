//! Bytes under numbers that their owner gives, for who knows by itself which are whole and which are in use: `numbered/<2 digits>/<number>`.
//!
//! A number is used once, and what is stored under it never changes. A write that a crash cut short has no name, or is removed with
//! its number.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path as FilePath;

use bytes::Bytes;
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use uuid::Uuid;

use crate::{BlobError, Blobs, Kind, measured};

impl Blobs {
    /// Stores bytes under a number that no others had: all of them, or none.
    pub async fn put_numbered(&self, number: Uuid, bytes: Bytes) -> Result<(), BlobError> {
        measured("put_numbered", async {
            self.ready().await?;
            self.store.put(&self.numbered(number), bytes.into()).await.map(drop).map_err(self.failed())
        })
        .await
    }

    /// Bytes of that number, which has them in this range; nothing if the store has no such number, and is marked.
    pub async fn get_numbered(&self, number: Uuid, range: Range<u64>) -> Result<Option<Bytes>, BlobError> {
        measured("get_numbered", async {
            match self.store.get_range(&self.numbered(number), range).await {
                Ok(bytes) => Ok(Some(bytes)),
                Err(object_store::Error::NotFound { .. }) => self.ready().await.map(|()| None),
                Err(error) => Err(self.failed()(error)),
            }
        })
        .await
    }

    /// Removes what lies under a number, if anything does, from a store that is marked.
    pub async fn delete_numbered(&self, number: Uuid) -> Result<(), BlobError> {
        measured("delete_numbered", async {
            let place = self.numbered(number);
            // What is not there may lie in a store that is not mounted now.
            self.ready().await?;
            match self.store.delete(&place).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed()(error)),
            }
            match &self.kind {
                // As `object_store` names the one file that it writes before it has this name.
                Kind::Directory(directory) => {
                    let part = directory.join(format!("{place}#1"));
                    remove(&part).await.map_err(|source| self.io(source))
                }
                Kind::Bucket(_) => Ok(()),
            }
        })
        .await
    }

    fn numbered(&self, number: Uuid) -> Path {
        let name = number.simple().to_string();
        self.prefix.clone().join("numbered").join(&name[..2]).join(name.as_str())
    }
}

/// Removes a file, if it is there.
async fn remove(file: &FilePath) -> std::io::Result<()> {
    match tokio::fs::remove_file(file).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
