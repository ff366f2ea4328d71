//! A function that is native code without rules: it ends its own call and nothing else.

use mfaas_abi::Status;
use mfaas_cage::{CageError, Image};

use crate::{Fixture, load, toolchain};

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
        ("e", "what is not a frame"),
        ("f", "an unknown status"),
        ("g", "a panic that was none"),
    ] {
        assert_eq!(status(&mut fixture, what), Status::BadOutput, "{lie}");
    }
    let answer = fixture.call(b"t");
    assert_eq!((answer.status, answer.memory_bytes), (Status::Ok, 4 << 20), "an absurd high-water mark");
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
    let mut hostile = Fixture::new(toolchain::hostile());
    assert_eq!(hostile.ok("r"), "0", "at the start");
    let mut tenant = load(toolchain::tenant());
    for body in ["large-frame", "most", "bomb", "overflow", "panic-long", "spin-allocating", "count"] {
        std::mem::swap(&mut tenant, &mut hostile.image);
        hostile.call(body.as_bytes());
        std::mem::swap(&mut tenant, &mut hostile.image);
        assert_eq!(hostile.ok("r"), "0", "after {body}");
    }
}

#[test]
fn no_page_is_ever_writable_and_executable() {
    let _fixture = Fixture::new(toolchain::tenant());
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    assert!(maps.lines().any(|line| line.contains("mfaas-image") && line.contains("r-xp")));
    let both: Vec<_> = maps.lines().filter(|line| line.contains("rwx")).collect();
    assert_eq!(both, [""; 0]);
}

#[test]
fn what_can_still_change_is_not_loaded() {
    let file = tempfile::tempfile().expect("a file");
    assert!(matches!(Image::load(&file), Err(CageError::NotSealed)));
}

#[test]
fn what_is_no_image_is_not_loaded() {
    let nothing = mfaas_cage::sealed_copy(b"").expect("a memfd");
    assert!(matches!(Image::load(nothing), Err(CageError::Unreadable(_))));
    let host = std::fs::read("/proc/self/exe").expect("our own program");
    let own = mfaas_cage::sealed_copy(&host).expect("a memfd");
    assert!(Image::load(own).is_err(), "a program of another kind");
}

/// The worker's tests show that lock-down is what stops this.
#[test]
fn a_system_call_passes_without_lock_down() {
    let mut fixture = Fixture::new(toolchain::hostile());
    assert_eq!(fixture.ok("s"), "1");
}
