#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn toolchain() -> ToolchainId {
    "a".repeat(64).parse().unwrap()
}

/// A cache with one crate, as far as opening looks at it.
fn cache(into: &Path) -> (PathBuf, Digest) {
    let library = b"compiled";
    let product = |file: &str| {
        serde_json::json!({
            "kind": "library", "extern_name": "x", "file": file, "digest": Digest::of(library),
        })
    };
    let index = serde_json::json!({
        "toolchain": toolchain(), "abi_version": 1, "shim": product("shim"), "abi": product("abi"),
        "facade": { "own": product("own"), "compiler_crates": [], "sets": [] }, "crates": [],
    });
    let recipe = "recipe";
    let key = Digest::of(recipe.as_bytes());
    let root = into.join(key.to_string());
    fs::create_dir_all(root.join(LIBRARY_PART)).unwrap();
    for file in ["shim", "abi", "own"] {
        fs::write(root.join(LIBRARY_PART).join(file), library).unwrap();
    }
    fs::write(root.join(INDEX_FILE), index.to_string()).unwrap();
    fs::write(root.join(RECIPE_FILE), recipe).unwrap();
    fs::write(root.join(ALLOWLIST_FILE), "{}").unwrap();
    (root, key)
}

/// What lies in a directory, but for the lock.
fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name != LOCK_FILE).collect()
}

#[test]
fn a_cache_is_packed_alike_wherever_it_lies_and_comes_out_whole() {
    let (one, other, host) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ((root, key), (other, _)) = (cache(one.path()), cache(other.path()));
    let bytes = pack(&root, &key).unwrap();
    assert_eq!(bytes, pack(&other, &key).unwrap());
    let into = host.path().join("not/there/yet");
    let deps = unpack(&bytes, &key, toolchain(), &into).unwrap();
    assert_eq!((deps.key(), names(&into)), (key, vec![key.to_string()]));
    assert_eq!(pack(deps.root(), &key).unwrap(), bytes);
    // One that was damaged here gives way to what was stored.
    drop(deps);
    fs::write(into.join(key.to_string()).join("lib/shim"), "changed").unwrap();
    let again = unpack(&bytes, &key, toolchain(), &into).unwrap();
    assert_eq!(pack(again.root(), &key).unwrap(), bytes);
}

#[test]
fn what_is_not_the_cache_gets_no_name() {
    let (place, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (root, key) = cache(place.path());
    let bytes = pack(&root, &key).unwrap();
    let refused = |bytes: &[u8], key: &Digest, toolchain| {
        let error = unpack(bytes, key, toolchain, host.path()).unwrap_err();
        assert!(error.is_of_the_machine(), "{error}");
        assert!(names(host.path()).is_empty(), "{error}: {:?}", names(host.path()));
        error.to_string()
    };
    assert!(refused(&bytes[..bytes.len() / 2], &key, toolchain()).contains("its archive"));
    assert!(refused(&bytes, &Digest::of(b"other"), toolchain()).contains("everything lies in one directory"));
    assert!(refused(&bytes, &key, "b".repeat(64).parse().unwrap()).contains("it was built by toolchain"));
    fs::write(root.join("lib/shim"), "changed").unwrap();
    let changed = pack(&root, &key).unwrap();
    assert!(refused(&changed, &key, toolchain()).contains("changed after it was built"));
    // As somebody would who can write to the store and to the row.
    let mut tar = tar::Builder::new(GzBuilder::new().write(Vec::new(), Compression::default()));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    tar.append_link(&mut header, format!("{key}/lib"), "/etc").unwrap();
    let linked = tar.into_inner().unwrap().finish().unwrap();
    assert!(refused(&linked, &key, toolchain()).contains("a symbolic link"));
}

#[test]
fn what_a_killed_builder_left_is_removed_and_what_is_open_stays() {
    let host = tempfile::tempdir().unwrap();
    let (_, key) = cache(host.path());
    let left = host.path().join(format!("{STAGING_PREFIX}killed"));
    fs::create_dir_all(left.join("half")).unwrap();
    let open = Deps::open_held(&host.path().join(key.to_string()), toolchain()).unwrap();
    remove_unused(host.path(), &[key, Digest::of(b"never here")]).unwrap();
    assert_eq!(names(host.path()), [key.to_string()]);
    drop(open);
    remove_unused(host.path(), &[key]).unwrap();
    assert!(names(host.path()).is_empty());
}
