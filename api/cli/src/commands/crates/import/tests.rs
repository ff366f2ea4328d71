#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn advisories_are_found_by_their_names_and_no_link_is_followed() {
    let root = tempfile::tempdir().unwrap();
    let below = root.path().join("crates/left-pad");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::create_dir_all(root.path().join(".git")).unwrap();
    for file in ["crates/left-pad/RUSTSEC-2099-0001.md", "README.md", ".git/RUSTSEC-1.md"] {
        std::fs::write(root.path().join(file), "text").unwrap();
    }
    std::os::unix::fs::symlink("/", root.path().join("crates/away")).unwrap();
    let mut files = Vec::new();
    gather(root.path(), 0, &mut files).unwrap();
    assert_eq!(files, [below.join("RUSTSEC-2099-0001.md")]);
}
