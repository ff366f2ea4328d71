//! How mutants are made: a few changes of an image's code, each a function of seed and index alone.
//!
//! Half of the ways keep what stands around a change readable, by padding what is left of an instruction:
//! else most mutants would be refused for their rest, and what is new in them would never run.

use std::collections::BTreeSet;

use crate::base::{Base, bundle_of};
use crate::random::Random;
use crate::snippets::SNIPPETS;
use crate::window::{BUNDLE_BYTES, CODE};

/// Grows when the same index makes another mutant: counts of others are not continued.
pub(crate) const REVISION: u64 = 1;

const NOP: u8 = 0x90;
const TRAP: u8 = 0xcc;

/// A mutant of one image.
pub(crate) struct Mutant {
    /// All of the image's code, changed.
    pub(crate) code: Vec<u8>,
    /// Changed bundles: where they lie in the bank, and their bytes.
    pub(crate) changes: Vec<(usize, Vec<u8>)>,
}

/// Makes the mutant for a call with the request of this number.
pub(crate) fn mutant(base: &Base, request: usize, random: &mut Random) -> Mutant {
    let mut code = base.own().to_vec();
    let count = match random.below(16) {
        0..=10 => 1,
        11..=13 => 2,
        14 => 3,
        _ => 4 + random.below(5),
    };
    for _ in 0..count {
        let executed = &base.executed[request];
        // Now and then anything: what is not executed may be jumped to.
        let number = if executed.is_empty() || random.one_in(12) {
            random.below(base.instructions.len())
        } else {
            random.pick(executed)
        };
        let (place, bytes) = base.instructions[number];
        let mut edit = Edit { base, code: &mut code, at: place - base.segment.start, bytes };
        edit.change(random);
    }
    let changes = changes(base, &code);
    Mutant { code, changes }
}

/// The bundles that differ.
fn changes(base: &Base, code: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let pairs = base.own().chunks(BUNDLE_BYTES).zip(code.chunks(BUNDLE_BYTES)).enumerate();
    pairs
        .filter(|(_, (before, after))| before != after)
        .map(|(bundle, (_, after))| (base.segment.start + bundle * BUNDLE_BYTES, after.to_vec()))
        .collect()
}

/// A bundle of traps in the place of another.
pub(crate) fn trapped(bundle: usize) -> (usize, Vec<u8>) {
    (bundle, vec![TRAP; BUNDLE_BYTES])
}

/// Bytes at the entry, and traps behind them to the end of its bundles.
pub(crate) fn with_entry(base: &Base, bytes: &[u8]) -> Mutant {
    let mut code = base.own().to_vec();
    let at = base.entry as usize - CODE - base.segment.start;
    let end = at + bytes.len().next_multiple_of(BUNDLE_BYTES);
    code[at..end].fill(TRAP);
    code[at..at + bytes.len()].copy_from_slice(bytes);
    let changes = changes(base, &code);
    Mutant { code, changes }
}

/// The bundles of the image's code that hold any of these instructions.
pub(crate) fn bundles_of(base: &Base) -> BTreeSet<usize> {
    base.instructions.iter().map(|(place, _)| bundle_of(*place)).collect()
}

/// One instruction of the code that is changed.
struct Edit<'a> {
    base: &'a Base,
    code: &'a mut [u8],
    at: usize,
    bytes: usize,
}

impl Edit<'_> {
    fn change(&mut self, random: &mut Random) {
        match random.below(20) {
            0..=1 => self.flip_a_bit(random),
            2 => self.set(random.below(self.bytes), random.byte()),
            3 => self.set(random.below(self.bytes), random.pick(&TELLING)),
            4..=5 => self.change_operands(random),
            6..=7 => self.change_number(random),
            8..=9 => self.insert_prefix(random),
            10 => self.remove_a_byte(random),
            11..=12 => self.splice(random),
            13..=15 => self.put_snippet(random),
            16..=18 => self.make_up(random),
            _ => self.move_bundles(random),
        }
    }

    fn set(&mut self, offset: usize, byte: u8) {
        self.code[self.at + offset] = byte;
    }

    fn flip_a_bit(&mut self, random: &mut Random) {
        self.code[self.at + random.below(self.bytes)] ^= 1 << random.below(8);
    }

    /// Something near the beginning, where opcode, ModRM and SIB are.
    fn change_operands(&mut self, random: &mut Random) {
        let offset = random.below(self.bytes.min(5));
        let was = self.code[self.at + offset];
        let byte = match random.below(4) {
            0 => was & 0xc7 | random.byte() & 0x38,
            1 => was & 0xf8 | random.byte() & 0x07,
            2 => was & 0x3f | random.byte() & 0xc0,
            _ => random.byte(),
        };
        self.set(offset, byte);
    }

    /// The last four bytes, where distances and numbers are.
    fn change_number(&mut self, random: &mut Random) {
        let bytes = self.bytes.min(if random.one_in(3) { 1 } else { 4 });
        let value = random.pick(&NUMBERS).wrapping_add(random.below(3) as u32).wrapping_sub(1);
        let value = if random.one_in(3) { random.next() as u32 } else { value };
        let to = self.at + self.bytes;
        self.code[to - bytes..to].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    /// What follows moves, and the end of the bundle is lost.
    fn insert_prefix(&mut self, random: &mut Random) {
        let end = self.end_of_bundle();
        let offset = self.at + if random.one_in(4) { 1.min(self.bytes - 1) } else { 0 };
        self.code.copy_within(offset..end - 1, offset + 1);
        self.code[offset] = random.pick(&PREFIXES);
    }

    fn remove_a_byte(&mut self, random: &mut Random) {
        let end = self.end_of_bundle();
        let offset = self.at + random.below(self.bytes);
        self.code.copy_within(offset + 1..end, offset);
        self.code[end - 1] = NOP;
    }

    /// An instruction of another place.
    fn splice(&mut self, random: &mut Random) {
        let (from, bytes) = random.pick(&self.base.instructions);
        let instruction = self.base.code[from..from + bytes].to_vec();
        self.put(&instruction);
    }

    fn put_snippet(&mut self, random: &mut Random) {
        let mut bytes = random.pick(SNIPPETS).to_vec();
        // `?` of a snippet is any byte.
        for byte in bytes.iter_mut().filter(|byte| **byte == crate::snippets::ANY) {
            *byte = random.byte().into();
        }
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte as u8).collect();
        // With the mask and the branch in one bundle: at its start there is room for both.
        if random.one_in(3) {
            self.at = bundle_of(self.at);
            self.bytes = 1;
        }
        self.put(&bytes);
    }

    /// An instruction that nobody wrote: prefixes, an opcode, operands.
    fn make_up(&mut self, random: &mut Random) {
        let mut bytes = Vec::with_capacity(15);
        let is_any = random.one_in(4);
        if random.one_in(4) {
            bytes.push(random.pick(&[0x66, 0xf2, 0xf3, 0xf0]));
        }
        if !random.one_in(4) {
            bytes.push(0x67);
        }
        if random.one_in(2) {
            bytes.push(0x40 | random.byte() & 0xf);
        }
        match random.below(8) {
            0..=2 => bytes.push(random.byte()),
            3..=5 => bytes.extend([0x0f, random.byte()]),
            6 => bytes.extend([0x0f, random.pick(&[0x38, 0x3a]), random.byte()]),
            _ if random.one_in(2) => bytes.extend([0xc5, random.byte(), random.byte()]),
            _ => bytes.extend([
                0xc4,
                random.byte() & 0xe0 | (1 + random.below(3) as u8),
                random.byte(),
                random.byte(),
            ]),
        }
        let mode =
            if is_any { random.byte() } else { random.pick(&[0x00, 0x40, 0x80, 0x84, 0x44, 0x04, 0x05]) };
        bytes.push(mode & 0xc7 | random.byte() & 0x38 | if random.one_in(2) { random.byte() & 7 } else { 0 });
        let rest = random.below(6);
        bytes.extend(
            (0..rest)
                .map(|_| if random.one_in(2) { random.byte() } else { random.pick(&[0, 0xff, 0x24, 0x25]) }),
        );
        self.put(&bytes);
    }

    /// A bundle over another, or two that change places.
    fn move_bundles(&mut self, random: &mut Random) {
        let here = bundle_of(self.at);
        let (from, _) = random.pick(&self.base.instructions);
        let there = bundle_of(from - self.base.segment.start);
        let moved = self.code[there..there + BUNDLE_BYTES].to_vec();
        if random.one_in(2) {
            self.code.copy_within(here..here + BUNDLE_BYTES, there);
        }
        self.code[here..here + BUNDLE_BYTES].copy_from_slice(&moved);
    }

    /// Writes bytes as far as the bundle has room, and makes what is left of the last instruction that they
    /// cover padding.
    fn put(&mut self, bytes: &[u8]) {
        let end = self.end_of_bundle();
        let bytes = &bytes[..bytes.len().min(end - self.at)];
        let written = self.at + bytes.len();
        self.code[self.at..written].copy_from_slice(bytes);
        let start = self.base.segment.start;
        let starts =
            |place: usize| self.base.instructions.binary_search_by_key(&(place + start), |one| one.0);
        let next = (written..end).find(|place| starts(*place).is_ok()).unwrap_or(end);
        self.code[written..next].fill(NOP);
    }

    fn end_of_bundle(&self) -> usize {
        bundle_of(self.at) + BUNDLE_BYTES
    }
}

const PREFIXES: [u8; 22] = [
    0x66, 0x67, 0x67, 0xf2, 0xf3, 0xf0, 0x64, 0x65, 0x2e, 0x36, 0x3e, 0x26, 0x40, 0x41, 0x48, 0x4f, 0x0f,
    0xc4, 0xc5, 0x62, 0x8f, 0xd5,
];

/// Bytes that make something else of an instruction.
const TELLING: [u8; 30] = [
    0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x64, 0x65, 0x48, 0x4c, 0x0f, 0xc3, 0xe8, 0xe9, 0xeb, 0xcc, 0xff, 0xe0,
    0xe4, 0x24, 0x5c, 0x54, 0x8b, 0x89, 0x8d, 0xa4, 0xab, 0x04, 0x05, 0x25, 0x00,
];

/// Distances and numbers at which something ends.
const NUMBERS: [u32; 20] = [
    0,
    1,
    8,
    0x20,
    0x7f,
    0x80,
    0x1000,
    (4096_u32).wrapping_neg(),
    0x7fff_ffff,
    0x8000_0000,
    0x4000_0000,
    0x3fff_fff8,
    0xffff_fff8,
    0xffff_ffe0,
    0xffff_fff0,
    0xffff_f000,
    0x1000_0000,
    0x5000_0000,
    0xb001_0000,
    0x0000_ffff,
];
