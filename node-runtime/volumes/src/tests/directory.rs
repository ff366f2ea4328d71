//! Ways out of a volume: each layer stops what the others would let through.

use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::ResolveFlags;

use super::*;
use crate::directory::Layers;
use crate::limits::VOLUME_OPERATIONS_MAX;
use crate::threads::ConfinedThreads;

const NO_RESOLVE: ResolveFlags = ResolveFlags::empty();
const NO_LANDLOCK: fn(&Path) -> std::io::Result<ConfinedThreads> =
    |path| ConfinedThreads::with(path, |_| true);

/// Which layers are there, by name.
const NONE: (&str, Layers) = ("none", Layers { resolve: NO_RESOLVE, threads: NO_LANDLOCK });
const RESOLVE: (&str, Layers) = ("openat2", Layers { threads: NO_LANDLOCK, ..Layers::ALL });
const LANDLOCK: (&str, Layers) = ("landlock", Layers { resolve: NO_RESOLVE, ..Layers::ALL });
const ALL: (&str, Layers) = ("all", Layers::ALL);

async fn with(directory: &Path, layers: Layers) -> Volumes {
    let volumes = Volumes(Backend::Directory(Directory::with(directory, layers)));
    assert!(!volumes.is_marked().await.unwrap());
    volumes
}

/// A directory with two volumes, and a file that is in none.
fn world() -> (tempfile::TempDir, std::path::PathBuf) {
    let all = tempfile::tempdir().unwrap();
    let volumes = all.path().join("volumes");
    for volume in ["journal", "other"] {
        std::fs::create_dir_all(volumes.join(volume)).unwrap();
    }
    std::fs::write(volumes.join("other/secret"), "of another volume").unwrap();
    std::fs::write(all.path().join("secret"), "of nobody").unwrap();
    (all, volumes)
}

async fn reads(volumes: &Volumes, path: &VolumePath) -> bool {
    volumes.read_at(path, 0, 100).await.is_ok_and(|bytes| !bytes.is_empty())
}

#[tokio::test]
async fn names_that_lead_up_reach_nothing() {
    let (_all, directory) = world();
    // No function can ask for them.
    assert!(VolumePath::file(&volume(), b"../other/secret").is_err());
    let unchecked = |names: &[&str]| VolumePath::unchecked(&volume(), names);
    let (beside, above) = (unchecked(&["..", "other", "secret"]), unchecked(&["..", "..", "secret"]));
    for (layers, reaches_beside, reaches_above) in
        [(NONE, true, true), (LANDLOCK, true, false), (RESOLVE, false, false), (ALL, false, false)]
    {
        let volumes = with(&directory, layers.1).await;
        assert_eq!(reads(&volumes, &beside).await, reaches_beside, "beside, {}", layers.0);
        assert_eq!(reads(&volumes, &above).await, reaches_above, "above, {}", layers.0);
        let made = volumes.create(&unchecked(&["..", "..", "made"]), &room()).await.is_ok();
        assert_eq!(made, reaches_above, "making, {}", layers.0);
    }
}

#[tokio::test]
async fn links_reach_nothing() {
    let (all, directory) = world();
    let journal = directory.join("journal");
    symlink(all.path(), journal.join("out")).unwrap();
    symlink("../other", journal.join("beside")).unwrap();
    symlink("../../secret", journal.join("secret")).unwrap();
    for (layers, reaches_beside, reaches_out) in
        [(NONE, true, true), (LANDLOCK, true, false), (RESOLVE, false, false), (ALL, false, false)]
    {
        let volumes = with(&directory, layers.1).await;
        assert_eq!(reads(&volumes, &file("beside/secret")).await, reaches_beside, "beside, {}", layers.0);
        assert_eq!(reads(&volumes, &file("out/secret")).await, reaches_out, "out, {}", layers.0);
        // The last name is followed by nothing of this.
        assert!(!reads(&volumes, &file("secret")).await, "{}", layers.0);
    }
}

/// A directory on the way is exchanged for a link again and again while files below it are read and made.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_becomes_a_link_leads_nowhere() {
    let (all, directory) = world();
    let journal = directory.join("journal");
    std::fs::create_dir(journal.join("real")).unwrap();
    std::fs::write(journal.join("real/secret"), "").unwrap();
    std::fs::create_dir(all.path().join("outside")).unwrap();
    std::fs::write(all.path().join("outside/secret"), "of nobody").unwrap();
    symlink(all.path().join("outside"), journal.join("link")).unwrap();
    std::fs::rename(journal.join("real"), journal.join("way")).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    for (layers, reaches) in [(NONE, true), (LANDLOCK, false), (RESOLVE, false), (ALL, false)] {
        let volumes = with(&directory, layers.1).await;
        is_over.store(false, std::sync::atomic::Ordering::Relaxed);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                use rustix::fs::{CWD, RenameFlags, renameat_with};
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let (one, other) = (journal.join("way"), journal.join("link"));
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let (volumes, is_over) = (&volumes, &is_over);
            let looking = async move {
                let mut found = false;
                for round in 0..2_000 {
                    found |= reads(volumes, &file("way/secret")).await;
                    let made = file(&format!("way/made-{round}"));
                    let _ = volumes.create(&made, &room()).await;
                    if found && reaches {
                        break;
                    }
                }
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
                found
            };
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(looking))
        });
        assert_eq!(found, reaches, "{}", layers.0);
        let outside = std::fs::read_dir(all.path().join("outside")).unwrap().count();
        if reaches {
            for entry in std::fs::read_dir(all.path().join("outside")).unwrap().flatten() {
                if entry.file_name() != "secret" {
                    std::fs::remove_file(entry.path()).unwrap();
                }
            }
        } else {
            assert_eq!(outside, 1, "something was made outside, {}", layers.0);
        }
    }
}

#[tokio::test]
async fn what_is_no_file_is_not_opened() {
    let (_all, directory) = world();
    let journal = directory.join("journal");
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, journal.join("pipe"), fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(journal.join("socket")).unwrap();
    symlink("/etc/passwd", journal.join("link")).unwrap();
    let volumes = with(&directory, Layers::ALL).await;
    for name in ["pipe", "socket", "link"] {
        let path = file(name);
        assert!(matches!(volumes.read_at(&path, 0, 1).await, Err(VolumeError::OtherKind)), "{name}");
        assert!(
            matches!(volumes.write_at(&path, 0, b"x", &room()).await, Err(VolumeError::OtherKind)),
            "{name}"
        );
        assert!(matches!(volumes.create(&path, &room()).await, Err(VolumeError::OtherKind)), "{name}");
        assert!(matches!(volumes.remove(&path).await, Err(VolumeError::OtherKind)), "{name}");
    }
    assert_eq!(volumes.list(&root(), None, 9).await.unwrap().entries, []);
    assert_eq!(volumes.held(&volume()).await.unwrap(), 0);
}

/// A thread that could not be confined does nothing.
#[tokio::test]
async fn without_landlock_nothing_is_reached() {
    let (_all, directory) = world();
    std::fs::write(directory.join("journal/file"), "x").unwrap();
    let threads: fn(&Path) -> std::io::Result<ConfinedThreads> =
        |path| ConfinedThreads::with(path, |_| false);
    let unconfined = Directory::with(&directory, Layers { threads, ..Layers::ALL });
    let volumes = Volumes(Backend::Directory(unconfined));
    assert!(matches!(volumes.is_marked().await, Err(VolumeError::Unavailable(_))));
    assert!(matches!(volumes.read_at(&file("file"), 0, 1).await, Err(VolumeError::Unavailable(_))));
}

/// What hangs in one volume keeps its threads, and leaves others theirs.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_hangs_leaves_room_for_others() {
    let (_all, directory) = world();
    let threads = Arc::new(ConfinedThreads::below(&directory).unwrap());
    let (hanging, other) = (volume(), "other".parse().unwrap());
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let begun = Arc::new(AtomicU64::new(0));
    let work = || {
        let (released, begun) = (Arc::clone(&released), Arc::clone(&begun));
        move || {
            begun.fetch_add(1, Ordering::Relaxed);
            let _ = released.lock().unwrap().recv();
            Ok(())
        }
    };
    let soon = std::time::Duration::from_millis(20);
    for _ in 0..3 * VOLUME_OPERATIONS_MAX {
        let given_up = tokio::time::timeout(soon, threads.run(Some(&hanging), work())).await;
        assert!(given_up.is_err(), "it does not hang");
    }
    assert_eq!(threads.run(Some(&other), || Ok(7)).await.unwrap(), 7);
    // Those that waited for a thread when they were given up are never done.
    drop(release);
    assert_eq!(threads.run(Some(&hanging), || Ok(7)).await.unwrap(), 7);
    assert_eq!(begun.load(Ordering::Relaxed), VOLUME_OPERATIONS_MAX as u64);
}
