//! Bytes to be decoded: changes of accepted instructions, and tables of what the maps of opcodes hold.
//! The same seed makes the same bytes.

use crate::instructions::Bytes;
use crate::processor::INSTRUCTION_BYTES_MAX;

/// Longer than any instruction, so that what is decoded never ends for want of bytes.
pub(crate) const MUTANT_BYTES: usize = INSTRUCTION_BYTES_MAX + 1;
pub(crate) type Mutant = [u8; MUTANT_BYTES];

const PREFIXES: [u8; 18] = [
    0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e, 0x36, 0x3e, 0x26, 0x40, 0x41, 0x42, 0x44, 0x48, 0x4c, 0x49, 0x4f,
    0x45,
];

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.word() as u8
    }

    fn one_of(&mut self, bytes: &[u8]) -> u8 {
        bytes[self.below(bytes.len())]
    }

    fn bytes(&mut self) -> Mutant {
        (u128::from(self.word()) << 64 | u128::from(self.word())).to_le_bytes()
    }
}

/// A change of one of these instructions, or one of a random place in the maps.
pub(crate) fn mutant(random: &mut Random, bases: &[Bytes]) -> Mutant {
    match random.below(8) {
        0..=4 => changed(random, bases),
        5 => legacy(random),
        6 => vex(random),
        _ => random.bytes(),
    }
}

/// Begins with these bytes; what follows is random.
fn begun(random: &mut Random, start: &[u8]) -> Mutant {
    let mut mutant = random.bytes();
    let len = start.len().min(MUTANT_BYTES);
    mutant[..len].copy_from_slice(&start[..len]);
    mutant
}

fn changed(random: &mut Random, bases: &[Bytes]) -> Mutant {
    let mut bytes = bases[random.below(bases.len())].as_slice().to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.byte(),
            3 => bytes.insert(0, random.one_of(&PREFIXES)),
            4 => bytes.insert(at, random.byte()),
            _ if bytes.len() > 1 => drop(bytes.remove(at)),
            _ => {}
        }
    }
    begun(random, &bytes)
}

/// Prefixes, a map, an opcode; ModRM and what follows are random.
fn legacy(random: &mut Random) -> Mutant {
    let mut bytes = Vec::new();
    for _ in 0..random.below(4) {
        bytes.push(random.one_of(&PREFIXES));
    }
    let maps: [&[u8]; 4] = [&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    bytes.extend_from_slice(maps[random.below(maps.len())]);
    begun(random, &bytes)
}

/// VEX in both lengths, EVEX and XOP.
fn vex(random: &mut Random) -> Mutant {
    let mut bytes = Vec::new();
    if random.below(4) == 0 {
        bytes.push(random.one_of(&[0x67, 0x66, 0xf3, 0x48]));
    }
    let map = random.one_of(&[1, 2, 3]);
    match random.below(8) {
        0..=2 => bytes.extend([0xc5, random.byte()]),
        3..=5 => bytes.extend([0xc4, random.byte() & 0xe0 | map, random.byte()]),
        6 => bytes.extend([0x62, random.byte() & 0xf0 | map, random.byte() | 4, random.byte()]),
        _ => bytes.extend([0x8f, random.byte() & 0xe0 | 8 | map, random.byte()]),
    }
    begun(random, &bytes)
}

/// Every opcode of every map with every ModRM byte, under telling prefixes, or one in `stride` of all that.
/// What follows is random.
pub(crate) fn tables(seed: u64, stride: usize) -> impl Iterator<Item = Mutant> {
    let legacy: [&[u8]; 18] = [
        &[],
        &[0x66],
        &[0x67],
        &[0xf2],
        &[0xf3],
        &[0xf0],
        &[0x41],
        &[0x48],
        &[0x4f],
        &[0x66, 0x67],
        &[0x67, 0x48],
        &[0x67, 0xf3],
        &[0x67, 0xf2],
        &[0x66, 0xf3],
        &[0x66, 0x48],
        &[0x66, 0xf2],
        &[0xf3, 0x48],
        &[0x67, 0xf0],
    ];
    let maps: [&[u8]; 4] = [&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    let mut starts: Vec<Vec<u8>> = Vec::new();
    for prefixes in legacy {
        starts.extend(maps.iter().map(|map| [prefixes, map].concat()));
    }
    for (map, fields) in (1..=3).flat_map(|map| (0..16).map(move |fields| (map, fields))) {
        let (wide, vvvv, long_and_kind) = (fields >> 3 << 7, 0x78, fields & 7);
        starts.push(vec![0xc4, 0xe0 | map, wide | vvvv | long_and_kind]);
        starts.push(vec![0x67, 0xc4, 0xe0 | map, wide | vvvv | long_and_kind]);
    }
    let mut random = Random(seed);
    (0..starts.len() << 16).step_by(stride).map(move |number| {
        let [opcode, rest, ..] = number.to_le_bytes();
        begun(&mut random, &[&starts[number >> 16][..], &[opcode, rest]].concat())
    })
}
