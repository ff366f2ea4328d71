//! A program that stands in for the linker, as rustc calls it.

use std::path::Path;
use std::process::{Command, Output};

use crate::sample::{SOURCE, linker};
use mfaas_inspect::verify::{Rule, VerifyError, verify_image};

const SCRIPT: &str = "SECTIONS { .text : { *(.text .text.*) } . = 0x30000000; .tables : { *(.tables) } \
                      . = 0x40000000; .data : { *(.data .data.*) } .bss : { *(.bss .bss.*) } \
                      . = 0x70000000; .rodata : { *(.rodata .rodata.*) } .data.rel.ro : { *(.data.rel.ro .data.rel.ro.*) } \
                      .got : { *(.got) } .dynamic : { *(.dynamic) } \
                      /DISCARD/ : { *(.eh_frame) *(.dynsym) *(.dynstr) *(.hash) *(.gnu.hash) *(.rela.dyn) *(.rela.plt) } }";

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

/// The tables for the loader are a segment of the file, but not of what is loaded.
#[test]
fn code_that_reads_the_tables_of_the_loader_does_not_verify() {
    let reads = |section: &str| {
        let own = format!("#[unsafe(link_section = \"{section}\")] static OWN: u64 = 7;");
        let two = "fn two(value: u64) -> u64 { value ^ unsafe { core::ptr::read_volatile(&OWN) } }";
        let source = SOURCE.replace("fn two(value: u64) -> u64 { value << 2 }", two) + &own;
        verify_image(&built(&source, rewriter()))
    };
    assert!(reads(".rodata.own").is_ok());
    let refused = reads(".tables").unwrap_err().to_string();
    assert!(refused.contains("it reaches out of the image"), "{refused}");
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
