#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use proptest::prelude::*;

use super::*;

const CODE: u64 = 0x1000;
const IMAGE: [Range<u64>; 3] = [CODE..0x2000, 0x2000..0x2100, 0x4000_0000..0x4000_0100];

/// `int3`, which may stand anywhere.
const TRAP: u8 = 0xcc;

/// `code`, filled up with traps to whole bundles.
fn verified(code: &[u8]) -> Result<(), Violation> {
    let mut bytes = code.to_vec();
    bytes.resize(code.len().next_multiple_of(BUNDLE_BYTES as usize), TRAP);
    verify(CodeSegment { bytes: &bytes, address: CODE, image: &IMAGE })
}

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let pairs = (0..hexadecimal.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap()).collect()
}

/// The rule (none if the code is to pass), the bytes, and the text of each case.
fn cases() -> Vec<(Option<Rule>, Vec<u8>, &'static str)> {
    let rule_of = |name| match name {
        "-" => None,
        "Decoding" => Some(Rule::Decoding),
        "Instruction" => Some(Rule::Instruction),
        "Memory" => Some(Rule::Memory),
        "StackPointer" => Some(Rule::StackPointer),
        "Branch" => Some(Rule::Branch),
        "Indirect" => Some(Rule::Indirect),
        "Return" => Some(Rule::Return),
        other => panic!("no rule is called {other}"),
    };
    let lines = include_str!("tests/cases.txt").lines().filter(|line| !line.starts_with('#'));
    let case = |line: &'static str| {
        let [rule, bytes, text] = line.splitn(3, '|').map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        (rule_of(rule), bytes_of(bytes), text)
    };
    lines.map(case).collect()
}

#[test]
fn every_case_is_refused_by_its_rule_or_passes() {
    let cases = cases();
    let wrong = cases.iter().filter_map(|(expected, bytes, text)| {
        let found = verified(bytes).err();
        let is_right = found.map(|violation| violation.rule) == *expected;
        (!is_right).then(|| format!("{text}: {found:?}, not {expected:?}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
    let of = |rule| cases.iter().filter(|(expected, ..)| *expected == rule).count();
    assert!(of(None) > 60, "only {} pass", of(None));
    assert!(cases.len() - of(None) > 400, "only {} are refused", cases.len() - of(None));
}

#[test]
fn a_violation_names_the_instruction() {
    let violation = verified(&bytes_of("9090488908")).unwrap_err();
    assert_eq!((violation.rule, violation.at), (Rule::Memory, CODE + 2));
    assert_eq!(violation.to_string(), "rule 3 (Memory) at 0x1002: an operand whose address is not truncated");
}

#[test]
fn code_is_whole_bundles_below_four_gibibytes() {
    let at =
        |address, bytes: &[u8]| verify(CodeSegment { bytes, address, image: &IMAGE }).map_err(|v| v.rule);
    assert_eq!(at(CODE, &[TRAP; 64]), Ok(()));
    assert_eq!(at(CODE, &[]), Ok(()));
    assert_eq!(at(WINDOW_END - 32, &[TRAP; 32]), Ok(()));
    for (address, bytes) in
        [(CODE, 31), (CODE + 16, 32), (WINDOW_END, 32), (WINDOW_END - 32, 64), (u64::MAX - 31, 32)]
    {
        assert_eq!(at(address, &vec![TRAP; bytes]), Err(Rule::Decoding), "{address:#x} {bytes}");
    }
}

/// An operand relative to the next instruction ends with its segment, not behind it.
#[test]
fn own_segments_are_held_to_the_byte() {
    let load = |target: u64| {
        let next = CODE + 7;
        let mut code = bytes_of("488b05");
        code.extend(((target as i64 - next as i64) as i32).to_le_bytes());
        verified(&code).map_err(|violation| violation.rule)
    };
    for (start, end) in [(0x2000, 0x2100), (0x4000_0000, 0x4000_0100)] {
        assert_eq!(load(start), Ok(()));
        assert_eq!(load(end - 8), Ok(()));
        assert_eq!(load(end - 7), Err(Rule::Memory));
        assert_eq!(load(start - 1), Err(Rule::Memory), "half before it");
    }
}

/// Nothing jumps between a mask and what it masks, wherever the mask lies in the bundle.
#[test]
fn a_masked_sequence_is_entered_at_its_start_alone() {
    let sequence = bytes_of("448b1c244183e3e04c891c24c3");
    for lead in 0..=BUNDLE_BYTES as usize - sequence.len() {
        for target in 0..sequence.len() {
            // A bundle that jumps, and one with the sequence in it.
            let mut code = vec![0xeb, (30 + lead + target) as u8];
            code.resize(32, TRAP);
            code.extend(vec![TRAP; lead]);
            code.extend(&sequence);
            let expected = if target == 0 { Ok(()) } else { Err(Rule::Branch) };
            let found = verified(&code).map_err(|violation| violation.rule);
            assert_eq!(found, expected, "{lead} {target}");
        }
    }
}

proptest! {
    /// Total: any bytes have an answer. Few of them pass, and what passes passes again.
    #[test]
    fn any_bytes_have_an_answer(code in prop::collection::vec(any::<u8>(), 0..512)) {
        let first = verified(&code);
        prop_assert_eq!(first, verified(&code));
    }
}
