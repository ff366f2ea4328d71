//! A program that stands in for the linker, as rustc calls it.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mfaas_inspect::verify::{Rule, VerifyError, verify_image};

/// A switch, a table of functions, a trait object, recursion, a copy, a large frame, floats, a symbol of the host.
const SOURCE: &str = r#"
#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }

unsafe extern "C" { fn host(value: u64) -> u64; }

trait Step { fn step(&self, value: u64) -> u64; }
struct Add(u64);
struct Multiply(u64);
impl Step for Add { fn step(&self, value: u64) -> u64 { value.wrapping_add(self.0) } }
impl Step for Multiply { fn step(&self, value: u64) -> u64 { value.wrapping_mul(self.0) } }

static mut HOOK: fn(u64) -> u64 = one;
static TABLE: [fn(u64) -> u64; 3] = [one, two, three];
#[inline(never)] fn one(value: u64) -> u64 { value ^ 1 }
#[inline(never)] fn two(value: u64) -> u64 { value << 2 }
#[inline(never)] fn three(value: u64) -> u64 { if value < 2 { value } else { three(value - 1) ^ three(value - 2) } }

#[inline(never)]
fn switch(value: u64) -> u64 {
    match value % 9 {
        0 => one(value), 1 => value * 7, 2 => value / 3, 3 => two(value), 4 => value - 9, 5 => value.rotate_left(9),
        6 => value.count_ones().into(), 7 => three(value % 5), _ => !value,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(data: &mut [u8; 4096], value: u64) -> u64 {
    let steps: [&dyn Step; 2] = [&Add(value), &Multiply(value | 1)];
    let mut large = [0_u8; 20_000];
    for (at, byte) in data.iter_mut().enumerate() {
        large[(at * 31) % 20_000] = *byte;
        *byte = large[(at * 17) % 20_000] ^ steps[at % 2].step(value) as u8;
    }
    let root = (value as f64 / 3.5).to_bits();
    let called = TABLE[(value % 3) as usize](switch(value));
    unsafe { HOOK = if value > 9 { two } else { three } };
    called ^ root ^ unsafe { host(called) } ^ unsafe { HOOK(value) }
}
"#;

const SCRIPT: &str = "SECTIONS { .text : { *(.text .text.*) } .rodata : { *(.rodata .rodata.*) } \
                      .data.rel.ro : { *(.data.rel.ro .data.rel.ro.*) } .got : { *(.got) } .dynamic : { *(.dynamic) } \
                      . = 0x40000000; .data : { *(.data .data.*) } .bss : { *(.bss .bss.*) } /DISCARD/ : { *(.eh_frame) } }";

fn sysroot() -> PathBuf {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn linker() -> PathBuf {
    sysroot().join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld")
}

/// rustc makes an image of `source` in `place`, with `linker` for its linker.
fn build(source: &str, place: &Path, linker_program: &Path) -> Output {
    let (script, file) = (place.join("image.ld"), place.join("entry.rs"));
    std::fs::write(&script, SCRIPT).unwrap();
    std::fs::write(&file, source).unwrap();
    Command::new("rustc")
        .args([
            "--edition=2024",
            "--crate-type=cdylib",
            "-Cpanic=abort",
            "-Copt-level=3",
            "-Ccodegen-units=1",
        ])
        .args([
            "-Clinker-flavor=ld.lld",
            "-Clink-arg=--unresolved-symbols=ignore-all",
            "-Clink-arg=-zmax-page-size=64",
        ])
        .arg(format!("-Clinker={}", linker_program.display()))
        .arg(format!("-Clink-arg=-T{}", script.display()))
        .arg("-o")
        .arg(place.join("image.so"))
        .arg(&file)
        .current_dir(place)
        .env("MFAAS_LINKER", linker())
        .output()
        .unwrap()
}

fn built(source: &str, linker_program: &Path) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let output = build(source, place.path(), linker_program);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(place.path().join("image.so")).unwrap()
}

fn rewriter() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_mfaas-rewriter"))
}

#[test]
fn an_image_verifies_that_was_rewritten_and_only_then() {
    let rewritten = built(SOURCE, rewriter());
    assert!(verify_image(&rewritten).unwrap() > 500);
    let plain = built(SOURCE, &linker());
    match verify_image(&plain).unwrap_err() {
        VerifyError::Violation(violation) => assert!(violation.rule >= Rule::Decoding, "{violation}"),
        VerifyError::Unreadable(error) => panic!("{error}"),
    }
}

#[test]
fn the_same_source_makes_the_same_image() {
    assert!(built(SOURCE, rewriter()) == built(SOURCE, rewriter()));
}

/// What cannot be confined ends the build with the function's name.
#[test]
fn a_refusal_names_the_function() {
    let source = SOURCE.replace(
        "fn two(value: u64) -> u64 { value << 2 }",
        "fn two(value: u64) -> u64 { unsafe { core::arch::asm!(\"mov {0}, fs:[0]\", out(reg) _) }; value }",
    );
    let place = tempfile::tempdir().unwrap();
    let output = build(&source, place.path(), rewriter());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("two") && said.contains("it uses a segment of the thread's own"), "{said}");
}
