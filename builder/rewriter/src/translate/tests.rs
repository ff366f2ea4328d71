#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use iced_x86::{Decoder, DecoderOptions};
use mfaas_inspect::verify::{CodeSegment, verify};

use super::*;
use crate::place::{Group, place};

/// What stands for some bytes, placed into bundles, without the padding between.
fn translated(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut pieces = Vec::new();
    for instruction in &mut Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE) {
        let range = instruction.ip() as usize..instruction.next_ip() as usize;
        let bytes = &bytes[range];
        let (is_import, is_table_entry) = (false, false);
        let source = Source { instruction: &instruction, bytes, relocations: &[], is_import, is_table_entry };
        pieces.extend(translate(&source)?);
    }
    verifies(&pieces);
    Ok(pieces.into_iter().map(|piece| piece.bytes).collect())
}

/// Whatever comes of an instruction passes the verifier.
fn verifies(pieces: &[Piece]) {
    let group = Group { was_at: 0, align: 1, pieces: pieces.to_vec() };
    let code = place(&[group], 15).unwrap().bytes;
    let image = [0x1000..0x2000, 0x4000_0000..0x5000_0000];
    verify(CodeSegment { bytes: &code, address: 0x1000, image: &image }).unwrap();
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.split_whitespace();
    digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn each_kind_of_instruction_has_its_counterpart() {
    for (before, after, what) in [
        ("48 89 08", "67 48 89 08", "mov [rax], rcx"),
        ("67 89 08", "67 89 08", "mov [eax], ecx: truncated already"),
        ("48 8b 44 24 08", "48 8b 44 24 08", "mov rax, [rsp+8]"),
        ("48 8b 44 0c 08", "67 48 8b 44 0c 08", "mov rax, [rsp+rcx+8]"),
        ("48 8b 84 24 ff ff ff 7f", "67 48 8b 84 24 ff ff ff 7f", "mov rax, [rsp+0x7fffffff]"),
        ("48 8d 04 08", "48 8d 04 08", "lea rax, [rax+rcx]"),
        ("f3 a4", "67 f3 a4", "rep movsb"),
        ("f3 48 ab", "67 f3 48 ab", "rep stosq"),
        ("f0 48 0f c1 08", "67 f0 48 0f c1 08", "lock xadd [rax], rcx"),
        ("c5 fa 6f 00", "67 c5 fa 6f 00", "vmovdqu xmm0, [rax]"),
        ("48 83 ec 18", "83 ec 18", "sub rsp, 0x18"),
        ("48 81 c4 00 10 00 00", "81 c4 00 10 00 00", "add rsp, 0x1000"),
        ("48 83 e4 e0", "83 e4 e0", "and rsp, -32"),
        ("48 8d 65 d8", "8d 65 d8", "lea rsp, [rbp-0x28]"),
        ("4c 89 dc", "44 89 dc", "mov rsp, r11"),
        ("c9", "89 ec | 5d", "leave"),
        ("c3", "44 8b 1c 24 | 41 83 e3 e0 | 4c 89 1c 24 | c3", "ret"),
        ("f3 c3", "44 8b 1c 24 | 41 83 e3 e0 | 4c 89 1c 24 | c3", "rep ret"),
        ("ff d0", "83 e0 e0 | ff d0", "call rax"),
        ("41 ff e2", "41 83 e2 e0 | 41 ff e2", "jmp r10"),
        ("ff 53 18", "67 44 8b 5b 18 | 41 83 e3 e0 | 41 ff d3", "call [rbx+0x18]"),
        ("41 ff 24 c4", "67 45 8b 1c c4 | 41 83 e3 e0 | 41 ff e3", "jmp [r12+rax*8]"),
        ("ff 54 24 10", "44 8b 5c 24 10 | 41 83 e3 e0 | 41 ff d3", "call [rsp+0x10]"),
        ("66 2e 0f 1f 84 00 00 00 00 00", "", "nop"),
        ("0f 0b", "0f 0b", "ud2"),
        ("c4 e3 f9 6b c2 10", "0f 0b", "vfmaddsd xmm0, xmm0, xmm1, xmm2"),
    ] {
        let after: Vec<_> = after.split('|').map(bytes).filter(|piece| !piece.is_empty()).collect();
        assert_eq!(translated(&bytes(before)), Ok(after), "{what}");
    }
}

#[test]
fn what_has_no_counterpart_is_refused() {
    for (before, what) in [
        ("64 48 8b 04 25 00 00 00 00", "mov rax, fs:[0]"),
        ("65 48 8b 00", "mov rax, gs:[rax]"),
        ("c2 08 00", "ret 8"),
        ("e3 00", "jrcxz"),
        ("cd 80", "int 0x80"),
        ("0f 05", "syscall"),
    ] {
        assert!(translated(&bytes(before)).is_err(), "{what}");
    }
}
