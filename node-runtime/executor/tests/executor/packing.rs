//! Images lie side by side: one comes and goes without a trace in its neighbours.

use std::os::fd::AsFd as _;

use mfaas_executor::{ExecutorError, Loaded, SlabGeometry, SlabWriter, Verification};

use crate::{Fixture, sealed, toolchain};

const PAGE_BYTES: usize = 4096;
/// What images and their parts are aligned to.
const LINE_BYTES: usize = 64;
/// Where the window's code begins.
const CODE: usize = 256 << 20;
/// `int3`.
const TRAP: u8 = 0xcc;
const GEOMETRY: SlabGeometry = SlabGeometry { bank_bytes: 16 << 20, asset_bytes: 0, slots: 16 };

/// A slab whose bytes are looked at, as anybody can who was given its memory.
struct Looked(SlabWriter);

impl Looked {
    fn new() -> Self {
        Self(SlabWriter::new(GEOMETRY, Verification::Waived).expect("a slab"))
    }

    fn load(&mut self, image: &[u8]) -> Loaded {
        self.0.load(sealed(image)).expect("the function loads")
    }

    /// `bytes` bytes of the code from an address on. Behind the code the memory has only constants.
    fn bytes(&self, address: usize, bytes: usize) -> Vec<u8> {
        let size = rustix::fs::fstat(self.0.fd()).expect("our own").st_size as usize;
        let offset = size - 2 * GEOMETRY.bank_bytes + (address - CODE);
        let mut held = vec![0; bytes];
        let read = rustix::io::pread(self.0.fd().as_fd(), &mut held[..], offset as u64).expect("it reads");
        assert_eq!(read, bytes);
        held
    }

    fn of(&self, loaded: Loaded) -> Vec<u8> {
        self.bytes(loaded.address, loaded.bytes)
    }
}

fn is_trapped(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == TRAP)
}

#[test]
fn an_image_in_the_middle_of_a_page_comes_and_goes_alone() {
    let mut slab = Looked::new();
    let [first, middle, last] = [(); 3].map(|()| slab.load(toolchain::hostile()));
    assert_eq!(first.address + first.bytes, middle.address, "no room between them");
    assert_eq!(middle.address + middle.bytes, last.address);
    assert!(middle.address.is_multiple_of(LINE_BYTES) && !middle.address.is_multiple_of(PAGE_BYTES));
    let [before, held, behind] = [first, middle, last].map(|one| slab.of(one));
    assert!(!is_trapped(&held[..LINE_BYTES]));
    slab.0.unload(middle.slot).expect("resident");
    assert_eq!(
        slab.load(toolchain::hostile()).address,
        last.address + last.bytes,
        "a worker may stand there"
    );
    slab.0.reclaim(middle.slot).expect("it left");
    assert_eq!((slab.of(first), slab.of(last)), (before.clone(), behind.clone()), "the neighbours stay");
    assert!(is_trapped(&slab.of(middle)), "nothing is left of it");
    let again = slab.load(toolchain::hostile());
    assert_eq!((again.address, again.bytes), (middle.address, middle.bytes), "the same room");
    assert_eq!(slab.of(again), held, "file and address say what stands there");
    assert_eq!((slab.of(first), slab.of(last)), (before, behind));
}

#[test]
fn free_room_holds_traps() {
    let mut slab = Looked::new();
    slab.0.ready_ahead();
    let loaded = slab.load(toolchain::tenant());
    let end = loaded.address + loaded.bytes;
    assert!(is_trapped(&slab.bytes(end, (2 << 20) - end % (2 << 20))));
    assert!(loaded.address.is_multiple_of(512), "as its constants ask");
    assert!(is_trapped(&slab.bytes(loaded.address / PAGE_BYTES * PAGE_BYTES, loaded.address % PAGE_BYTES)));
}

/// The tables by which an image is linked.
#[test]
fn what_no_call_needs_is_not_resident() {
    let mut slab = Looked::new();
    let held = [toolchain::tenant(), toolchain::hostile()].map(|image| {
        let loaded = slab.load(image);
        let held = slab.of(loaded);
        // Behind what was written there may be room that its data need in the other bank.
        let written = held.iter().rposition(|byte| !is_trapped(&[*byte])).map_or(0, |last| last + 1);
        assert!(written < image.len(), "{written} bytes of a file of {}", image.len());
        held
    });
    let names = |held: &[u8]| held.windows(14).any(|window| window == b"mfaas_entry_v1");
    assert!(names(toolchain::tenant()) && held.iter().all(|held| !names(held)));
}

#[test]
fn a_load_that_fails_leaves_traps_and_the_room() {
    let mut slab = Looked::new();
    let kept = slab.load(toolchain::hostile());
    let before = slab.of(kept);
    let mut stranger = toolchain::hostile().to_vec();
    let name = stranger.windows(15).position(|window| window == b"mfaas_host_log\0").expect("it imports it");
    stranger[name] = b'x';
    let refused = slab.0.load(sealed(&stranger)).expect_err("nobody offers that");
    assert!(matches!(refused, ExecutorError::UnknownImport(_)), "{refused}");
    let room = kept.address + kept.bytes;
    assert!(is_trapped(&slab.bytes(room, kept.bytes)));
    assert_eq!(slab.load(toolchain::hostile()).address, room, "the next image gets it");
    assert_eq!(slab.of(kept), before);
}

#[test]
fn what_the_compiler_was_promised_about_addresses_holds() {
    let images = [toolchain::hostile(), toolchain::tenant(), toolchain::hostile(), toolchain::tenant()];
    let mut fixture = Fixture::with(&images);
    for slot in [1, 3, 1] {
        fixture.slot = slot;
        assert_eq!(fixture.ok("aligned"), "0 7");
    }
}

/// A worker fetches 34 lines of an image ahead of a call, and the function's own entry needs most of them. Behind that lies what nearly
/// every call runs of the allocator.
#[test]
fn what_every_call_runs_of_the_shim_is_small() {
    const LINES_MAX: u64 = 16;
    let map = toolchain::map_of_tenant();
    // Address · address in the file · size · alignment · name, the numbers in base 16.
    let end_of = |name: &str| {
        let line = map.lines().find(|line| line.ends_with(name)).unwrap_or_else(|| panic!("no {name}"));
        let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let words: Vec<&str> = line.split_whitespace().collect();
        number(words[0]) + number(words[2])
    };
    let bytes = end_of("__rustc::__rust_dealloc") - end_of(" mfaas_entry_v1");
    assert!(bytes <= LINES_MAX * LINE_BYTES as u64, "{bytes} bytes");
}
