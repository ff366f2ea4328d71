use std::ops::Range;

use super::{ASSETS, CALL_MEMORY, CODE, CONSTANTS, DATA, GUARD_END, LOWEST, confirm};
use crate::maps::Mapping;

const BYTES: usize = 16 << 20;
const BANKS: [Range<usize>; 4] =
    [CODE..CODE + BYTES, ASSETS..ASSETS + BYTES, DATA..DATA + BYTES, CONSTANTS..CONSTANTS + BYTES];
const CALLS: Range<usize> = CALL_MEMORY..CALL_MEMORY + BYTES;
/// Inside of the call memory: an arena between two guards, the last of which goes on behind it.
const ARENA: Range<usize> = CALL_MEMORY + (1 << 16)..CALL_MEMORY + (2 << 16);

fn mapping(range: Range<usize>, flags: &str) -> Mapping {
    let has = |flag: char| flags.contains(flag);
    let (read, write, execute, private) = (has('r'), has('w'), has('x'), has('p'));
    Mapping { range, read, write, execute, private, name: String::new() }
}

/// As the kernel lists a worker.
fn worker() -> Vec<Mapping> {
    let page = DATA + 4096;
    vec![
        mapping(LOWEST..CODE, "p"),
        mapping(BANKS[0].clone(), "rx"),
        mapping(BANKS[0].end..ASSETS, "p"),
        mapping(BANKS[1].clone(), "r"),
        mapping(BANKS[1].end..DATA, "p"),
        mapping(DATA..page, "rp"),
        mapping(page..BANKS[2].end, "rwp"),
        mapping(BANKS[2].end..CONSTANTS, "p"),
        mapping(BANKS[3].clone(), "r"),
        mapping(BANKS[3].end..ARENA.start, "p"),
        mapping(ARENA, "rwp"),
        mapping(ARENA.end..GUARD_END, "p"),
        mapping(GUARD_END + 4096..GUARD_END + 8192, "rwxp"),
    ]
}

fn confirmed(mappings: &[Mapping]) -> Result<(), String> {
    confirm(mappings, &BANKS, &CALLS)
}

#[test]
fn a_worker_is_confirmed_and_what_lies_above_is_its_own() {
    assert_eq!(confirmed(&worker()), Ok(()));
}

#[test]
fn what_holds_nothing_yet_is_not_open() {
    let mut worker = worker();
    let code = worker.remove(1).range;
    let border = code.start + (2 << 20);
    worker.insert(1, mapping(border..code.end, ""));
    worker.insert(1, mapping(code.start..border, "rx"));
    assert_eq!(confirmed(&worker), Ok(()));
    for mapping in &mut worker {
        mapping.read &= ![BANKS[1].start, BANKS[3].start].contains(&mapping.range.start);
    }
    assert_eq!(confirmed(&worker), Ok(()));
}

/// Each of its mappings, gone or with other rights.
#[test]
fn whatever_is_missing_or_has_other_rights_is_refused() {
    let count = worker().len() - 1;
    for at in 0..count {
        let mut without = worker();
        without.remove(at);
        assert!(confirmed(&without).is_err(), "without {at}");
        let was = worker().swap_remove(at);
        for flags in ["rx", "rwx", "rxp", "rwxp", "rw", "x", "xp", "w"] {
            let other = mapping(was.range.clone(), flags);
            let mut list = worker();
            list[at] = other.clone();
            assert!(other == was || confirmed(&list).is_err(), "{at} as {flags}");
        }
    }
}

#[test]
fn nothing_else_may_lie_there() {
    let gap = worker().swap_remove(2).range;
    for flags in ["r", "rp", "rwp", "x", "rw"] {
        let mut list = worker();
        let (before, behind) = (gap.start..gap.start + 4096, gap.start + 8192..gap.end);
        let stranger = mapping(before.end..behind.start, flags);
        list.splice(2..3, [mapping(before, "p"), stranger, mapping(behind, "p")]);
        assert!(confirmed(&list).is_err(), "{flags}");
    }
    let mut list = worker();
    list.insert(0, mapping(4096..8192, "rp"));
    assert!(confirmed(&list).is_err(), "below the lowest address");
}

/// Readable memory that reaches from one part into another belongs to neither.
#[test]
fn a_mapping_does_not_reach_over_the_end_of_a_bank() {
    let mut list = worker();
    list[6].range.end += 4096;
    list[7].range.start += 4096;
    assert!(confirmed(&list).is_err());
}
