#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;

use notify::event::{AccessKind, CreateKind, EventKind, ModifyKind};

use super::*;

#[test]
fn reading_and_building_are_no_changes() {
    let roots = [PathBuf::from("/home/ada/one"), PathBuf::from("/home/ada/two")];
    let modified = EventKind::Modify(ModifyKind::Any);
    let is = |kind, path: &str| is_change(&roots, &Event::new(kind).add_path(path.into()));
    assert!(is(modified, "/home/ada/one/src/lib.rs"));
    assert!(is(EventKind::Create(CreateKind::File), "/home/ada/two/Cargo.toml"));
    assert!(
        is(modified, "/home/ada/two/src/target/mod.rs"),
        "only the directory beside Cargo.toml is cargo's"
    );
    assert!(is(modified, "/home/ada/one"), "the directory itself");
    assert!(is_change(&roots, &Event::new(EventKind::Other)), "the system lost track");
    assert!(!is(modified, "/home/ada/one/target/debug/libone.so"));
    assert!(!is(modified, "/home/ada/two/.git/index"));
    assert!(!is(EventKind::Access(AccessKind::Any), "/home/ada/one/src/lib.rs"));
}

#[tokio::test]
async fn a_saved_file_is_told_once_however_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("src")).unwrap();
    fs::create_dir(directory.path().join("target")).unwrap();
    fs::write(directory.path().join("Cargo.toml"), "[package]\nname = \"watched\"\n").unwrap();
    let lib = directory.path().join("src/lib.rs");
    fs::write(&lib, "first").unwrap();
    let mut watch = Watch::of(&[Package::at(directory.path(), None).unwrap()]).unwrap();

    let before = Instant::now();
    fs::write(&lib, "second").unwrap();
    assert!(watch.change().await.unwrap() >= before);
    fs::write(directory.path().join("src/lib.rs~"), "third").unwrap();
    fs::rename(directory.path().join("src/lib.rs~"), &lib).unwrap();
    watch.change().await.unwrap();
    fs::write(directory.path().join("target/made"), "no source").unwrap();
    let _ = fs::read(&lib).unwrap();
    let more = tokio::time::timeout(Duration::from_millis(300), watch.change()).await;
    assert!(more.is_err(), "{more:?}");
}
