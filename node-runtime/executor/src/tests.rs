//! The bind table against the profile, and the log buffer. What needs an image is in `tests/`.

use mfaas_abi::limits::LOG_BYTES_MAX;
use mfaas_abi::{Level, LogReader, symbols};
use mfaas_rules::profiles::imports::ROWS;

use crate::logs::LogBuffer;
use crate::memory::{CallMemory, LARGEST_ARENA, LARGEST_STACK, Sizes};
use crate::{bind, memory_ops};

#[test]
fn every_row_of_the_profile_is_bound() {
    let unbound: Vec<_> =
        ROWS.iter().filter(|row| bind::address_of(row.symbol).is_none()).map(|row| row.symbol).collect();
    assert_eq!(unbound, [""; 0]);
    for symbol in symbols::HOST {
        assert!(ROWS.iter().any(|row| row.symbol == symbol), "{symbol} has no row");
    }
}

#[test]
fn every_bound_symbol_has_a_row() {
    let names = concat!(include_str!("bind.rs"), include_str!("libm.rs"));
    let quoted = names.split('"').skip(1).step_by(2).filter(|name| !name.contains(' '));
    let block = names.rsplit_once("\nfunctions! {").expect("the list of functions").1;
    let listed = block.split('}').next().unwrap_or_default();
    let listed = listed.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let strangers: Vec<_> = quoted
        .chain(listed)
        .filter(|name| bind::address_of(name).is_some() || bind::guarded_address_of(name).is_some())
        .filter(|name| !ROWS.iter().any(|row| row.symbol == *name))
        .collect();
    assert_eq!(strangers, [""; 0]);
}

#[test]
fn what_is_not_offered_is_not_bound() {
    for symbol in ["execve", "open", "socket", "dlsym", "exit", "pthread_create", ""] {
        assert_eq!(bind::address_of(symbol), None, "{symbol}");
    }
}

fn lines(buffer: &mut LogBuffer) -> Vec<(Level, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    LogReader::new(buffer.finish()).map(|entry| (entry.level, text(entry.text))).collect()
}

#[test]
fn streams_become_lines() {
    let mut buffer = LogBuffer::new();
    for piece in ["a", "b\nc", "\n", "d"] {
        buffer.stream(Level::Info, piece.as_bytes());
    }
    buffer.stream(Level::Error, b"e");
    buffer.line(Level::Warn, b"f");
    let expected = [
        (Level::Info, "ab".to_owned()),
        (Level::Info, "c".to_owned()),
        (Level::Info, "d".to_owned()),
        (Level::Error, "e".to_owned()),
        (Level::Warn, "f".to_owned()),
    ];
    assert_eq!(lines(&mut buffer), expected);
    buffer.wipe();
    assert_eq!(lines(&mut buffer), []);
}

#[test]
fn a_flood_is_cut_and_says_so() {
    let mut buffer = LogBuffer::new();
    for _ in 0..10_000 {
        buffer.stream(Level::Info, b"a line of some length\n");
    }
    assert!(buffer.finish().len() <= LOG_BYTES_MAX);
    let all = lines(&mut buffer);
    assert_eq!(all.last(), Some(&(Level::Warn, "further log lines were dropped".to_owned())));
    assert!(all[..all.len() - 1].iter().all(|(_, text)| "a line of some length".starts_with(text)));
    buffer.wipe();
    buffer.line(Level::Info, &[b'x'; LOG_BYTES_MAX * 2]);
    assert_eq!(lines(&mut buffer).len(), 2);
}

/// Under protection keys no row that needs more than its arguments is without a gate.
#[test]
fn what_needs_the_host_has_a_gate() {
    use mfaas_rules::profiles::imports::Binding;
    // Data-free: they read what their argument points at, or answer a constant address.
    let data_free = ["__tls_get_addr", "__errno_location"];
    for row in ROWS.iter().filter(|row| matches!(row.binding, Binding::Service | Binding::Ends)) {
        let gated = bind::guarded_address_of(row.symbol) != bind::address_of(row.symbol);
        assert_eq!(gated, !data_free.contains(&row.symbol), "{}", row.symbol);
    }
}

#[test]
fn memory_operations_are_what_the_compiler_means() {
    let pattern: Vec<u8> = (0..3_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    for bytes in (0..300).chain([1_000, 1_023, 1_024, 1_025, 1_500]) {
        for (from, to) in [(0, 1_500), (1_500, 0), (100, 101), (101, 100), (100, 140), (140, 100), (100, 100)]
        {
            let (mut ours, mut expected) = (pattern.clone(), pattern.clone());
            let start = ours.as_mut_ptr();
            // SAFETY: INV-EXECUTOR-11. All inside of the vector.
            let answer = unsafe { memory_ops::copy(start.wrapping_add(to), start.wrapping_add(from), bytes) };
            assert_eq!(answer, start.wrapping_add(to));
            expected.copy_within(from..from + bytes, to);
            assert!(ours == expected, "{bytes} from {from} to {to}");
        }
        let (mut ours, mut expected) = (pattern.clone(), pattern.clone());
        // SAFETY: INV-EXECUTOR-11. Inside of the vector.
        unsafe { memory_ops::fill(ours.as_mut_ptr().wrapping_add(3), 0x1a5, bytes) };
        expected[3..3 + bytes].fill(0xa5);
        assert!(ours == expected, "{bytes} filled");
    }
}

#[test]
fn comparisons_find_the_first_difference() {
    let left: Vec<u8> = (0..200u8).map(|n| n.wrapping_mul(37)).collect();
    for bytes in 0..100 {
        // SAFETY: INV-EXECUTOR-11. Inside of the vectors.
        let compare =
            |right: &[u8]| unsafe { memory_ops::compare(left.as_ptr(), right.as_ptr(), bytes) }.signum();
        assert_eq!(compare(&left), 0, "{bytes}");
        for at in 0..bytes {
            for change in [1, 0x80, 0xff] {
                let mut right = left.clone();
                right[at] = right[at].wrapping_add(change);
                // What comes later does not count.
                right[at + 1..].fill(0);
                let expected = if left[at] < right[at] { -1 } else { 1 };
                assert_eq!(compare(&right), expected, "{bytes} at {at}");
            }
        }
        let mut text = vec![b'x'; bytes];
        text.extend([0, b'y', 0]);
        for start in 0..=bytes {
            // SAFETY: INV-EXECUTOR-11. It ends inside of the vector; blocks of 16 do not cross a page.
            assert_eq!(unsafe { memory_ops::length(text.as_ptr().wrapping_add(start)) }, bytes - start);
        }
    }
}

/// What a call that shows itself as hostile could have written: everywhere.
#[test]
fn a_wipe_of_everything_leaves_nothing_anywhere() {
    let _alone = CALL_MEMORY.lock();
    let call_memory = CallMemory::new(1 << 20).expect("nobody else has call_memory in this process");
    let arenas = (0..=LARGEST_ARENA).map(|size| call_memory.arena(size));
    let stacks = (0..=LARGEST_STACK).map(|size| {
        let range = call_memory.stack(size);
        (std::ptr::with_exposed_provenance_mut::<u8>(range.start), range.len())
    });
    let ranges: Vec<(*mut u8, usize)> = arenas
        .chain(stacks)
        .chain([(call_memory.call().cast(), 100), (call_memory.request(), 70_000)])
        .collect();
    for (start, bytes) in &ranges {
        for at in [0, bytes / 2, bytes - 1] {
            // SAFETY: INV-EXECUTOR-2. Inside of the call memory, and no call runs.
            unsafe { start.wrapping_add(at).write(0x80) };
        }
    }
    call_memory.wipe_all();
    for (number, (start, bytes)) in ranges.iter().enumerate() {
        // SAFETY: INV-EXECUTOR-2. As above.
        let held = unsafe { std::slice::from_raw_parts(*start, *bytes) };
        assert!(held.iter().all(|byte| *byte == 0), "range {number} of {}", ranges.len());
    }
}

/// Call memory has one place in a process.
static CALL_MEMORY: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// One byte at a time: a block that is only looked at must be found by any of its bytes.
#[test]
fn a_wipe_leaves_zeros_wherever_a_byte_was() {
    let _alone = CALL_MEMORY.lock();
    let call_memory = CallMemory::new(1 << 20).expect("nobody else has call_memory in this process");
    for arena in 0..=LARGEST_ARENA {
        for stack in 0..=LARGEST_STACK {
            let sizes = Sizes { arena, stack };
            let (start, bytes) = call_memory.arena(arena);
            let range = call_memory.stack(stack);
            let stack_start = std::ptr::with_exposed_provenance_mut::<u8>(range.start);
            for (start, bytes) in [(start, bytes), (stack_start, range.len())] {
                let edges = [0, 1, 1_023, 1_024, 1_025, 1_279, 1_280, 65_535, 65_536].into_iter();
                let ends = [1, 2, 255, 256, 257, 1_023, 1_024, 1_025, 65_536, 65_537]
                    .map(|back| bytes.checked_sub(back));
                for at in edges.filter(|at| *at < bytes).chain(ends.into_iter().flatten()) {
                    // SAFETY: INV-EXECUTOR-2. Inside of an arena or a stack, and no call runs.
                    unsafe { start.wrapping_add(at).write(0x80) };
                    call_memory.wipe(sizes, 0);
                    // SAFETY: INV-EXECUTOR-2. All of the arena or stack, as above.
                    let held = unsafe { std::slice::from_raw_parts(start, bytes) };
                    assert!(held.iter().all(|byte| *byte == 0), "{sizes:?}, byte {at} of {bytes}");
                }
            }
        }
    }
}
