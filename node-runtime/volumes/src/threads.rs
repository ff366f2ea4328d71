//! Threads that reach one directory and nothing else of the file system.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mfaas_ident::ResourceName;
use tokio::sync::Semaphore;

use crate::error::VolumeError;
use crate::limits::OPERATIONS_MAX;
use crate::permits::VolumePermits;

/// How long one waits for more to do.
const IDLE_MAX: Duration = Duration::from_secs(3_600);

thread_local! {
    static IS_CONFINED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Threads for what blocks.
#[derive(Debug)]
pub(crate) struct ConfinedThreads {
    /// Absent when it is being dropped.
    runtime: Option<tokio::runtime::Runtime>,
    free: Arc<Semaphore>,
    /// What each volume has of them.
    of_volumes: VolumePermits,
}

impl ConfinedThreads {
    /// Those that reach what is below a directory, as landlock has it.
    pub(crate) fn below(directory: &Path) -> std::io::Result<Self> {
        Self::with(directory, |directory: &Path| match mfaas_confine::reach_only_below(directory) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, "a thread for files could not be confined, and does nothing");
                false
            }
        })
    }

    pub(crate) fn with(directory: &Path, confine: fn(&Path) -> bool) -> std::io::Result<Self> {
        let directory = PathBuf::from(directory);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(OPERATIONS_MAX)
            .thread_keep_alive(IDLE_MAX)
            .thread_name("files")
            .on_thread_start(move || IS_CONFINED.set(confine(&directory)))
            .build()?;
        let (free, of_volumes) = (Arc::new(Semaphore::new(OPERATIONS_MAX)), VolumePermits::default());
        Ok(Self { runtime: Some(runtime), free, of_volumes })
    }

    /// Does something with a volume there. What waits for its turn is not done if nobody waits for it any more; what has begun goes on, and
    /// keeps its thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        volume: Option<&ResourceName>,
        work: impl FnOnce() -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let runtime = self.runtime.as_ref().ok_or_else(|| VolumeError::unavailable("the program ends"))?;
        let of_volume = match volume {
            Some(volume) => Some(self.of_volumes.acquire(volume).await?),
            None => None,
        };
        let of_all = Arc::clone(&self.free).acquire_owned().await.map_err(VolumeError::unavailable)?;
        let confined = move || {
            let _until_done = (of_volume, of_all);
            if IS_CONFINED.get() {
                work()
            } else {
                Err(VolumeError::unavailable("its thread is not confined"))
            }
        };
        runtime.spawn_blocking(confined).await.map_err(VolumeError::unavailable)?
    }
}

impl Drop for ConfinedThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
