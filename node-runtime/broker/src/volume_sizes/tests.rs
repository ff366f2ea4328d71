#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_volumes::{ENTRY_BYTES, VolumePath};

use super::*;

struct World {
    _directory: tempfile::TempDir,
    volumes: Arc<Volumes>,
    volume: ResourceName,
    sizes: Arc<VolumeSizes>,
}

impl World {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let volumes = Volumes::open(&format!("file://{}", directory.path().display())).unwrap();
        assert!(!volumes.is_marked().await.unwrap());
        let (volumes, sizes) = (Arc::new(volumes), Arc::new(VolumeSizes::new(100_000)));
        Self { _directory: directory, volumes, volume: "journal".parse().unwrap(), sizes }
    }

    async fn room(&self) -> SharedRoom {
        self.sizes.room(&self.volumes, &self.volume).await.unwrap()
    }

    fn left(&self) -> u64 {
        let all = self.sizes.lock();
        let known = &all[&self.volume];
        100_000 - known.held.unwrap() - known.taken.iter().sum::<u64>()
    }

    /// Until everything is counted that was done by now.
    async fn walk(&self) {
        self.sizes.shrunk(&self.volume);
        let is_walked =
            || self.sizes.lock().values().all(|known| !known.is_being_walked && !known.has_changed);
        while !is_walked() {
            self.sizes.renew(&self.volumes);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What is written counts at once and once, and what was removed when it was seen to be.
#[tokio::test]
async fn a_volume_has_the_room_that_is_left() {
    let world = World::new().await;
    let path = VolumePath::file(&world.volume, b"a/b").unwrap();
    let room = world.room().await;
    world.volumes.create(&path, &room).await.unwrap();
    world.volumes.write_at(&path, 0, &[1; 10_000], &room).await.unwrap();
    // The volume's own directory as well, which counts for nothing when it is counted.
    assert_eq!(world.left(), 90_000 - 3 * ENTRY_BYTES);
    world.walk().await;
    assert_eq!(world.left(), 90_000 - 2 * ENTRY_BYTES);
    world.volumes.remove(&path).await.unwrap();
    assert_eq!(world.left(), 90_000 - 2 * ENTRY_BYTES);
    world.walk().await;
    assert_eq!(world.left(), 100_000 - ENTRY_BYTES);
}

/// However many want it at the same time.
#[tokio::test]
async fn room_is_taken_once() {
    let world = World::new().await;
    let rooms = [world.room().await, world.room().await];
    assert!(rooms[0].take(60_000) && !rooms[1].take(40_001) && rooms[1].take(40_000) && !rooms[0].take(1));
    // It was taken, and nothing was stored.
    world.walk().await;
    assert_eq!(world.left(), 100_000);
    assert!(!rooms[0].take(u64::MAX));
}

/// A volume that cannot be counted has no room, and other volumes have theirs.
#[tokio::test]
async fn a_volume_that_cannot_be_counted_has_no_room() {
    let away = Arc::new(Volumes::open("file:///none/such").unwrap());
    let sizes = Arc::new(VolumeSizes::new(100_000));
    let room = sizes.room(&away, &"journal".parse().unwrap()).await;
    assert!(matches!(room.err(), Some(VolumeError::Unavailable(_))));
}
