//! Native code that tries to leave: with its pointers, with the host's services, and by jumping
//! into the host's gates.

use std::sync::atomic::{AtomicU64, Ordering};

use mfaas_abi::Status;

use crate::fixture::Fixture;

/// What the worker keeps and no function may see.
static SECRET: AtomicU64 = AtomicU64::new(u64::from_le_bytes(*b"SSSSSSSS"));
/// What the worker is only read for.
static CONSTANT: &[u8; 8] = b"CCCCCCCC";
/// First address of the window, where the first gate stands.
const CODE: usize = 256 << 20;
/// The rights with which gates compare.
const RIGHTS: [u32; 2] = [0x5555_5550, 0x5555_5551];

pub(crate) fn secret() -> usize {
    (&raw const SECRET).expose_provenance()
}

pub(crate) fn is_intact() -> bool {
    SECRET.load(Ordering::Relaxed).to_le_bytes() == *b"SSSSSSSS"
}

/// The ablation: what the tests below show is owed to the keys.
pub(crate) fn without_keys(fixture: &mut Fixture) {
    let answer = fixture.hostile(b'w', &[secret()]);
    assert_eq!((answer.status, &*answer.body), (Status::Ok, &b"S"[..]), "read: {answer:?}");
    let answer = fixture.hostile(b'x', &[secret()]);
    assert_eq!(answer.status, Status::Ok, "written: {answer:?}");
    assert!(!is_intact(), "written");
    SECRET.store(u64::from_le_bytes(*b"SSSSSSSS"), Ordering::Relaxed);
}

pub(crate) fn memory_of_the_worker(fixture: &mut Fixture) {
    let (local, heap) = (0u64, Box::new(0u64));
    let shared = memmap();
    for (place, address) in [
        ("a static", secret()),
        ("the stack", (&raw const local).expose_provenance()),
        ("the heap", (&raw const *heap).expose_provenance()),
        ("shared memory", shared),
    ] {
        for what in *b"wx" {
            let answer = fixture.hostile(what, &[address]);
            assert_eq!(answer.status, Status::Fault, "{place}: {answer:?}");
            fixture.lives(place);
        }
    }
    assert!(is_intact());
}

/// A page that is shared, as a ring is, and mapped after the keys were put in place.
fn memmap() -> usize {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, which is never taken away.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4_096, access, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page.expose_provenance()
}

pub(crate) fn constants(fixture: &mut Fixture) {
    assert_eq!(fixture.hostile(b'w', &[CODE]).body, b"A", "the first gate");
    assert_eq!(fixture.hostile(b'x', &[CODE]).status, Status::Fault);
    let constant = CONSTANT.as_ptr().expose_provenance();
    assert_eq!(fixture.hostile(b'w', &[constant]).body, b"C", "what the threat model says");
    assert_eq!(fixture.hostile(b'x', &[constant]).status, Status::Fault);
    fixture.lives("constants");
}

pub(crate) fn services(fixture: &mut Fixture) {
    for (what, service) in [(b'y', "log"), (b'z', "random")] {
        for address in [secret(), 4_096, usize::MAX - 4] {
            let answer = fixture.hostile(what, &[address]);
            assert_eq!((answer.status, &*answer.logs), (Status::Fault, &[][..]), "{service}: {answer:?}");
            fixture.lives(service);
        }
    }
    assert!(is_intact());
}

pub(crate) fn other_values(fixture: &mut Fixture) {
    let gates = gates();
    assert!(gates.len() > 5, "only {} instructions", gates.len());
    for gate in gates {
        for value in [0, 0x5555_5554, RIGHTS[0] & RIGHTS[1] & 0xff] {
            let answer = fixture.hostile(b'A', &[gate.address, value as usize, secret()]);
            assert_eq!(answer.status, Status::Fault, "{gate:x?} with {value:#x}: {answer:?}");
            assert_ne!(answer.body, b"S", "{gate:x?} with {value:#x}");
        }
        fixture.lives("a jump to a gate");
    }
}

/// With the value that belongs there a jump into a gate is the gate: it comes back without rights, or
/// ends the call.
pub(crate) fn own_values(fixture: &mut Fixture) {
    for gate in gates() {
        let answer = fixture.hostile(b'A', &[gate.address, gate.value as usize, secret()]);
        assert_ne!(answer.body, b"S", "{gate:x?}: {answer:?}");
        fixture.lives("a jump to a gate");
    }
    assert!(is_intact());
}

/// With a stack pointer into the worker's memory the process ends before anything is written there.
pub(crate) fn other_stacks(fixture: &mut Fixture) {
    let (into, mut landed) = (secret() + 4, 0);
    for gate in gates().into_iter().filter(|gate| gate.value == RIGHTS[0]) {
        // SAFETY: the child makes one call and leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            fixture.hostile(b'B', &[gate.address, gate.value as usize, into]);
            // Only the landing comes here: it has a stack of its own.
            let code = if is_intact() { 0 } else { 1 };
            mfaas_executor::exit_now(code);
        }
        let mut status = 0;
        // SAFETY: our own child, and a live local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "{gate:x?}: {status:#x}");
        let code = libc::WEXITSTATUS(status);
        assert!(code == 0 || code == 128 + libc::SIGILL, "{gate:x?}: {code}");
        landed += usize::from(code == 0);
    }
    assert_eq!(landed, 1, "the landing");
    fixture.lives("stacks");
}

/// An instruction that changes rights, and the value with which it compares.
#[derive(Debug, Clone, Copy)]
struct Gate {
    address: usize,
    value: u32,
}

/// All of them in this program's code.
fn gates() -> Vec<Gate> {
    let here = gates as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let address = |text: &str| usize::from_str_radix(text, 16).expect("hexadecimal");
    let ranges = maps.lines().filter_map(|line| line.split_once(' ')?.0.split_once('-'));
    let (start, end) = ranges
        .map(|(start, end)| (address(start), address(end)))
        .find(|(start, end)| (*start..*end).contains(&here))
        .expect("our own code");
    // SAFETY: mapped and readable.
    let code =
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(start), end - start) };
    // Byte by byte: as one constant of this program it would be found there, and not only by this test.
    let wrpkru = [0x0f, 0x01, 0xef, 0x3d].map(std::hint::black_box::<u8>);
    let found = code.windows(8).enumerate().filter(|(_, bytes)| bytes[..4] == wrpkru);
    let gate = |(at, bytes): (usize, &[u8])| Gate {
        address: start + at,
        value: u32::from_le_bytes(bytes[4..].try_into().expect("four bytes")),
    };
    let gates: Vec<_> = found.map(gate).collect();
    assert!(gates.iter().all(|gate| RIGHTS.contains(&gate.value)), "{gates:x?}");
    gates
}
