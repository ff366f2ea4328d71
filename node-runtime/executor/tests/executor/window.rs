//! What verified code can reach asks the kernel for nothing: no system call, and so no return from a signal
//! that never came. What may be in the window is looked at as the processor has it, mapped and executable.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use iced_x86::{Decoder, DecoderError, DecoderOptions, Mnemonic};
use mfaas_inspect::verify::{BUNDLE_BYTES, CodeSegment, Rule, verify};

use crate::{Fixture, toolchain};

const BUNDLE: usize = BUNDLE_BYTES as usize;
/// One past the last address that is a function's or reserved.
const WINDOW_END: u64 = 6 << 30;
const TRAP: u8 = 0xcc;
const NOP: u8 = 0x90;

/// Ways into the kernel, and out of an interrupt that was none.
const WAYS: &[(&str, &[u8])] = &[
    ("syscall", &[0x0f, 0x05]),
    ("sysenter", &[0x0f, 0x34]),
    ("int 0x80", &[0xcd, 0x80]),
    ("int1", &[0xf1]),
    ("sysretq", &[0x48, 0x0f, 0x07]),
    ("sysexitq", &[0x48, 0x0f, 0x35]),
    ("iretq", &[0x48, 0xcf]),
    ("retf", &[0xcb]),
    ("call far [rax]", &[0x67, 0xff, 0x18]),
];

fn is_way(mnemonic: Mnemonic, is_far: bool) -> bool {
    let ways = [
        Mnemonic::Syscall,
        Mnemonic::Sysenter,
        Mnemonic::Sysret,
        Mnemonic::Sysretq,
        Mnemonic::Sysexit,
        Mnemonic::Sysexitq,
        Mnemonic::Int,
        Mnemonic::Int1,
        Mnemonic::Into,
        Mnemonic::Iret,
        Mnemonic::Iretd,
        Mnemonic::Iretq,
        Mnemonic::Retf,
        Mnemonic::Vmcall,
        Mnemonic::Vmmcall,
        Mnemonic::Uiret,
    ];
    is_far || ways.contains(&mnemonic)
}

/// The bundles in which a way stands, or bytes that are no instruction, when they are entered at their start.
fn bundles_with_a_way(code: &[u8], address: u64) -> Vec<u64> {
    let mut found = Vec::new();
    for (number, bundle) in code.chunks(BUNDLE).enumerate() {
        let at = address + (number * BUNDLE) as u64;
        let mut decoder = Decoder::with_ip(64, bundle, at, DecoderOptions::NONE);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let is_far = instruction.is_jmp_far()
                || instruction.is_call_far()
                || instruction.is_jmp_far_indirect()
                || instruction.is_call_far_indirect();
            if decoder.last_error() != DecoderError::None || is_way(instruction.mnemonic(), is_far) {
                found.push(at);
                break;
            }
        }
    }
    found
}

/// Where the process has executable memory that a function could reach.
fn executable() -> Vec<Range<u64>> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let ranges = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let range = address(start)?..address(end)?;
        (rest.as_bytes()[2] == b'x' && range.start < WINDOW_END).then_some(range)
    });
    ranges.collect()
}

#[test]
fn no_bundle_of_the_window_holds_a_way_into_the_kernel() {
    let mut fixture = Fixture::with(&[toolchain::tenant(), toolchain::tenant()]);
    assert_eq!(fixture.ok("here"), "HERE");
    let ranges = executable();
    assert_eq!(ranges.len(), 1, "{ranges:x?}");
    let memory = File::open("/proc/self/mem").expect("our own");
    let mut code = vec![0; (ranges[0].end - ranges[0].start) as usize];
    memory.read_exact_at(&mut code, ranges[0].start).expect("mapped");
    let used = code.chunks(BUNDLE).filter(|bundle| bundle.iter().any(|byte| *byte != TRAP)).count();
    assert!(used > 3_000, "gates, the library and two images: {used} bundles");
    assert_eq!(bundles_with_a_way(&code, ranges[0].start), [0; 0]);
}

/// Wherever in a bundle it stands, the verifier refuses it, and the test above would see it.
#[test]
fn every_way_into_the_kernel_is_refused_and_seen() {
    const CODE: u64 = 0x1000;
    for (name, way) in WAYS {
        for at in 0..=BUNDLE - way.len() {
            let mut bundle = [NOP; BUNDLE];
            bundle[at..at + way.len()].copy_from_slice(way);
            assert_eq!(bundles_with_a_way(&bundle, CODE), [CODE], "{name} at {at}");
            let own = CODE..CODE + BUNDLE_BYTES;
            let code = CodeSegment { bytes: &bundle, address: CODE, image: std::slice::from_ref(&own) };
            let refused = verify(code).expect_err(name);
            assert_eq!((refused.rule, refused.at), (Rule::Instruction, CODE + at as u64), "{name}");
        }
    }
    assert_eq!(bundles_with_a_way(&[NOP; BUNDLE], CODE), [0; 0]);
}
