//! Puts what the site offers into its index: archives, and a line for each.
//!
//! Requests leave their archives behind; those of what ships are fetched here, once. Whether a tenant is shown
//! a line is decided when it is asked for. A line that cannot be made is a reason in the database, and stands
//! in nobody's way; a registry that does not answer is asked again later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mfaas_catalog::{self as catalog, IndexEntry, StoredArchive};
use mfaas_ident::Digest;
use mfaas_rules::limits::CRATE_ARCHIVE;
use mfaas_unpack::CrateArchive;

use super::state::{AcquirerState, blocking};
use crate::acquire::download::{self, Download};
use crate::acquire::entry::{ENTRY_REVISION, entry};
use crate::acquire::resolve::Workspace;
use crate::deps::{OwnCrate, PackageKey, own_crates};
use crate::error::BuilderError;

/// How long it takes until a registry that did not answer is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(300);

/// What is still to be done.
#[derive(Debug, Default)]
pub(super) struct Offer {
    shipped: bool,
    not_before: Option<Instant>,
}

impl Offer {
    /// Does what is missing; without anything missing, one question to the database.
    pub(super) async fn complete(
        &mut self,
        state: &AcquirerState,
        session: &mut catalog::Acquirer,
    ) -> Result<(), BuilderError> {
        if !self.shipped && self.not_before.is_none_or(|time| Instant::now() >= time) {
            own(state, session).await?;
            match shipped(state, session).await {
                Ok(()) => self.shipped = true,
                Err(BuilderError::Acquire(error)) => {
                    tracing::warn!(%error, "what ships cannot be put into the index yet");
                    self.not_before = Some(Instant::now() + ASK_AGAIN_AFTER);
                }
                Err(error) => return Err(error),
            }
        }
        lines(state, session).await
    }
}

/// The SDK and its parts.
async fn own(state: &AcquirerState, session: &mut catalog::Acquirer) -> Result<(), BuilderError> {
    let crates = own_crates()?;
    let sdk = crates.last().map(|own| own.name.clone());
    let mut hold = state.catalog.hold_blobs().await?;
    for OwnCrate { name, version, manifest, archive, decided } in crates {
        let archive = state.blobs.put(archive.into()).await?;
        let line = entry(manifest.as_bytes(), &name, &version, &archive);
        let decided_as = sdk.clone().unwrap_or_else(|| name.clone());
        let entry =
            IndexEntry { name, version, decided, decided_as, archive, line, revision: ENTRY_REVISION };
        hold.confirm().await?;
        session.store_entry(&entry).await?;
    }
    Ok(())
}

/// The archives of what ships, as far as they are not stored.
async fn shipped(state: &AcquirerState, session: &mut catalog::Acquirer) -> Result<(), BuilderError> {
    let base = Workspace::of_seed(&state.seed)?;
    let locked: Vec<(PackageKey, Digest)> = base
        .lock()
        .keys()
        .filter_map(|key| Some((key.clone(), Digest::parse(base.lock().checksum(key)?).ok()?)))
        .collect();
    let checksums: Vec<Digest> = locked.iter().map(|(_, checksum)| *checksum).collect();
    let missing = session.missing_archives(&checksums).await?;
    if missing.is_empty() {
        return Ok(());
    }
    tracing::info!(crates = missing.len(), "fetching the archives of what ships, for the index");
    let (context, seed) = (Arc::clone(&state.context), state.seed.clone());
    let downloads: Vec<Download> = blocking(move || {
        let path = seed.join("Cargo.lock");
        let lock = std::fs::read_to_string(&path).map_err(BuilderError::io(&path))?;
        base.fetch(&context.cargo, base.manifest(), &lock)?;
        let wanted = locked.iter().filter(|(_, checksum)| missing.contains(checksum));
        wanted
            .map(|(key, checksum)| download::take(&context.cargo, key, Some(&checksum.to_string())))
            .collect()
    })
    .await?;
    let mut hold = state.catalog.hold_blobs().await?;
    for Download { name, version, checksum, bytes } in downloads {
        let size = bytes.len() as u64;
        state.blobs.put(bytes.into()).await?;
        hold.confirm().await?;
        session.store_archive(&StoredArchive { name, version, checksum }, size).await?;
    }
    Ok(())
}

/// A line for every archive that has none.
async fn lines(state: &AcquirerState, session: &mut catalog::Acquirer) -> Result<(), BuilderError> {
    loop {
        let archives = session.unindexed(ENTRY_REVISION).await?;
        if archives.is_empty() {
            return Ok(());
        }
        for archive in archives {
            let line = line(state, &archive).await?;
            if let Err(problem) = &line {
                tracing::warn!(name = %archive.name, version = %archive.version, problem, "no line for the index");
            }
            let StoredArchive { name, version, checksum } = archive;
            let entry = IndexEntry {
                decided_as: name.clone(),
                name,
                version,
                decided: checksum,
                archive: checksum,
                line,
                revision: ENTRY_REVISION,
            };
            session.store_entry(&entry).await?;
        }
    }
}

/// The line of one archive, out of the blob store, or why there is none.
async fn line(
    state: &AcquirerState,
    archive: &StoredArchive,
) -> Result<Result<serde_json::Value, String>, BuilderError> {
    let bytes = match state.blobs.get(&archive.checksum, CRATE_ARCHIVE.archive_bytes_max).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_transient() => return Err(error.into()),
        // What the store has lost must not keep everything else from being offered.
        Err(error) => return Ok(Err(error.to_string())),
    };
    let archive = archive.clone();
    blocking(move || {
        let StoredArchive { name, version, checksum } = &archive;
        let files = CrateArchive::read(&bytes, &format!("{name}-{version}")).map_err(|e| e.to_string());
        Ok(files.and_then(|files| {
            let manifest = files.get("Cargo.toml").ok_or_else(|| "it has no Cargo.toml".to_owned())?;
            entry(manifest, name, version, checksum)
        }))
    })
    .await
}
