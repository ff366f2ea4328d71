//! The bind table against the profile, and the log buffer. What needs an image is in `tests/`.

use mfaas_abi::limits::{
    BODY_BYTES_MAX, BULK_BODY_BYTES_MAX, BULK_FRAME_BYTES_MAX, FRAME_BYTES_MAX, LOG_BYTES_MAX,
};
use mfaas_abi::{Level, LogReader, symbols};
use mfaas_inspect::verify::{CodeSegment, verify};
use mfaas_rules::profiles::imports::ROWS;
use rustix::mm::MprotectFlags;

use crate::logs::LogBuffer;
use crate::memory::{CallMemory, LARGEST_ARENA, LARGEST_STACK, Region, Sizes};
use crate::{bind, library, window};

/// A routine in the window, or a service behind a gate, and not both.
#[test]
fn every_row_of_the_profile_is_bound_once() {
    for row in ROWS {
        let (routine, service) = (library::offset_of(row.symbol).is_some(), bind::is_service(row.symbol));
        assert!(routine != service, "{}: a routine: {routine}, a service: {service}", row.symbol);
    }
    for symbol in symbols::HOST {
        assert!(ROWS.iter().any(|row| row.symbol == symbol), "{symbol} has no row");
    }
}

fn is_bound(symbol: &str) -> bool {
    library::offset_of(symbol).is_some() || bind::is_service(symbol)
}

#[test]
fn every_bound_symbol_has_a_row() {
    let names = concat!(include_str!("bind.rs"), include_str!("library.rs"), include_str!("libm.rs"));
    let quoted = names.split('"').skip(1).step_by(2).filter(|name| !name.contains(' '));
    let block = names.rsplit_once("\nfunctions! {").expect("the list of functions").1;
    let listed = block.split('}').next().unwrap_or_default();
    let listed = listed.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let strangers: Vec<_> = quoted
        .chain(listed)
        .filter(|name| is_bound(name) && !ROWS.iter().any(|row| row.symbol == *name))
        .collect();
    assert_eq!(strangers, [""; 0]);
}

#[test]
fn what_is_not_offered_is_not_bound() {
    for symbol in ["execve", "open", "socket", "dlsym", "exit", "pthread_create", ""] {
        assert!(!is_bound(symbol), "{symbol}");
    }
}

/// The whole interface of a function to its host, by name: another service is a change of this list.
#[test]
fn the_services_are_these() {
    let services: Vec<&str> =
        ROWS.iter().map(|row| row.symbol).filter(|symbol| bind::is_service(symbol)).collect();
    let of_numbers = ROWS.iter().filter(|row| row.why == "mathematics of f32 and f64").map(|row| row.symbol);
    let others: Vec<&str> =
        services.iter().copied().filter(|symbol| !of_numbers.clone().any(|one| one == *symbol)).collect();
    let expected = [
        "write",
        "writev",
        "getrandom",
        "clock_gettime",
        "mfaas_host_log",
        "mfaas_host_now",
        "mfaas_host_random",
        "mfaas_host_panic",
        "mfaas_host_oom",
        "abort",
        "_Unwind_RaiseException",
        "_Unwind_Resume",
    ];
    assert_eq!(others, expected);
}

#[test]
fn the_library_verifies_and_its_routines_begin_bundles() {
    let (bytes, address) = (library::code(), window::LIBRARY as u64);
    let own = address..address + bytes.len() as u64;
    verify(CodeSegment { bytes, address, image: std::slice::from_ref(&own) }).expect("the library passes");
    for offset in ROWS.iter().filter_map(|row| library::offset_of(row.symbol)) {
        assert!(offset.is_multiple_of(window::GATE_BYTES) && offset < bytes.len());
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

/// The library's routines where the host can call them: in memory below 4 GiB, as all that they are given,
/// with plain returns.
struct Routines {
    code: Region,
    room: Region,
}

/// Bytes of room for arguments.
const ROOM_BYTES: usize = 4_096;

impl Routines {
    /// Somewhere below 2 GiB that nothing of the window needs.
    fn new(at: usize) -> Self {
        let (code, room) = (
            Region::reserve(Some(at), 16_384).expect("nobody is there"),
            Region::reserve(Some(at + 65_536), 2 * ROOM_BYTES).expect("nobody is there"),
        );
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        code.protect(0..16_384, access).expect("our own");
        room.protect(0..ROOM_BYTES, access).expect("our own");
        let mut bytes = library::without_masks();
        let returns = b"\x44\x8b\x1c\x24\x41\x83\xe3\xff\x4c\x89\x1c\x24";
        let found: Vec<usize> =
            bytes.windows(12).enumerate().filter(|(_, at)| at == returns).map(|(at, _)| at).collect();
        assert!(found.len() > 15);
        found.into_iter().for_each(|at| bytes[at..at + 12].fill(0x90));
        // SAFETY: INV-EXECUTOR-2. Just mapped, and large enough.
        unsafe { code.at(0).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        code.protect(0..16_384, MprotectFlags::READ | MprotectFlags::EXEC).expect("our own");
        Self { code, room }
    }

    /// A routine by its symbol, as `F`, a function of the C calling convention.
    fn routine<F: Copy>(&self, symbol: &str) -> F {
        let at = self.code.at(library::offset_of(symbol).expect("a routine"));
        assert_eq!(size_of::<F>(), size_of::<usize>());
        // SAFETY: INV-EXECUTOR-16. The caller names the type that the routine has.
        unsafe { std::mem::transmute_copy(&at) }
    }

    /// The end of the room, up to a page that nobody may read, filled with these bytes.
    fn place(&self, bytes: &[u8]) -> *mut u8 {
        let at = self.room.at(ROOM_BYTES - bytes.len());
        // SAFETY: INV-EXECUTOR-2. Our own room.
        unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        at
    }

    fn held(&self, bytes: usize) -> Vec<u8> {
        // SAFETY: INV-EXECUTOR-2. Our own room.
        unsafe { std::slice::from_raw_parts(self.room.at(ROOM_BYTES - bytes), bytes) }.to_vec()
    }
}

#[test]
fn memory_operations_are_what_the_compiler_means() {
    let routines = Routines::new(0x100_0000);
    let copy: unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8 = routines.routine("memmove");
    let fill: unsafe extern "C" fn(*mut u8, i32, usize) -> *mut u8 = routines.routine("memset");
    let pattern: Vec<u8> = (0..3_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    for bytes in (0..300).chain([1_000, 1_023, 1_024, 1_025, 1_500]) {
        for (from, to) in [(0, 1_500), (1_500, 0), (100, 101), (101, 100), (100, 140), (140, 100), (100, 100)]
        {
            let mut expected = pattern.clone();
            let start = routines.place(&pattern);
            // SAFETY: INV-EXECUTOR-16. All inside of the room.
            let answer = unsafe { copy(start.wrapping_add(to), start.wrapping_add(from), bytes) };
            assert_eq!(answer, start.wrapping_add(to));
            expected.copy_within(from..from + bytes, to);
            assert!(routines.held(3_000) == expected, "{bytes} from {from} to {to}");
        }
        let mut expected = pattern.clone();
        let start = routines.place(&pattern);
        // SAFETY: INV-EXECUTOR-16. Inside of the room.
        unsafe { fill(start.wrapping_add(3), 0x1a5, bytes) };
        expected[3..3 + bytes].fill(0xa5);
        assert!(routines.held(3_000) == expected, "{bytes} filled");
    }
}

#[test]
fn comparisons_find_the_first_difference() {
    let (left, right) = (Routines::new(0x200_0000), Routines::new(0x300_0000));
    let compare: unsafe extern "C" fn(*const u8, *const u8, usize) -> i32 = left.routine("memcmp");
    let length: unsafe extern "C" fn(*const u8) -> usize = left.routine("strlen");
    let pattern: Vec<u8> = (0..200u8).map(|n| n.wrapping_mul(37)).collect();
    for bytes in 0..100 {
        let compared = |other: &[u8]| {
            let (left, right) = (left.place(&pattern[..bytes]), right.place(other));
            // SAFETY: INV-EXECUTOR-16. Inside of the rooms.
            unsafe { compare(left, right, bytes) }.signum()
        };
        assert_eq!(compared(&pattern[..bytes]), 0, "{bytes}");
        for at in 0..bytes {
            for change in [1, 0x80, 0xff] {
                let mut other = pattern[..bytes].to_vec();
                other[at] = other[at].wrapping_add(change);
                // What comes later does not count.
                other[at + 1..].fill(0);
                let expected = if pattern[at] < other[at] { -1 } else { 1 };
                assert_eq!(compared(&other), expected, "{bytes} at {at}");
            }
        }
        let mut text = vec![b'x'; bytes];
        text.extend([0, b'y', 0]);
        let at = left.place(&text);
        for start in 0..=bytes {
            // SAFETY: INV-EXECUTOR-16. It ends inside of the room.
            assert_eq!(unsafe { length(at.wrapping_add(start)) }, bytes - start);
        }
    }
}

/// What a call that shows itself as hostile could have written: everywhere.
#[test]
fn a_wipe_of_everything_leaves_nothing_anywhere() {
    let _alone = CALL_MEMORY.lock();
    let call_memory =
        CallMemory::new(1 << 20, BODY_BYTES_MAX).expect("nobody else has call_memory in this process");
    let arenas = (0..=LARGEST_ARENA).map(|size| call_memory.arena(size));
    let stacks = (0..=LARGEST_STACK).map(|size| {
        let range = call_memory.stack(size);
        (std::ptr::with_exposed_provenance_mut::<u8>(range.start), range.len())
    });
    let ranges: Vec<(*mut u8, usize)> = arenas
        .chain(stacks)
        .chain([(call_memory.call().cast(), 100), (call_memory.request().0, 70_000)])
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
pub(crate) static CALL_MEMORY: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// The largest arena and the largest request lie in the window side by side, and nothing of either stays: neither bytes nor
/// the memory that held them.
#[test]
fn what_a_bulk_call_used_is_wiped_and_given_back() {
    let _alone = CALL_MEMORY.lock();
    let largest = usize::try_from(mfaas_ident::MemoryLimit::MAX.as_bytes()).expect("64 bits");
    assert!(CallMemory::new(largest + (256 << 20), BULK_BODY_BYTES_MAX).is_err(), "more than there is");
    let call_memory = CallMemory::new(largest, BULK_BODY_BYTES_MAX).expect("room in the window");
    let lies = call_memory.addresses();
    assert!(window::holds(lies.start, lies.len()), "{lies:x?}");
    let sizes = Sizes { arena: LARGEST_ARENA, stack: LARGEST_STACK };
    let used = [call_memory.request(), call_memory.arena(LARGEST_ARENA)];
    assert_eq!(used.map(|(_, bytes)| bytes), [BULK_FRAME_BYTES_MAX, largest]);
    // Each megabyte, so that the test is quick, and the edges.
    let places =
        |bytes: usize| (0..bytes).step_by(1 << 20).chain([FRAME_BYTES_MAX - 1, FRAME_BYTES_MAX, bytes - 1]);
    let before = own_pages();
    for (start, bytes) in used {
        // SAFETY: INV-EXECUTOR-2. Inside of the request's room or the arena, and no call runs.
        places(bytes).for_each(|at| unsafe { start.wrapping_add(at).write(0x80) });
    }
    assert!(own_pages() > before + 1_000, "the pages were there");
    call_memory.wipe(sizes, BULK_FRAME_BYTES_MAX);
    assert!(own_pages() < before + 600, "{} pages before, {} after", before, own_pages());
    for (start, bytes) in used {
        // SAFETY: INV-EXECUTOR-2. As above.
        let held = places(bytes).map(|at| unsafe { start.wrapping_add(at).read() });
        assert!(held.into_iter().all(|byte| byte == 0));
    }
}

/// Pages of this process that are resident and no file's.
fn own_pages() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("this process");
    let numbers: Vec<usize> = statm.split(' ').take(3).map(|text| text.parse().expect("a number")).collect();
    numbers[1] - numbers[2]
}

/// Memory of the host's own that held a large answer.
#[test]
fn own_memory_is_cleared_whatever_its_edges() {
    let mut held = vec![7_u8; 64 << 10];
    for (start, end) in [(0, 64 << 10), (1, 5_000), (4_096, 4_097), (100, 100), (4_000, 50_000)] {
        held.fill(7);
        crate::memory::clear_own(&mut held[start..end]);
        let cleared = held.iter().enumerate().all(|(at, byte)| (*byte == 0) == (start..end).contains(&at));
        assert!(cleared, "{start}..{end}");
    }
}

/// One byte at a time: a block that is only looked at must be found by any of its bytes.
#[test]
fn a_wipe_leaves_zeros_wherever_a_byte_was() {
    let _alone = CALL_MEMORY.lock();
    let call_memory =
        CallMemory::new(1 << 20, BODY_BYTES_MAX).expect("nobody else has call_memory in this process");
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
