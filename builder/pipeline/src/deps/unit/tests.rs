#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn asked(text: &str) -> Result<Asked, String> {
    Asked::read(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn a_unit_makes_files_of_its_own_name_alone() {
    let lib = asked(
        "--crate-name serde src/lib.rs --crate-type lib -C metadata=ab -C extra-filename=-12 --out-dir /out/deps",
    )
    .unwrap();
    for own in ["serde-12.d", "libserde-12.rlib", "libserde-12.rmeta"] {
        assert!(lib.makes(own), "{own}");
    }
    for other in ["libserde-13.rlib", "libserde.rlib", "libserde-12.rlib.d", "serde-12", "libc.so.6", ""] {
        assert!(!lib.makes(other), "{other}");
    }
    assert!(!lib.is_linked());
    let moved = lib.with_out_dir("/unit/made");
    assert_eq!(moved.last().map(String::as_str), Some("/unit/made"));
    let script =
        asked("--crate-name=build_script_build --crate-type=bin -Cextra-filename=-9 --out-dir=/out/b")
            .unwrap();
    assert!(script.is_linked() && script.is_script("build_script_build-9"));
    assert_eq!(script.with_out_dir("/u").last().map(String::as_str), Some("--out-dir=/u"));
}

#[test]
fn an_ask_that_leaves_its_files_open_is_not_understood() {
    let whole = "--crate-name a --crate-type lib -C extra-filename=-1 --out-dir /out";
    assert!(asked(whole).is_ok());
    for part in ["--crate-name a", "--crate-type lib", "-C extra-filename=-1", "--out-dir /out"] {
        assert!(asked(whole.replace(part, "--verbose").trim()).is_err(), "{part}");
    }
    assert!(asked(&format!("{whole} --out-dir /other")).is_err(), "two places");
}
