//! A real image that the rules admit: made by rustc and rust-lld against a library that is named
//! like the host's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use mfaas_rules::profiles::image_layout::{ALIGN_ARGUMENT, LINKER_SCRIPT};

const STUB: &str = r#"
#![no_std]
#[panic_handler] fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
#[unsafe(no_mangle)] pub extern "C" fn mfaas_host_now() -> u64 { 0 }
"#;

/// One constructor, as std has one; one import, one export.
const FUNCTION: &str = r#"
#![no_std]
#[panic_handler] fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
unsafe extern "C" { fn mfaas_host_now() -> u64; }
extern "C" fn init() {}
#[used] #[unsafe(link_section = ".init_array")] static INIT: extern "C" fn() = init;
#[unsafe(no_mangle)] pub extern "C" fn mfaas_entry_v1(_: *mut u8) -> u32 { unsafe { mfaas_host_now() as u32 } }
"#;

/// The image.
pub(crate) fn artifact() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| image(FUNCTION))
}

/// An image that the rules admit as well, and that does something else.
pub(crate) fn other_artifact() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| image(&FUNCTION.replace("as u32", "as u32 ^ 0x6576_696c")))
}

fn image(function: &str) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    link(place.path(), "mfaas-host", STUB, &["-Clink-arg=-soname=libmfaas-host.so.1"]);
    let align = format!("-Clink-arg={ALIGN_ARGUMENT}");
    link(
        place.path(),
        "function",
        function,
        &["-Clink-arg=-lmfaas-host", "-Cstrip=symbols", "-Clink-arg=-Timage.ld", &align],
    );
    std::fs::read(place.path().join("libfunction.so")).unwrap()
}

fn link(place: &Path, name: &str, source: &str, more: &[&str]) {
    std::fs::write(place.join("source.rs"), source).unwrap();
    std::fs::write(place.join("image.ld"), LINKER_SCRIPT).unwrap();
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim());
    let lld = sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
    let rewriter = Path::new(env!("CARGO_BIN_EXE_mfaas-signer")).with_file_name("mfaas-rewriter");
    let linker = if name == "function" { &rewriter } else { &lld };
    assert!(linker.is_file(), "there is no {}: run `cargo build --workspace` first", linker.display());
    let output = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort", "-O", "-Clinker-flavor=ld.lld"])
        .args(["-Crelro-level=full", "--crate-name=sample"])
        .arg(format!("-Clinker={}", linker.display()))
        .arg(format!("-Lnative={}", place.display()))
        .args(more)
        .args(["source.rs".to_owned(), format!("-olib{name}.so")])
        .current_dir(place)
        .env("MFAAS_LINKER", &lld)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
