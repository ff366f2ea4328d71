#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::atomic::{AtomicU64, Ordering};

use nfs3_server::memfs::{MemFs, MemFsConfig};
use nfs3_server::tcp::{NFSTcp as _, NFSTcpListener};

use std::sync::Arc;

use super::*;

mod directory;
mod nfs;

/// So much room, of which it is told what was taken.
#[derive(Debug)]
struct Left(AtomicU64);

impl Room for Left {
    fn take(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

fn left(bytes: u64) -> (SharedRoom, Arc<Left>) {
    let left = Arc::new(Left(AtomicU64::new(bytes)));
    (Arc::clone(&left) as SharedRoom, left)
}

/// As much as a test writes.
fn room() -> SharedRoom {
    left(1 << 40).0
}

/// What a change takes of it.
async fn taken<T>(change: impl AsyncFnOnce(SharedRoom) -> Result<T, VolumeError>) -> u64 {
    let (room, left) = left(1 << 40);
    change(room).await.unwrap();
    (1 << 40) - left.0.load(Ordering::Relaxed)
}

fn volume() -> ResourceName {
    "journal".parse().unwrap()
}

fn file(path: &str) -> VolumePath {
    VolumePath::file(&volume(), path.as_bytes()).unwrap()
}

fn root() -> VolumePath {
    VolumePath::root(&volume())
}

fn below(directory: &std::path::Path) -> Volumes {
    Volumes::open(&format!("file://{}", directory.display())).unwrap()
}

/// An NFS server in this process, as long as the test runs.
async fn server() -> Volumes {
    let export = MemFs::new(MemFsConfig::default()).unwrap();
    let listener = NFSTcpListener::bind("127.0.0.1:0", export).await.unwrap();
    let port = listener.get_listen_port();
    tokio::spawn(async move { listener.handle_forever().await });
    Volumes::open(&format!("nfs://127.0.0.1/?nfsport={port}&mountport={port}")).unwrap()
}

/// Of a place that was not there.
#[tokio::test]
async fn a_directory_is_looked_for_when_it_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("later");
    let volumes = below(&place);
    assert!(matches!(volumes.size(&file("a")).await, Err(VolumeError::Unavailable(_))));
    assert!(matches!(volumes.is_marked().await, Err(VolumeError::Unavailable(_))));
    std::fs::create_dir_all(place.join("journal")).unwrap();
    std::fs::write(place.join("journal/a"), "before").unwrap();
    assert!(!volumes.is_marked().await.unwrap());
    assert_eq!(contents(&volumes, "a").await, b"before");
    // Something else in its place, as if it had been mounted over it.
    std::fs::rename(&place, directory.path().join("elsewhere")).unwrap();
    std::fs::create_dir_all(place.join("journal")).unwrap();
    std::fs::write(place.join("journal/a"), "after").unwrap();
    assert!(!volumes.is_marked().await.unwrap());
    assert_eq!(contents(&volumes, "a").await, b"after");
}

async fn contents(volumes: &Volumes, path: &str) -> Vec<u8> {
    volumes.read_at(&file(path), 0, 1 << 20).await.unwrap()
}

/// What every backend does.
async fn behaves(volumes: &Volumes) {
    assert!(!volumes.is_marked().await.unwrap());
    volumes.mark().await.unwrap();
    assert!(volumes.is_marked().await.unwrap());
    // A volume that nobody has written to.
    assert_eq!(volumes.size(&file("a")).await.unwrap(), None);
    assert_eq!(volumes.held(&volume()).await.unwrap(), 0);
    assert_eq!(volumes.list(&root(), None, 9).await.unwrap(), Entries { entries: vec![], has_more: false });
    volumes.remove(&file("a/b")).await.unwrap();
    assert!(matches!(volumes.read_at(&file("a"), 0, 1).await, Err(VolumeError::NotThere)));

    // With the directory of the volume and one above the file.
    let path = file("a/b.txt");
    let write = async |offset, bytes: &[u8]| {
        taken(async |room| volumes.write_at(&path, offset, bytes, &room).await).await
    };
    let truncate = async |size| taken(async |room| volumes.truncate(&path, size, &room).await).await;
    assert_eq!(taken(async |room| volumes.create(&path, &room).await).await, 3 * ENTRY_BYTES);
    assert_eq!(taken(async |room| volumes.create(&path, &room).await).await, 0, "it is there");
    assert_eq!(write(0, b"one two").await, 7);
    assert_eq!(contents(volumes, "a/b.txt").await, b"one two");
    assert_eq!(volumes.read_at(&path, 4, 2).await.unwrap(), b"tw");
    for behind in [7, 1 << 63, u64::MAX] {
        assert_eq!(volumes.read_at(&path, behind, 2).await.unwrap(), b"", "from {behind}");
    }
    assert_eq!(write(5, b"HREE").await, 2);
    assert_eq!(write(1 << 62, b"").await, 0);
    let (to_append, left) = left(100);
    assert_eq!(volumes.append(&path, b"!", &to_append).await.unwrap(), 9);
    assert_eq!(volumes.append(&path, b"", &to_append).await.unwrap(), 10);
    assert_eq!(left.0.load(Ordering::Relaxed), 99);
    assert_eq!(contents(volumes, "a/b.txt").await, b"one tHREE!");
    volumes.sync(&path).await.unwrap();
    assert_eq!(truncate(3).await, 0);
    assert_eq!(contents(volumes, "a/b.txt").await, b"one");
    assert_eq!(truncate(5).await, 2);
    assert_eq!(contents(volumes, "a/b.txt").await, b"one\0\0");
    assert_eq!(write(5, b"\0\0x").await, 3);
    assert_eq!(contents(volumes, "a/b.txt").await, b"one\0\0\0\0x");
    assert_eq!(volumes.size(&path).await.unwrap(), Some(8));

    has_no_more_than_its_room(volumes).await;
    lists(volumes).await;

    for path in ["a", "a/b.txt/c"] {
        assert!(matches!(volumes.create(&file(path), &room()).await, Err(VolumeError::OtherKind)), "{path}");
        assert!(matches!(volumes.read_at(&file(path), 0, 1).await, Err(VolumeError::OtherKind)), "{path}");
    }
    assert!(matches!(volumes.remove(&file("a")).await, Err(VolumeError::NotEmpty)));
    volumes.remove(&file("a/b.txt")).await.unwrap();
    volumes.remove(&file("a/b.txt")).await.unwrap();
    assert_eq!(volumes.size(&file("a/b.txt")).await.unwrap(), None);
    volumes.remove(&file("a")).await.unwrap();
    assert!(volumes.list(&root(), None, 9).await.unwrap().entries.iter().all(|entry| entry.name != "a"));
}

async fn has_no_more_than_its_room(volumes: &Volumes) {
    let (path, is_full) = (file("a/b.txt"), |error| matches!(error, VolumeError::Full));
    let (little, much) = (left(3).0, left(u64::MAX).0);
    assert!(is_full(volumes.write_at(&path, 0, &[1; 12], &little).await.unwrap_err()));
    assert!(is_full(volumes.write_at(&path, u64::MAX - 3, b"1234", &much).await.unwrap_err()));
    assert!(is_full(volumes.write_at(&path, 1 << 63, b"1", &much).await.unwrap_err()));
    assert!(is_full(volumes.append(&path, b"1234", &little).await.unwrap_err()));
    assert!(is_full(volumes.truncate(&path, 12, &little).await.unwrap_err()));
    // The directory is made, and counted.
    let (one, left) = left(2 * ENTRY_BYTES - 1);
    assert!(is_full(volumes.create(&file("new/new"), &one).await.unwrap_err()));
    assert_eq!(left.0.load(Ordering::Relaxed), ENTRY_BYTES - 1);
    assert_eq!(contents(volumes, "a/b.txt").await, b"one\0\0\0\0x");
    assert_eq!(volumes.size(&file("new/new")).await.unwrap(), None);
    volumes.remove(&file("new")).await.unwrap();
}

async fn lists(volumes: &Volumes) {
    let held = volumes.held(&volume()).await.unwrap();
    for name in ["c", "b", "é"] {
        volumes.create(&file(name), &room()).await.unwrap();
    }
    volumes.write_at(&file("c"), 0, b"12345", &room()).await.unwrap();
    assert_eq!(volumes.held(&volume()).await.unwrap(), held + 3 * ENTRY_BYTES + 5);
    let entry = |name: &str, size| Entry { name: name.to_owned(), size };
    let all = [entry("a", None), entry("b", Some(0)), entry("c", Some(5)), entry("é", Some(0))];
    let listed = |after, limit| {
        let directory = root();
        async move { volumes.list(&directory, after, limit).await.unwrap() }
    };
    assert_eq!(listed(None, 9).await, Entries { entries: all.to_vec(), has_more: false });
    assert!(!listed(None, 4).await.has_more);
    assert_eq!(listed(None, 2).await, Entries { entries: all[..2].to_vec(), has_more: true });
    assert_eq!(listed(Some("b"), 2).await, Entries { entries: all[2..].to_vec(), has_more: false });
    assert!(matches!(volumes.list(&file("none"), None, 9).await, Err(VolumeError::NotThere)));
    assert!(matches!(volumes.list(&file("b"), None, 9).await, Err(VolumeError::OtherKind)));
    for name in ["b", "c", "é"] {
        volumes.remove(&file(name)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let volumes = below(directory.path());
    behaves(&volumes).await;
    // What the server of these tests does not take.
    volumes.create(&file("gap"), &room()).await.unwrap();
    assert_eq!(taken(async |room| volumes.write_at(&file("gap"), 3, b"x", &room).await).await, 4);
    assert_eq!(contents(&volumes, "gap").await, b"\0\0\0x");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_on_a_server() {
    behaves(&server().await).await;
}

/// Nothing of what is appended at the same time is lost, mixed or put in the same place.
async fn appends(volumes: &Volumes) {
    volumes.create(&file("log"), &room()).await.unwrap();
    let writers = (0..8_u8).map(|writer| async move {
        let mut offsets = Vec::new();
        for _ in 0..20 {
            let record = [b'a' + writer; 100];
            offsets.push(volumes.append(&file("log"), &record, &room()).await.unwrap());
        }
        offsets
    });
    let writers: Vec<_> = writers.map(Box::pin).collect();
    let mut offsets = Vec::new();
    let mut running = writers;
    // All of them at once, on this task.
    let all = std::future::poll_fn(|context| {
        running.retain_mut(|writer| match writer.as_mut().poll(context) {
            std::task::Poll::Ready(of_writer) => {
                offsets.extend(of_writer);
                false
            }
            std::task::Poll::Pending => true,
        });
        if running.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    });
    all.await;
    offsets.sort_unstable();
    assert_eq!(offsets, (0..160).map(|record| record * 100).collect::<Vec<u64>>());
    let log = contents(volumes, "log").await;
    assert!(log.chunks(100).all(|record| record.iter().all(|byte| *byte == record[0])));
}

#[tokio::test(flavor = "multi_thread")]
async fn appending_at_the_same_time_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let volumes = below(directory.path());
    assert!(!volumes.is_marked().await.unwrap());
    appends(&volumes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn appending_at_the_same_time_on_a_server() {
    appends(&server().await).await;
}

#[test]
fn an_address_is_a_directory_or_an_export() {
    for wrong in [
        "",
        "/var/lib/volumes",
        "http://server/export",
        "s3://bucket/prefix",
        "nfs://server",
        "nfs:///export",
        "nfs://user@server/export",
        "nfs://server:2049/export",
        "nfs://server/export?version=4",
        "nfs://server/export?nfsport=none",
    ] {
        assert!(matches!(Volumes::open(wrong), Err(VolumeError::Address(_))), "{wrong}");
    }
    Volumes::open("nfs://server/an%20export?nfsport=2049").unwrap();
    Volumes::open("nfs://server/export/of/volumes?uid=7&gid=8&nfsport=2049&mountport=2050").unwrap();
}
