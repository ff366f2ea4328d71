#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn group(was_at: u64, pieces: Vec<Piece>) -> Group {
    Group { was_at, align: 1, pieces }
}

fn bytes(length: usize) -> Piece {
    Piece { bytes: vec![0x90; length], ..Piece::default() }
}

fn branch(kind: BranchKind, target: u64) -> Piece {
    let (ends_bundle, is_last) = (kind == BranchKind::Call, kind == BranchKind::Jump);
    Piece { branch: Some((kind, target)), ends_bundle, is_last, ..Piece::default() }
}

#[test]
fn nothing_crosses_a_bundle_and_glue_holds() {
    let glued = Piece { is_glued: true, ..bytes(8) };
    let placed =
        place(&[group(0, vec![bytes(30)]), group(1, vec![bytes(3)]), group(2, vec![glued, bytes(24)])], 3);
    let placed = placed.unwrap();
    assert_eq!(placed.moved.values().copied().collect::<Vec<_>>(), [0, 32, 64, 96]);
    assert_eq!(placed.bytes.len(), 96);
}

#[test]
fn a_call_ends_its_bundle_so_that_its_return_begins_one() {
    let placed = place(
        &[group(0, vec![bytes(1)]), group(1, vec![branch(BranchKind::Call, 0)]), group(2, vec![bytes(1)])],
        3,
    );
    let placed = placed.unwrap();
    assert_eq!(placed.moved[&2], 32);
    assert_eq!(placed.bytes[27], 0xe8);
    assert_eq!(i32::from_le_bytes(placed.bytes[28..32].try_into().unwrap()), -32);
}

/// A table may lead to a call: whoever comes by it starts at the bundle's start and runs into the call.
#[test]
fn a_call_that_is_a_target_is_entered_at_the_start_of_its_bundle() {
    let mut call = group(1, vec![branch(BranchKind::Call, 0)]);
    call.align = BUNDLE_BYTES;
    let placed = place(&[group(0, vec![branch(BranchKind::Jump, 0)]), call], 2).unwrap();
    assert_eq!(placed.moved[&1], 32);
    assert_eq!(placed.bytes[2..32], [0xcc; 30], "nothing runs into this");
    assert!(!placed.bytes[32..59].contains(&0xcc), "this runs into the call");
    assert_eq!(placed.bytes[59], 0xe8);
}

#[test]
fn a_branch_grows_when_its_target_is_far() {
    for (between, opcode) in [(20, 0x74), (300, 0x0f)] {
        let filler: Vec<_> = (0..between).map(|_| bytes(1)).collect();
        let groups = [
            group(0, vec![branch(BranchKind::Conditional(4), 2)]),
            group(1, filler),
            group(2, vec![bytes(1)]),
        ];
        let placed = place(&groups, 3).unwrap();
        assert_eq!(placed.bytes[0], opcode, "{between}");
        let target = match opcode {
            0x74 => 2 + i64::from(placed.bytes[1] as i8),
            _ => 6 + i64::from(i32::from_le_bytes(placed.bytes[2..6].try_into().unwrap())),
        };
        assert_eq!(target as u64, placed.moved[&2]);
    }
}

#[test]
fn gaps_that_nothing_reaches_are_traps() {
    let jump = branch(BranchKind::Jump, 0);
    let mut last = group(1, vec![bytes(4)]);
    last.align = BUNDLE_BYTES;
    let placed = place(&[group(0, vec![jump]), last], 2).unwrap();
    assert_eq!(placed.bytes[2..32], [0xcc; 30]);
    assert_eq!(placed.moved[&1], 32);
}

#[test]
fn a_branch_into_an_instruction_is_no_target() {
    assert!(place(&[group(0, vec![branch(BranchKind::Jump, 1)])], 2).is_err());
}
