//! What volumes hold, and how much more they may.
//!
//! It is counted by walking through a volume: when a call wants to write there first, and now and then as long as calls do; room that
//! is taken for what is to be written is added before it is. What others put there is found by the next walk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mfaas_ident::ResourceName;
use mfaas_volumes::{ANSWER_MAX, Room, SharedRoom, VolumeError, Volumes};
use tokio::sync::Notify;

/// How long a volume is looked after that nobody writes to.
const UNUSED_MAX: Duration = Duration::from_secs(2 * 3_600);
/// When a volume is walked through again: earlier if something of it changed.
const WALKED_AFTER: Duration = Duration::from_secs(60);
/// Walks may take one part in so many of the time.
const WALKING_SHARE: u32 = 20;

/// What volumes hold.
#[derive(Debug)]
pub(crate) struct VolumeSizes {
    /// What one may hold, in bytes.
    bytes_max: u64,
    known: Mutex<HashMap<ResourceName, Known>>,
    walked: Notify,
}

/// What is known of a volume.
#[derive(Debug)]
struct Known {
    /// As the last walk found it; nothing before the first.
    held: Option<u64>,
    /// Room that was taken since that began, since the one before began, and before that: what was taken may be stored later, and not
    /// be found by the next walk yet.
    taken: [u64; 3],
    has_changed: bool,
    is_being_walked: bool,
    /// Walks that have failed.
    failed: u64,
    walked: Instant,
    took: Duration,
    used: Instant,
}

impl Known {
    fn new(now: Instant) -> Self {
        let (taken, took, failed, is_being_walked) = Default::default();
        Self { held: None, taken, has_changed: true, is_being_walked, failed, walked: now, took, used: now }
    }

    fn is_due(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.walked);
        let is_time = age >= self.took * WALKING_SHARE && (self.has_changed || age >= WALKED_AFTER);
        !self.is_being_walked && is_time
    }
}

/// The room of one volume.
struct OfVolume {
    sizes: Arc<VolumeSizes>,
    volume: ResourceName,
}

impl Room for OfVolume {
    fn take(&self, bytes: u64) -> bool {
        let mut all = self.sizes.lock();
        // One that was not written to for long is forgotten, and not meanwhile.
        let Some(known) = all.get_mut(&self.volume) else { return false };
        let Some(held) = known.held else { return false };
        let taken = known.taken.iter().fold(bytes, |sum, taken| sum.saturating_add(*taken));
        if held.saturating_add(taken) > self.sizes.bytes_max {
            return false;
        }
        known.taken[0] += bytes;
        known.has_changed = true;
        true
    }
}

impl VolumeSizes {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, known: Mutex::default(), walked: Notify::new() }
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The room of a volume, when it is known.
    pub(crate) async fn room(
        self: &Arc<Self>,
        volumes: &Arc<Volumes>,
        volume: &ResourceName,
    ) -> Result<SharedRoom, VolumeError> {
        let known = tokio::time::timeout(ANSWER_MAX, self.know(volumes, volume));
        let known = known.await.unwrap_or(false);
        let unknown = || VolumeError::Unavailable(format!("it is not known what `{volume}` holds"));
        known.then_some(()).ok_or_else(unknown)?;
        Ok(Arc::new(OfVolume { sizes: Arc::clone(self), volume: volume.clone() }))
    }

    /// Waits until it is known what a volume holds; not if that cannot be counted.
    async fn know(self: &Arc<Self>, volumes: &Arc<Volumes>, volume: &ResourceName) -> bool {
        let mut failed = None;
        loop {
            let walked = self.walked.notified();
            tokio::pin!(walked);
            // Before it is looked, so that no walk is missed.
            walked.as_mut().enable();
            {
                let now = Instant::now();
                let mut all = self.lock();
                let known = all.entry(volume.clone()).or_insert_with(|| Known::new(now));
                known.used = now;
                let failed_before = *failed.get_or_insert(known.failed);
                if known.held.is_some() || known.failed > failed_before {
                    return known.held.is_some();
                }
                if !known.is_being_walked {
                    self.walk(volumes, volume, known);
                }
            }
            walked.await;
        }
    }

    /// Something of a volume was removed.
    pub(crate) fn shrunk(&self, volume: &ResourceName) {
        self.lock().get_mut(volume).into_iter().for_each(|known| known.has_changed = true);
    }

    /// Has those walked through for which it is time.
    pub(crate) fn renew(self: &Arc<Self>, volumes: &Arc<Volumes>) {
        let now = Instant::now();
        let mut all = self.lock();
        all.retain(|_, known| {
            known.is_being_walked || now.saturating_duration_since(known.used) < UNUSED_MAX
        });
        for (volume, known) in all.iter_mut().filter(|(_, known)| known.is_due(now)) {
            self.walk(volumes, volume, known);
        }
    }

    /// Walks through a volume, beside everything else.
    fn walk(self: &Arc<Self>, volumes: &Arc<Volumes>, volume: &ResourceName, known: &mut Known) {
        let [since, before, earlier] = known.taken;
        known.taken = [0, since, before.saturating_add(earlier)];
        (known.is_being_walked, known.has_changed) = (true, false);
        let (sizes, volumes, volume) = (Arc::clone(self), Arc::clone(volumes), volume.clone());
        let began = Instant::now();
        tokio::spawn(async move {
            let held = volumes.held(&volume).await;
            if let Err(error) = &held {
                tracing::warn!(%error, %volume, "what a volume holds could not be counted; it is tried again");
            }
            if let Some(known) = sizes.lock().get_mut(&volume) {
                (known.is_being_walked, known.walked, known.took) = (false, Instant::now(), began.elapsed());
                match held {
                    Ok(held) => {
                        known.held = Some(held);
                        known.taken[2] = 0;
                        // It is counted twice until the next one.
                        known.has_changed |= known.taken[1] > 0;
                    }
                    Err(_) => (known.failed, known.has_changed) = (known.failed + 1, true),
                }
            }
            sizes.walked.notify_waiters();
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ResourceName, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
