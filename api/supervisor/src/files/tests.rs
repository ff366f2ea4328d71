#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::os::unix::fs::{MetadataExt as _, symlink};

use rustix::fs::{Mode, chmod};

use super::{give, publish_tree, read};

#[test]
fn a_link_or_a_fifo_in_the_place_of_a_file_is_refused_and_its_target_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let (secret, link, fifo) = (dir.path().join("secret"), dir.path().join("link"), dir.path().join("fifo"));
    std::fs::write(&secret, "s").unwrap();
    chmod(&secret, Mode::from_raw_mode(0o600)).unwrap();
    symlink(&secret, &link).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    for path in [&link, &fifo] {
        assert!(read(path, 100).is_err(), "{}", path.display());
        assert!(give(path, None, 0o644).is_err(), "{}", path.display());
    }
    assert_eq!(std::fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
    assert!(publish_tree(dir.path(), None).is_err(), "a FIFO is not published");
}

#[test]
fn reading_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("big");
    std::fs::write(&path, [0; 101]).unwrap();
    assert!(read(&path, 100).is_err());
    assert_eq!(read(&path, 101).unwrap().len(), 101);
}

#[test]
fn a_published_tree_can_be_read_and_not_written_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("bin");
    std::fs::create_dir(&inner).unwrap();
    for (name, mode) in [("tool", 0o700), ("data", 0o666)] {
        std::fs::write(inner.join(name), "x").unwrap();
        chmod(inner.join(name), Mode::from_raw_mode(mode)).unwrap();
    }
    symlink("/nowhere", inner.join("link")).unwrap();
    publish_tree(dir.path(), None).unwrap();
    let mode = |name: &str| std::fs::metadata(inner.join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode(""), mode("tool"), mode("data")), (0o755, 0o755, 0o644));
}
