#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn the_file_replaces_an_older_one_and_names_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.ready");
    std::fs::write(&path, "of an earlier process").unwrap();
    write_ready_file(&path, Map::from_iter([("http".to_owned(), "127.0.0.1:1".into())])).unwrap();
    let written: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(written, serde_json::json!({"http": "127.0.0.1:1", "pid": std::process::id()}));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn an_error_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing/node.ready");
    let error = write_ready_file(&path, Map::new()).unwrap_err().to_string();
    assert!(error.contains("missing/node.ready"), "{error}");
}
