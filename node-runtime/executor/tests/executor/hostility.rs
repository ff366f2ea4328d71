//! A function that is native code without rules: it ends its own call and nothing else.

use std::sync::atomic::AtomicU64;

use mfaas_abi::Status;
use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_executor::{ExecutorError, SlabGeometry, SlabWriter, Verification};

use crate::{Fixture, sealed, toolchain};

fn status(fixture: &mut Fixture, what: &str) -> Status {
    let status = fixture.call(what.as_bytes()).status;
    assert_eq!(fixture.ok("-"), "!", "after {what}");
    status
}

#[test]
fn a_lying_function_is_bad_output() {
    let mut fixture = Fixture::new(toolchain::hostile());
    for (what, lie) in [
        ("a", "a response outside the arena"),
        ("b", "a response just before the arena"),
        ("c", "a length that wraps"),
        ("d", "a length beyond the end"),
        ("e", "a status that is none"),
        ("D", "a status that is one in its lower half"),
        ("E", "an unknown type of content"),
        ("F", "a header that is not there"),
        ("G", "a number of headers that is none in its lower half"),
        ("H", "bytes behind the last header"),
        ("I", "headers outside the arena"),
        ("f", "an unknown status"),
        ("g", "a panic that was none"),
    ] {
        assert_eq!(status(&mut fixture, what), Status::BadOutput, "{lie}");
    }
    let answer = fixture.call(b"t");
    assert_eq!(answer.status, Status::Ok);
    assert!(answer.memory_bytes <= 4 << 20, "an absurd high-water mark: {}", answer.memory_bytes);
}

/// The header that a function names by number alone is in the frame, and before all others.
#[test]
fn a_type_of_content_becomes_a_header() {
    let mut fixture = Fixture::new(toolchain::hostile());
    let mut request = Vec::new();
    encode_request(&mut request, "POST", "/", [], b"J").expect("a plain request");
    fixture.executor.request()[..request.len()].copy_from_slice(&request);
    let word = AtomicU64::new(0);
    let mut ended = fixture.executor.call(0, request.len(), fixture.limits, &word).expect("resident");
    let outcome = ended.outcome();
    let frame = ResponseFrame::decode(outcome.response).expect("checked by the executor");
    assert_eq!(frame.headers.iter().collect::<Vec<_>>(), [("content-type", "text/html; charset=utf-8")]);
    assert_eq!((outcome.status, frame.status, frame.body), (Status::Ok, 200, &b"!"[..]));
}

#[test]
fn faults_end_the_call() {
    let mut fixture = Fixture::new(toolchain::hostile());
    for (what, fault) in [
        ("h", "a wild write"),
        ("i", "an illegal instruction"),
        ("j", "a breakpoint"),
        ("n", "a division by zero"),
        ("o", "a wild pointer for the host to read"),
        ("p", "a wild pointer for the host to write"),
        ("v", "every kept register lost"),
    ] {
        assert_eq!(status(&mut fixture, what), Status::Fault, "{fault}");
    }
}

#[test]
fn flags_and_floating_point_state_stay_behind() {
    let mut fixture = Fixture::new(toolchain::hostile());
    for what in ["k", "m", "u"] {
        assert_eq!(status(&mut fixture, what), Status::Ok, "{what}");
        let third = std::hint::black_box(1.0f64) / std::hint::black_box(3.0);
        assert_eq!(format!("{third:.17}"), "0.33333333333333331");
        let copy: Vec<u8> = std::hint::black_box((0..200).collect());
        assert_eq!(copy[199], 199, "the direction flag");
    }
    let ended = status(&mut fixture, "l");
    assert!(matches!(ended, Status::Ok | Status::Fault), "alignment checks and single steps: {ended}");
}

#[test]
fn nothing_of_one_call_lies_in_the_memory_of_the_next() {
    let mut fixture = Fixture::with(&[toolchain::hostile(), toolchain::tenant()]);
    assert_eq!((&*fixture.ok("r"), &*fixture.ok("K")), ("0", "0"), "at the start");
    for body in ["large-frame", "most", "bomb", "overflow", "panic-long", "spin-allocating", "count"] {
        fixture.slot = 1;
        fixture.call(body.as_bytes());
        fixture.slot = 0;
        assert_eq!(fixture.ok("K"), "0", "in the registers after {body}");
        assert_eq!(fixture.ok("r"), "0", "after {body}");
    }
}

/// Where tenants share workers, one could write to what only another's calls are given, and end as if nothing
/// were: neither zeros nor free lists are believed to be there.
#[test]
fn what_a_hostile_call_leaves_in_other_arenas_reaches_no_neighbour() {
    let mut fixture = Fixture::with(&[toolchain::hostile(), toolchain::tenant()]);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let ranges = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some((address(start)?, address(end)?, rest.starts_with("rw-p")))
    });
    // All arenas, which begin at one address, and the stacks but its own, which is small.
    let of_others = ranges.filter(|(start, end, is_writable)| {
        *is_writable && (CALL_MEMORY + RECORD_BYTES..1 << 32).contains(start) && end - start >= 64 << 10
    });
    let of_others: Vec<_> = of_others.collect();
    assert!(of_others.len() >= 3, "{of_others:x?}");
    for (start, end, _) in of_others {
        let mut body = vec![b'Y'];
        body.extend_from_slice(&start.to_le_bytes());
        body.extend_from_slice(&(end - start).to_le_bytes());
        assert_eq!(fixture.call(&body).status, Status::Ok, "{start:#x}");
    }
    fixture.slot = 1;
    let answer = fixture.call(b"zeroed");
    assert_eq!((answer.status, answer.body), (Status::Ok, vec![0]));
    assert_eq!(fixture.ok("outgrow-arena 1"), "\u{1}");
}

/// A service works as long as the function asks for, and no longer than its budget.
#[test]
fn a_service_ends_with_the_budget_of_its_call() {
    let mut fixture = Fixture::new(toolchain::hostile()).with_budget_us(1_000);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    // Data that is no image's: nothing wipes it, so it shows how far the service came.
    let start = DATA + (1 << 20);
    assert!(maps.contains(&format!("{:08x} rw-p", DATA + (16 << 20))), "the bank is 16 MiB: {maps}");
    let bytes = 14usize << 20;
    let of = |letter: u8, numbers: &[usize]| {
        std::iter::once(letter)
            .chain(numbers.iter().flat_map(|number| number.to_le_bytes()))
            .collect::<Vec<_>>()
    };
    let answer = fixture.call(&of(b'X', &[start, bytes]));
    assert_eq!(answer.status, Status::OverBudget);
    let mut held = |at: usize| fixture.call(&of(b'w', &[at])).body[0];
    assert!((0..16).any(|at| held(start + at) != 0), "nothing was written");
    assert!((1..16).all(|back| held(start + bytes - back) == 0), "all of it was written");
}

/// Where the window has data.
const DATA: usize = 1_280 << 20;

/// Where the window has call memory, and how much of it is the record's and the request's.
const CALL_MEMORY: usize = 2_816 << 20;
const RECORD_BYTES: usize = 128 << 10;

#[test]
fn no_page_is_ever_writable_and_executable() {
    let _fixture = Fixture::new(toolchain::tenant());
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    // Loaders of other tests have slabs of their own in this process.
    let number = |line: &&str| line.split_ascii_whitespace().nth(4).map(str::to_owned);
    let code = maps.lines().find(|line| line.contains("mfaas-slab") && line.contains("r-xs"));
    let ours = number(&code.expect("the slab's code is mapped")).expect("its number");
    let slab: Vec<_> = maps.lines().filter(|line| number(line).as_ref() == Some(&ours)).collect();
    assert!(slab.iter().all(|line| !line.contains(" rw")), "{slab:?}");
    let both: Vec<_> = maps.lines().filter(|line| line.contains("rwx")).collect();
    assert_eq!(both, [""; 0]);
}

#[test]
fn a_slab_cannot_be_written_by_those_who_are_given_it() {
    let writer = SlabWriter::new(SlabGeometry::ONE, Verification::Waived).expect("a slab");
    let write = rustix::io::pwrite(writer.fd(), b"x", 0).expect_err("sealed");
    assert_eq!(write, rustix::io::Errno::PERM);
    let size = rustix::fs::ftruncate(writer.fd(), 0).expect_err("sealed");
    assert_eq!(size, rustix::io::Errno::PERM);
    let unsealed = tempfile::tempfile().expect("a file");
    assert!(matches!(mfaas_executor::Slab::map(unsealed), Err(ExecutorError::NotSealed)));
}

#[test]
fn what_can_still_change_is_not_loaded() {
    let file = tempfile::tempfile().expect("a file");
    assert!(matches!(writer().load(&file), Err(ExecutorError::NotSealed)));
}

#[test]
fn what_is_no_image_is_not_loaded() {
    let mut writer = writer();
    assert!(matches!(writer.load(sealed(b"")), Err(ExecutorError::Unreadable(_))));
    let host = std::fs::read("/proc/self/exe").expect("our own program");
    assert!(writer.load(sealed(&host)).is_err(), "a program of another kind");
    assert_eq!(writer.resident_bytes(), 0, "nothing of it is left");
}

#[test]
fn an_image_that_was_not_named_is_not_loaded() {
    let mut writer = writer();
    let images = [toolchain::tenant(), toolchain::hostile()];
    let names = images.map(|image| mfaas_ident::Digest::of(image).to_string());
    let memory = images.map(sealed);
    // Again and again: also when the loader has seen the memory before.
    for turn in 0..3 {
        for (mine, other) in [(0, 1), (1, 0)] {
            let refused = writer.load_named(&memory[mine], &names[other]);
            assert!(matches!(refused, Err(ExecutorError::OtherImage)), "turn {turn}: {refused:?}");
            let loaded = writer.load_named(&memory[mine], &names[mine]).expect("it is the one");
            leave(&mut writer, loaded.slot);
            // The same bytes in other memory, and other bytes in memory of the same size.
            let again = writer.load_named(sealed(images[mine]), &names[mine]).expect("it is the one");
            leave(&mut writer, again.slot);
            let mut changed = images[mine].to_vec();
            let last = changed.len() - 1;
            changed[last] ^= 1;
            let refused = writer.load_named(sealed(&changed), &names[mine]);
            assert!(matches!(refused, Err(ExecutorError::OtherImage)), "turn {turn}: {refused:?}");
        }
    }
    assert_eq!(writer.resident_bytes(), 0);
}

#[test]
fn a_full_slab_says_so_and_room_comes_back() {
    let mut writer = writer();
    let image = sealed(toolchain::tenant());
    let mut slots = Vec::new();
    let full = loop {
        match writer.load(&image) {
            Ok(loaded) => slots.push(loaded.slot),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, ExecutorError::Full), "{full}");
    let held = writer.resident_bytes();
    for slot in slots.iter().step_by(2).chain(slots.iter().skip(1).step_by(2)) {
        writer.unload(*slot).expect("resident");
        assert!(writer.unload(*slot).is_err(), "unloaded twice");
        assert!(matches!(writer.load(&image), Err(ExecutorError::Full)), "a worker may stand there");
    }
    for slot in &slots {
        writer.reclaim(*slot).expect("it left");
        assert!(writer.reclaim(*slot).is_err(), "reclaimed twice");
    }
    assert_eq!(writer.resident_bytes(), 0);
    for _ in &slots {
        writer.load(&image).expect("all the room came back in one piece");
    }
    assert_eq!(writer.resident_bytes(), held);
}

/// An image leaves, and no worker was there.
fn leave(writer: &mut SlabWriter, slot: u32) {
    writer.unload(slot).expect("resident");
    writer.reclaim(slot).expect("it left");
}

fn writer() -> SlabWriter {
    let geometry = SlabGeometry { bank_bytes: 4 << 20, asset_bytes: 0, slots: 64 };
    SlabWriter::new(geometry, Verification::Waived).expect("a slab")
}

/// The worker's tests show that lock-down is what stops this.
#[test]
fn a_system_call_passes_without_lock_down() {
    let mut fixture = Fixture::new(toolchain::hostile());
    assert_eq!(fixture.ok("s"), "1");
}
