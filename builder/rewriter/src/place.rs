//! Pieces in bundles: where each lies, how far each branch reaches, and what fills the gaps.

use std::collections::BTreeMap;

use crate::BUNDLE_BYTES;
use crate::translate::{BranchKind, Fixup, Piece};

/// What stands at the place of one instruction.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Offset of the instruction in the section as it was.
    pub(crate) was_at: u64,
    /// What its address must be a multiple of.
    pub(crate) align: usize,
    pub(crate) pieces: Vec<Piece>,
}

/// A section as it is now.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fixups: Vec<Fixup>,
    /// Where each instruction is now, by where it was; the section's end too.
    pub(crate) moved: BTreeMap<u64, u64>,
}

/// A branch leads to where no instruction begins.
#[derive(Debug)]
pub(crate) struct NoTarget(pub(crate) u64);

/// Places all groups. `end` is the size of the section as it was.
pub(crate) fn place(groups: &[Group], end: u64) -> Result<Placed, NoTarget> {
    let pieces: Vec<&Piece> = groups.iter().flat_map(|group| &group.pieces).collect();
    let mut firsts = BTreeMap::new();
    let mut first = 0;
    for group in groups {
        firsts.insert(group.was_at, first);
        first += group.pieces.len();
    }
    firsts.insert(end, first);
    let aligns = aligns(groups, pieces.len());
    let targets = pieces.iter().map(|piece| match piece.branch {
        None => Ok(None),
        Some((_, target)) => firsts.get(&target).map(|first| Some(*first)).ok_or(NoTarget(target)),
    });
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    let (lengths, Offsets { entries, offsets }) = settle(&pieces, &aligns, &targets);
    let mut placed = Placed::default();
    let mut is_reached = true;
    for (index, piece) in pieces.iter().enumerate() {
        fill(&mut placed.bytes, entries[index], is_reached);
        fill(&mut placed.bytes, offsets[index], true);
        let target = targets[index].map(|target| offsets[target]);
        placed
            .fixups
            .extend(piece.fixups.iter().map(|fixup| Fixup { at: fixup.at + offsets[index], ..*fixup }));
        write(&mut placed.bytes, piece, lengths[index], target);
        is_reached = !piece.is_last;
    }
    fill(&mut placed.bytes, offsets[pieces.len()], is_reached);
    placed.moved = firsts.into_iter().map(|(was_at, first)| (was_at, entries[first] as u64)).collect();
    Ok(placed)
}

/// For each piece, and the end, what its address must be a multiple of.
fn aligns(groups: &[Group], pieces: usize) -> Vec<usize> {
    let mut aligns = Vec::with_capacity(pieces + 1);
    let mut pending = 1;
    for group in groups {
        pending = pending.max(group.align);
        for _ in &group.pieces {
            aligns.push(std::mem::replace(&mut pending, 1));
        }
    }
    aligns.push(BUNDLE_BYTES);
    aligns
}

/// Lengths and offsets such that every branch reaches its target. A branch begins short and grows at
/// most once, so this ends.
fn settle(pieces: &[&Piece], aligns: &[usize], targets: &[Option<usize>]) -> (Vec<usize>, Offsets) {
    let mut lengths: Vec<usize> = pieces
        .iter()
        .map(|piece| match piece.branch {
            None => piece.bytes.len(),
            Some((BranchKind::Call, _)) => 5,
            Some(_) => 2,
        })
        .collect();
    loop {
        let placed = Offsets::of(pieces, aligns, &lengths);
        let offsets = &placed.offsets;
        let mut has_grown = false;
        for (index, piece) in pieces.iter().enumerate() {
            let (Some((kind, _)), Some(target)) = (piece.branch, targets[index]) else { continue };
            let distance = offsets[target] as i64 - (offsets[index] + lengths[index]) as i64;
            if lengths[index] == 2 && i8::try_from(distance).is_err() {
                lengths[index] = if kind == BranchKind::Jump { 5 } else { 6 };
                has_grown = true;
            }
        }
        if !has_grown {
            return (lengths, placed);
        }
    }
}

/// Where each piece lies, and the end.
struct Offsets {
    /// Where a piece is entered from elsewhere: as it is to be aligned.
    entries: Vec<usize>,
    /// Where it begins. Between both stands what does nothing: a call that is a target ends its bundle and is
    /// entered at its start.
    offsets: Vec<usize>,
}

impl Offsets {
    /// Nothing crosses a bundle, glued pieces stay together, and a call ends its bundle.
    fn of(pieces: &[&Piece], aligns: &[usize], lengths: &[usize]) -> Self {
        let (mut entries, mut offsets) = (Vec::new(), Vec::new());
        let mut at: usize = 0;
        while offsets.len() < pieces.len() {
            let first = offsets.len();
            let glued = pieces[first..].iter().take_while(|piece| piece.is_glued).count();
            let last = (first + glued).min(pieces.len() - 1);
            let bytes: usize = lengths[first..=last].iter().sum();
            let align = aligns[first..=last].iter().copied().max().unwrap_or(1);
            at = at.next_multiple_of(align);
            let entry = at;
            if pieces[last].ends_bundle {
                at = (at + bytes).next_multiple_of(BUNDLE_BYTES) - bytes;
            } else if at % BUNDLE_BYTES + bytes > BUNDLE_BYTES {
                at = at.next_multiple_of(BUNDLE_BYTES);
            }
            entries.push(if align > 1 { entry } else { at });
            for length in &lengths[first..=last] {
                offsets.push(at);
                at += length;
            }
            entries.extend_from_slice(&offsets[first + 1..]);
        }
        let end = at.next_multiple_of(BUNDLE_BYTES);
        entries.push(end);
        offsets.push(end);
        Self { entries, offsets }
    }
}

/// Fills up to `end`: with instructions that do nothing where something runs into the gap, else with
/// traps. Nothing crosses a bundle.
fn fill(bytes: &mut Vec<u8>, end: usize, is_reached: bool) {
    if !is_reached {
        bytes.resize(end, 0xcc);
    }
    while bytes.len() < end {
        let in_bundle = BUNDLE_BYTES - bytes.len() % BUNDLE_BYTES;
        let longest = (end - bytes.len()).min(in_bundle).min(PADDING.len());
        bytes.extend_from_slice(PADDING[longest - 1]);
    }
}

/// Instructions that do nothing, of one byte, two bytes and so on, as the makers recommend them.
const PADDING: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0],
    &[0x0f, 0x1f, 0x44, 0, 0],
    &[0x66, 0x0f, 0x1f, 0x44, 0, 0],
    &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
    &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
    &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
];

fn write(bytes: &mut Vec<u8>, piece: &Piece, length: usize, target: Option<usize>) {
    let (Some((kind, _)), Some(target)) = (piece.branch, target) else {
        bytes.extend_from_slice(&piece.bytes);
        return;
    };
    let distance = target as i64 - (bytes.len() + length) as i64;
    let is_short = length == 2;
    match kind {
        BranchKind::Call => bytes.push(0xe8),
        BranchKind::Jump => bytes.push(if is_short { 0xeb } else { 0xe9 }),
        BranchKind::Conditional(condition) if is_short => bytes.push(0x70 | condition),
        BranchKind::Conditional(condition) => bytes.extend([0x0f, 0x80 | condition]),
    }
    if is_short {
        bytes.push(distance as i8 as u8);
    } else {
        bytes.extend((distance as i32).to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
