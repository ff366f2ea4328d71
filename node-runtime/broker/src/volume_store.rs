//! Where volumes lie, and that they do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mfaas_kv::{KvError, Store, StoreKind};
use mfaas_rules::codes;
use mfaas_volumes::{VolumeError, VolumePermits, Volumes};
use tokio::sync::OnceCell;

use crate::bandwidth::Bandwidth;
use crate::config::Bounds;
use crate::refusal::Refusal;
use crate::volume_sizes::VolumeSizes;

/// How long it counts that the place is that of the volumes, and that it is not.
const READY_KEPT: Duration = Duration::from_secs(5);
const AWAY_KEPT: Duration = Duration::from_secs(1);

/// Where volumes lie, and what is known of them.
#[derive(Debug)]
pub(crate) struct VolumeStore {
    pub(crate) volumes: Arc<Volumes>,
    /// Whether this is the place, and since when that is known.
    is_ready: tokio::sync::Mutex<Option<(Instant, bool)>>,
    /// The database knows that there is one.
    is_noted: OnceCell<()>,
    pub(crate) sizes: Arc<VolumeSizes>,
    pub(crate) bandwidth: Bandwidth,
    /// Who runs of each volume, before anybody's turn.
    pub(crate) permits: VolumePermits,
}

/// Why they cannot be used.
#[derive(Debug, thiserror::Error)]
enum NotReady {
    #[error(transparent)]
    Volumes(#[from] VolumeError),
    #[error(transparent)]
    Database(#[from] KvError),
    #[error("volumes of this site lay here before, and the place is empty: is it mounted?")]
    Unmarked,
}

impl VolumeStore {
    pub(crate) fn open(url: &str, bounds: &Bounds) -> Result<Self, VolumeError> {
        Ok(Self {
            volumes: Arc::new(Volumes::open(url)?),
            is_ready: tokio::sync::Mutex::default(),
            is_noted: OnceCell::new(),
            sizes: Arc::new(VolumeSizes::new(bounds.resource_bytes)),
            bandwidth: Bandwidth::new(bounds.volume_bytes_per_second),
            permits: VolumePermits::default(),
        })
    }

    /// Looks what volumes hold that were used of late.
    pub(crate) fn renew_sizes(&self) {
        self.sizes.renew(&self.volumes);
    }

    /// Sees again and again that this is the place. The first one is marked; later an empty one, where nothing is mounted, is not taken
    /// for it.
    pub(crate) async fn ready(&self, store: &Store) -> Result<(), Refusal> {
        let away = || Refusal::new(codes::MF1205, "the volumes of this site cannot be reached");
        let mut known = self.is_ready.lock().await;
        if let Some((since, is_ready)) = *known
            && since.elapsed() < if is_ready { READY_KEPT } else { AWAY_KEPT }
        {
            return is_ready.then_some(()).ok_or_else(away);
        }
        let looked = self.look(store).await;
        *known = Some((Instant::now(), looked.is_ok()));
        looked.map_err(|error| {
            tracing::error!(%error, "functions reach no files: volumes cannot be used");
            away()
        })
    }

    async fn look(&self, store: &Store) -> Result<(), NotReady> {
        if !self.volumes.is_marked().await? {
            if store.has_opened_store(StoreKind::Volume).await? {
                return Err(NotReady::Unmarked);
            }
            self.volumes.mark().await?;
        }
        // Also one that was marked before: by whom it was not noted then, or for another database.
        self.is_noted.get_or_try_init(|| store.note_opened_store(StoreKind::Volume)).await?;
        Ok(())
    }
}
