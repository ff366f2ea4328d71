//! Rewritten code does what it did: the same source runs as it was compiled and as it was rewritten, in programs of their own
//! whose memory lies below 4 GiB.

use std::path::Path;
use std::process::Command;

use crate::sample::{SOURCE, linker};

/// Calls the entry for many values and writes what it answers. The stack lies in the program, a call of the entry returns to the
/// start of a bundle, and what the entry calls begins one, as the worker's gates do.
const START: &str = r#"
#![no_std]
use core::arch::{asm, global_asm};

global_asm!(
    ".bss", ".balign 64", "stack: .skip 1048576", "stack_end:", ".text",
    ".globl _start", "_start: lea rsp, [rip + stack_end]", "and rsp, -16", "call {main}", "ud2",
    ".balign 32", "enter: sub rsp, 8", ".fill 23, 1, 0x90", "call mfaas_entry_v1", "add rsp, 8", "ret",
    ".balign 32", ".globl host", "host: lea rax, [rdi + rdi * 2 + 7]", "ret",
    ".balign 32", ".globl memset", "memset: mov rax, rdi", "mov r8, rdi", "mov rcx, rdx", "mov eax, esi", "rep stosb",
    "mov rax, r8", "ret",
    ".balign 32", ".globl memcpy", "memcpy: mov rax, rdi", "mov rcx, rdx", "rep movsb", "ret",
    main = sym main,
);
unsafe extern "C" { fn enter(data: *mut [u8; 4096], value: u64) -> u64; }

static mut DATA: [u8; 4096] = [3; 4096];

extern "C" fn main() -> ! {
    for value in 0..500_u64 {
        let data = &raw mut DATA;
        let sum = unsafe {
            let answer = enter(data, value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            (*data).iter().fold(answer, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte))
        };
        let bytes = sum.to_le_bytes();
        unsafe { asm!("syscall", inout("rax") 1_u64 => _, in("rdi") 1, in("rsi") bytes.as_ptr(), in("rdx") 8, out("rcx") _, out("r11") _) };
    }
    unsafe { asm!("syscall", in("rax") 60, in("rdi") 0, options(noreturn)) }
}
"#;

/// An object of one source, with the tables that a linker makes of what the compiler wrote.
fn object(place: &Path, name: &str, source: &str) -> Vec<u8> {
    let (file, object) = (place.join(format!("{name}.rs")), place.join(format!("{name}.o")));
    std::fs::write(&file, source).unwrap();
    let output = Command::new("rustc")
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=obj",
            "-Cpanic=abort",
            "-Copt-level=3",
            "-Ccodegen-units=1",
        ])
        .arg("-o")
        .arg(&object)
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let linked = place.join(format!("{name}.linked.o"));
    let status =
        Command::new(linker()).args(["-flavor", "gnu", "-r", "-o"]).args([&linked, &object]).status();
    assert!(status.unwrap().success());
    std::fs::read(linked).unwrap()
}

/// What a program of the entry writes.
fn answers(place: &Path, name: &str, entry: &[u8]) -> Vec<u8> {
    let (object, program) = (place.join(format!("{name}.o")), place.join(name));
    std::fs::write(&object, entry).unwrap();
    let linked = Command::new(linker())
        .args(["-flavor", "gnu", "-static", "-z", "noexecstack", "-o"])
        .arg(&program)
        .args([&place.join("start.o"), &object])
        .output()
        .unwrap();
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{name}: {:?}", ran.status);
    ran.stdout
}

#[test]
fn rewritten_code_answers_as_before() {
    let place = tempfile::tempdir().unwrap();
    object(place.path(), "start", START);
    let entry = object(place.path(), "entry", SOURCE);
    let rewritten = mfaas_rewriter::rewrite(&entry, "mfaas_entry_v1").unwrap();
    let (before, after) =
        (answers(place.path(), "before", &entry), answers(place.path(), "after", &rewritten));
    assert_eq!(before.len(), 500 * 8);
    assert!(before == after, "rewritten code answers otherwise");
}
