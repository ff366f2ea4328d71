//! How much of one volume runs at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use mfaas_ident::ResourceName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::VolumeError;
use crate::limits::VOLUME_OPERATIONS_MAX;

/// What each volume in use has left of what may run at a time.
#[derive(Debug, Default)]
pub struct VolumePermits(Mutex<HashMap<ResourceName, Arc<Semaphore>>>);

impl VolumePermits {
    /// Waits until one more of a volume may run: as long as what this gives is there.
    pub async fn acquire(&self, volume: &ResourceName) -> Result<OwnedSemaphorePermit, VolumeError> {
        self.of(volume).acquire_owned().await.map_err(VolumeError::unavailable)
    }

    fn of(&self, volume: &ResourceName) -> Arc<Semaphore> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of volumes that nobody uses are forgotten: a permit holds its semaphore.
        all.retain(|_, free| Arc::strong_count(free) > 1);
        let free = all.entry(volume.clone());
        Arc::clone(free.or_insert_with(|| Arc::new(Semaphore::new(VOLUME_OPERATIONS_MAX))))
    }
}
