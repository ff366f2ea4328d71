//! A directory store: names, damage, limits, leftovers.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use metrics_exporter_prometheus::PrometheusBuilder;
use mfaas_ident::Digest;
use mfaas_rules::codes;

use crate::{BlobError, Blobs, MARKER, sweep_directory};

async fn store() -> (tempfile::TempDir, Blobs) {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&format!("file://{}", dir.path().display())).unwrap();
    blobs.mark().await.unwrap();
    (dir, blobs)
}

fn pieces(pieces: &[&'static [u8]]) -> impl stream::Stream<Item = Result<Bytes, std::io::Error>> {
    stream::iter(pieces.iter().map(|p| Ok(Bytes::from_static(p))).collect::<Vec<_>>())
}

/// Receives and publishes, as the server does with what it records.
async fn stored(
    blobs: &Blobs,
    stream: impl stream::Stream<Item = Result<Bytes, std::io::Error>>,
    bytes_max: u64,
) -> Result<(Digest, u64), BlobError> {
    let incoming = blobs.receive(stream, bytes_max).await?;
    blobs.publish(&incoming).await?;
    Ok((incoming.digest(), incoming.bytes()))
}

fn file(dir: &Path, digest: &Digest) -> std::path::PathBuf {
    let name = digest.to_string();
    dir.join("sha256").join(&name[..2]).join(name)
}

#[tokio::test]
async fn bytes_come_back_under_their_digest() {
    let (dir, blobs) = store().await;
    let digest = blobs.put(Bytes::from_static(b"hello")).await.unwrap();
    assert_eq!(digest, Digest::of(b"hello"));
    assert_eq!(blobs.put(Bytes::from_static(b"hello")).await.unwrap(), digest);
    assert_eq!(blobs.get(&digest, 5).await.unwrap(), b"hello".as_slice());
    assert!(blobs.exists(&digest).await.unwrap());
    assert!(file(dir.path(), &digest).is_file());
    blobs.ready().await.unwrap();
}

/// What the sender or the caller has done is no error of the store.
#[test]
fn requests_are_timed_and_failures_of_the_store_are_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let (dir, blobs) = store().await;
            let digest = blobs.put(Bytes::from_static(b"hello")).await.unwrap();
            assert!(matches!(blobs.get(&digest, 4).await, Err(BlobError::TooLarge { .. })));
            assert!(stored(&blobs, pieces(&[b"hello"]), 4).await.is_err());
            blobs.get(&digest, 5).await.unwrap();
            std::fs::remove_file(file(dir.path(), &digest)).unwrap();
            assert!(matches!(blobs.get(&digest, 5).await, Err(BlobError::Missing { .. })));
            std::fs::remove_file(dir.path().join(MARKER)).unwrap();
            assert!(blobs.put(Bytes::from_static(b"hello")).await.is_err());
        });
    });
    let shown = handle.render();
    let has = |line: &str| assert!(shown.lines().any(|shown| shown == line), "{line}:\n{shown}");
    has("mfaas_blob_request_seconds_count{operation=\"put\"} 2");
    has("mfaas_blob_request_seconds_count{operation=\"get\"} 3");
    has("mfaas_blob_errors_total{operation=\"get\"} 1");
    has("mfaas_blob_errors_total{operation=\"put\"} 1");
    assert!(!shown.contains("mfaas_blob_errors_total{operation=\"receive\"}"), "{shown}");
}

#[tokio::test]
async fn a_stream_is_hashed_while_it_flows() {
    let (_dir, blobs) = store().await;
    let (digest, bytes) = stored(&blobs, pieces(&[b"he", b"", b"llo"]), 5).await.unwrap();
    assert_eq!((digest, bytes), (Digest::of(b"hello"), 5));
    let (empty, bytes) = stored(&blobs, pieces(&[]), 5).await.unwrap();
    assert_eq!((empty, bytes), (Digest::of(b""), 0));
    assert_eq!(blobs.get(&empty, 0).await.unwrap(), b"".as_slice());
}

#[tokio::test]
async fn a_large_stream_goes_through_a_multipart_upload() {
    let (dir, blobs) = store().await;
    let piece = Bytes::from(vec![7_u8; 3 << 20]);
    let stream = stream::iter((0..4).map(|_| Ok::<_, std::io::Error>(piece.clone())).collect::<Vec<_>>());
    let (digest, bytes) = stored(&blobs, stream, 12 << 20).await.unwrap();
    assert_eq!(bytes, 12 << 20);
    assert_eq!(blobs.get(&digest, 12 << 20).await.unwrap().len(), 12 << 20);
    assert_eq!(std::fs::read_dir(dir.path().join("incoming")).unwrap().count(), 0);
}

#[tokio::test]
async fn too_long_and_broken_streams_leave_nothing() {
    let (dir, blobs) = store().await;
    let error = stored(&blobs, pieces(&[b"hel", b"lo"]), 4).await.unwrap_err();
    assert!(matches!(error, BlobError::TooLarge { bytes_max: 4 }));
    let piece = Bytes::from(vec![7_u8; 9 << 20]);
    let broken = stream::iter([Ok(piece), Err(std::io::Error::other("gone"))]);
    let error = stored(&blobs, broken, 20 << 20).await.unwrap_err();
    assert!(matches!(error, BlobError::Source(_)) && error.is_transient());
    let incoming = dir.path().join("incoming");
    let left = if incoming.is_dir() { std::fs::read_dir(incoming).unwrap().count() } else { 0 };
    assert_eq!((left, dir.path().join("sha256").exists()), (0, false));
}

#[tokio::test]
async fn what_is_discarded_never_had_a_name() {
    let (dir, blobs) = store().await;
    let incoming = blobs.receive(pieces(&[b"hello"]), 5).await.unwrap();
    assert_eq!((incoming.digest(), incoming.bytes()), (Digest::of(b"hello"), 5));
    assert!(!blobs.exists(&incoming.digest()).await.unwrap());
    blobs.discard(&incoming).await.unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("incoming")).unwrap().count(), 0);
    assert!(!dir.path().join("sha256").exists());
}

#[tokio::test]
async fn a_probe_tells_whether_bytes_are_taken_and_leaves_none() {
    let (dir, blobs) = store().await;
    blobs.writable().await.unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("incoming")).unwrap().count(), 0);
    std::fs::remove_dir_all(dir.path()).unwrap();
    std::fs::write(dir.path(), b"no directory any more").unwrap();
    let error = blobs.writable().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains(&format!("file://{}", dir.path().display())), "{error}");
    std::fs::remove_file(dir.path()).unwrap();
}

#[tokio::test]
async fn damage_and_absence_have_codes() {
    let (dir, blobs) = store().await;
    let digest = blobs.put(Bytes::from_static(b"hello")).await.unwrap();
    std::fs::write(file(dir.path(), &digest), b"hellp").unwrap();
    let corrupt = blobs.get(&digest, 5).await.unwrap_err();
    assert_eq!(corrupt.code(), Some(codes::MF0601));
    assert!(matches!(corrupt, BlobError::Corrupt { found, .. } if found == Digest::of(b"hellp")));
    std::fs::write(file(dir.path(), &digest), b"hello, world").unwrap();
    assert!(matches!(blobs.get(&digest, 5).await.unwrap_err(), BlobError::TooLarge { bytes_max: 5 }));
    let missing = blobs.get(&Digest::of(b"other"), 5).await.unwrap_err();
    assert_eq!((missing.code(), missing.is_transient()), (Some(codes::MF0607), false));
    assert!(!blobs.exists(&Digest::of(b"other")).await.unwrap());
}

/// As a mount point looks while nothing is mounted there.
#[tokio::test]
async fn an_empty_directory_in_the_place_of_the_store_is_not_the_store() {
    let (dir, blobs) = store().await;
    let digest = blobs.put(Bytes::from_static(b"hello")).await.unwrap();
    let away = dir.path().with_extension("away");
    std::fs::rename(dir.path(), &away).unwrap();
    std::fs::create_dir(dir.path()).unwrap();
    let unmarked = |error: BlobError| {
        assert!(matches!(&error, BlobError::Unmarked { .. }) && error.is_transient(), "{error}");
        assert_eq!(error.code(), None, "it says nothing about the bytes");
    };
    unmarked(blobs.ready().await.unwrap_err());
    unmarked(blobs.writable().await.unwrap_err());
    unmarked(blobs.get(&digest, 5).await.unwrap_err());
    unmarked(blobs.put(Bytes::from_static(b"other")).await.unwrap_err());
    let incoming = blobs.receive(pieces(&[b"hello"]), 5).await.unwrap();
    unmarked(blobs.publish(&incoming).await.unwrap_err());
    std::fs::remove_dir_all(dir.path()).unwrap();
    std::fs::rename(&away, dir.path()).unwrap();
    assert_eq!(blobs.get(&digest, 5).await.unwrap(), b"hello".as_slice());
    let missing = blobs.get(&Digest::of(b"other"), 5).await.unwrap_err();
    assert_eq!(missing.code(), Some(codes::MF0607), "the store is whole and has no such blob");
}

#[tokio::test]
async fn only_old_leftovers_are_swept() {
    let (dir, blobs) = store().await;
    let incoming = dir.path().join("incoming");
    std::fs::create_dir(&incoming).unwrap();
    std::fs::write(incoming.join("half#1"), b"half").unwrap();
    assert_eq!(blobs.sweep().await.unwrap(), 0, "it may be in use");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(sweep_directory(incoming.clone(), Duration::from_millis(1)).unwrap(), 1);
    assert_eq!(std::fs::read_dir(incoming).unwrap().count(), 0);
}

/// However it is stored: `put`, or received and published.
#[tokio::test]
async fn a_blob_that_is_stored_again_is_young_again_and_only_an_old_one_is_removed() {
    let (dir, blobs) = store().await;
    let digest = blobs.put(Bytes::from_static(b"hello")).await.unwrap();
    let first_byte = u8::from_str_radix(&digest.to_string()[..2], 16).unwrap();
    let hour = Duration::from_secs(3_600);
    let aged = || {
        let file = std::fs::File::options().write(true).open(file(dir.path(), &digest)).unwrap();
        file.set_modified(SystemTime::now() - hour).unwrap();
    };
    let is_young = async || {
        let listed = blobs.list(first_byte).await.unwrap();
        assert_eq!(listed.len(), 1);
        let young = listed[0].stored_at > SystemTime::now() - hour / 2;
        assert_eq!(listed[0].digest, digest);
        assert!(!young || !blobs.remove_older(&digest, SystemTime::now() - hour / 2).await.unwrap());
        young
    };
    aged();
    assert!(!is_young().await);
    blobs.put(Bytes::from_static(b"hello")).await.unwrap();
    assert!(is_young().await);
    aged();
    stored(&blobs, pieces(&[b"hello"]), 5).await.unwrap();
    assert!(is_young().await);
    aged();
    assert!(blobs.remove_older(&digest, SystemTime::now() - hour / 2).await.unwrap());
    assert!(!blobs.remove_older(&digest, SystemTime::now()).await.unwrap(), "it is gone");
    assert!(blobs.list(first_byte).await.unwrap().is_empty());
}

#[tokio::test]
async fn numbered_bytes_are_read_in_pieces_and_go_with_what_a_crash_left_of_them() {
    let (dir, blobs) = store().await;
    let number = uuid::Uuid::new_v4();
    assert_eq!(blobs.get_numbered(number, 0..1).await.unwrap(), None);
    blobs.put_numbered(number, Bytes::from_static(b"0123456789")).await.unwrap();
    for (range, bytes) in [(0..10, &b"0123456789"[..]), (3..5, b"34"), (9..10, b"9")] {
        assert_eq!(blobs.get_numbered(number, range).await.unwrap().unwrap(), bytes);
    }
    let name = number.simple().to_string();
    let file = dir.path().join("numbered").join(&name[..2]).join(&name);
    assert_eq!(std::fs::read(&file).unwrap(), b"0123456789");
    let [part, other] = [format!("{name}#1"), format!("{name}0")].map(|name| file.with_file_name(name));
    for file in [&part, &other] {
        std::fs::write(file, b"012").unwrap();
    }
    blobs.delete_numbered(number).await.unwrap();
    blobs.delete_numbered(number).await.unwrap();
    assert_eq!([&file, &part, &other].map(|file| file.exists()), [false, false, true]);
    assert_eq!(blobs.get_numbered(number, 0..1).await.unwrap(), None);

    std::fs::remove_file(dir.path().join(MARKER)).unwrap();
    let missing = blobs.get_numbered(number, 0..1).await.unwrap_err();
    assert!(matches!(missing, BlobError::Unmarked { .. }), "{missing}");
    let stored = blobs.put_numbered(number, Bytes::from_static(b"x")).await.unwrap_err();
    assert!(matches!(stored, BlobError::Unmarked { .. }), "{stored}");
    let deleted = blobs.delete_numbered(number).await.unwrap_err();
    assert!(matches!(deleted, BlobError::Unmarked { .. }), "{deleted}");
}

#[tokio::test]
async fn what_is_no_blob_is_not_listed() {
    let (dir, blobs) = store().await;
    let digest = blobs.put(Bytes::from_static(b"hello")).await.unwrap();
    let directory = dir.path().join("sha256").join(&digest.to_string()[..2]);
    let elsewhere = Digest::of(b"elsewhere").to_string();
    for name in ["README", elsewhere.as_str(), "2cf24dba5fb0a30e26e83b2ac5b9e29e#1"] {
        std::fs::write(directory.join(name), b"x").unwrap();
    }
    let first_byte = u8::from_str_radix(&digest.to_string()[..2], 16).unwrap();
    let listed: Vec<Digest> = blobs.list(first_byte).await.unwrap().iter().map(|b| b.digest).collect();
    assert_eq!(listed, [digest]);
    assert_ne!(elsewhere[..2], digest.to_string()[..2]);
}

#[test]
fn addresses_that_are_no_store_are_refused() {
    for url in ["", "/tmp", "http://x", "file://relative", "file:///does/not/exist", "file:///etc/passwd"] {
        assert!(matches!(Blobs::open(url), Err(BlobError::Address { .. })), "{url}");
    }
}

#[tokio::test]
async fn a_copy_has_the_bytes_of_its_name_or_is_none() {
    let ((dir, blobs), (_other_dir, other)) = (store().await, store().await);
    let digest = blobs.put(Bytes::from_static(b"bytes")).await.unwrap();
    assert_eq!(blobs.check(&digest, 5).await.unwrap(), 5);
    assert!(matches!(blobs.check(&digest, 4).await, Err(BlobError::TooLarge { bytes_max: 4 })));
    assert_eq!(blobs.copy_to(&digest, &other, 5).await.unwrap(), 5);
    assert_eq!(other.get(&digest, 5).await.unwrap(), "bytes");
    assert_eq!(blobs.list(digest.as_bytes()[0]).await.unwrap()[0].bytes, 5);

    let (_third_dir, third) = store().await;
    std::fs::write(file(dir.path(), &digest), b"bites").unwrap();
    assert!(matches!(blobs.check(&digest, 5).await, Err(BlobError::Corrupt { .. })));
    assert!(matches!(blobs.copy_to(&digest, &third, 5).await, Err(BlobError::Corrupt { .. })));
    let pieces: Vec<_> = blobs.open_blob(&digest, 5).await.unwrap().collect().await;
    assert!(matches!(pieces.as_slice(), [Ok(_), Err(BlobError::Corrupt { .. })]), "{pieces:?}");
    assert!(!third.exists(&digest).await.unwrap());
    let missing = Digest::of(b"missing");
    assert!(matches!(blobs.check(&missing, 5).await, Err(BlobError::Missing { .. })));
    assert!(matches!(blobs.copy_to(&missing, &third, 5).await, Err(BlobError::Missing { .. })));
}
