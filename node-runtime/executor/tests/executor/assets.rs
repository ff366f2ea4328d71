//! Assets: bytes that functions read and no image holds.

use std::os::fd::OwnedFd;

use mfaas_abi::Status;
use mfaas_executor::{ExecutorError, Loaded, NamedAsset, Slab, SlabGeometry, SlabWriter, Verification};
use mfaas_ident::Digest;

use crate::{Answer, Fixture, sealed, toolchain};

const PAGE: usize = 4096;
/// Where the window's assets begin.
const ASSETS: usize = 1 << 30;
const GEOMETRY: SlabGeometry = SlabGeometry { bank_bytes: 16 << 20, asset_bytes: 16 * PAGE, slots: 16 };
const SIGSEGV_TEXT: &str = "an access to memory that is not the function's";

fn writer() -> SlabWriter {
    SlabWriter::new(GEOMETRY, Verification::Required).expect("a slab")
}

fn asset(place: usize, bytes: &[u8]) -> NamedAsset<OwnedFd> {
    NamedAsset { place, digest: Digest::of(bytes), file: sealed(bytes) }
}

fn load(writer: &mut SlabWriter, assets: &[NamedAsset<OwnedFd>]) -> Result<Loaded, ExecutorError> {
    let image = toolchain::reader();
    writer.load_with(sealed(image), &Digest::of(image).to_string(), assets)
}

fn leave(writer: &mut SlabWriter, slot: u32) {
    writer.unload(slot).expect("resident");
    writer.reclaim(slot).expect("it left");
}

impl Fixture {
    fn reading(slab: Slab, slot: u32) -> Self {
        let mut fixture = Self::made(slab, Self::alone());
        fixture.slot = slot;
        fixture
    }

    fn does(&mut self, does: usize, at: usize, with: usize) -> Answer {
        let words: Vec<u8> = [does, at, with].iter().flat_map(|word| word.to_le_bytes()).collect();
        self.call(&words)
    }

    /// Address and length of an asset, as the function finds them.
    fn place(&mut self, at: usize) -> (usize, usize) {
        let body = self.does(0, at, 0).body;
        let word = |at: usize| usize::from_le_bytes(body[at..at + 8].try_into().expect("eight bytes"));
        (word(0), word(8))
    }

    /// The byte at an address; nothing if it cannot be read, which ends that call alone.
    fn byte(&mut self, at: usize) -> Option<u8> {
        let answer = self.does(1, at, 0);
        match answer.status {
            Status::Ok => Some(answer.body[0]),
            status => {
                assert_eq!((status, answer.message.as_str()), (Status::Fault, SIGSEGV_TEXT));
                None
            }
        }
    }
}

#[test]
fn a_function_reads_its_assets_and_nothing_behind_them() {
    let _alone = Fixture::alone();
    let mut writer = writer();
    let (model, words) = (vec![7; PAGE + 3], b"words".to_vec());
    let loaded = load(&mut writer, &[asset(2, &model), asset(15, &words)]).expect("there is room");
    assert_eq!(loaded.asset_bytes, 3 * PAGE);
    let slab = Slab::map(writer.finish()).expect("the window is free");
    drop(_alone);
    let mut fixture = Fixture::reading(slab, loaded.slot);
    assert_eq!(fixture.place(2), (ASSETS, model.len()));
    assert_eq!(fixture.place(15), (ASSETS + 2 * PAGE, words.len()));
    assert_eq!((fixture.place(0), fixture.place(3)), ((0, 0), (0, 0)), "other bindings");
    assert_eq!(fixture.byte(ASSETS), Some(7));
    assert_eq!(fixture.byte(ASSETS + PAGE + 2), Some(7));
    assert_eq!(fixture.byte(ASSETS + 2 * PAGE + 4), Some(b's'));
    assert_eq!(fixture.byte(ASSETS + PAGE + 3), Some(0), "the rest of its last page");
    // A page that nobody wrote is not open, and the slab gets no memory for it.
    for page in 3..16 {
        assert_eq!(fixture.byte(ASSETS + page * PAGE), None, "page {page}");
    }
    for at in [ASSETS, ASSETS + 2 * PAGE] {
        assert_eq!(fixture.does(2, at, 9).status, Status::Fault, "nobody writes there");
        assert_eq!(fixture.does(3, at, 0).status, Status::Fault, "nothing runs there");
    }
    assert_eq!(fixture.byte(ASSETS), Some(7), "and the next call is as the first");
}

/// What comes while a worker is there is open in its next call.
#[test]
fn an_asset_comes_to_a_worker_that_runs() {
    let alone = Fixture::alone();
    let mut writer = writer();
    let plain = load(&mut writer, &[]).expect("there is room");
    let mut fixture = Fixture::made(Slab::map(writer.fd()).expect("the window is free"), alone);
    fixture.slot = plain.slot;
    assert_eq!(fixture.byte(ASSETS), None);
    let loaded = load(&mut writer, &[asset(0, b"later")]).expect("there is room");
    assert_eq!(fixture.place(0), (0, 0), "an image without assets finds none");
    fixture.slot = loaded.slot;
    assert_eq!((fixture.place(0), fixture.byte(ASSETS)), ((ASSETS, 5), Some(b'l')));
}

#[test]
fn one_asset_lies_in_a_slab_once_and_goes_with_the_last_that_has_it() {
    let mut writer = writer();
    let bytes = vec![3; 2 * PAGE];
    let first = load(&mut writer, &[asset(0, &bytes)]).expect("there is room");
    let second = load(&mut writer, &[asset(1, &bytes), asset(4, &bytes)]).expect("it is there");
    assert_eq!(writer.resident_asset_bytes(), 2 * PAGE);
    leave(&mut writer, first.slot);
    writer.unload(second.slot).expect("resident");
    assert_eq!(writer.resident_asset_bytes(), 2 * PAGE, "a call may run yet");
    assert_eq!(in_bank(&writer, 0), 3);
    writer.reclaim(second.slot).expect("it left");
    assert_eq!(writer.resident_asset_bytes(), 0);
    assert_eq!(in_bank(&writer, 0), 0, "nothing is left of it");
    let third = load(&mut writer, &[asset(0, &[5; PAGE])]).expect("there is room");
    assert_eq!((third.asset_bytes, in_bank(&writer, 0)), (PAGE, 5), "the same room");
}

#[test]
fn a_bank_without_room_says_so_and_nothing_is_left_of_the_attempt() {
    let mut writer = writer();
    let half = vec![1; 8 * PAGE];
    let first = load(&mut writer, &[asset(0, &half)]).expect("there is room");
    let larger = vec![2; 9 * PAGE];
    let small = asset(1, b"small");
    let full = load(&mut writer, &[small, asset(0, &larger)]);
    assert!(matches!(full, Err(ExecutorError::Full)), "{full:?}");
    assert_eq!(writer.resident_asset_bytes(), 8 * PAGE, "not even the one that had room");
    leave(&mut writer, first.slot);
    load(&mut writer, &[asset(0, &larger)]).expect("the room came back");
    assert_eq!(in_bank(&writer, 8 * PAGE), 2);
}

#[test]
fn an_asset_that_was_not_named_is_not_loaded() {
    let mut writer = writer();
    let other = NamedAsset { digest: Digest::of(b"another"), ..asset(0, b"one") };
    let nothing = asset(0, b"");
    let nowhere = asset(16, b"one");
    for assets in [vec![other], vec![nothing], vec![nowhere], vec![asset(0, b"a"), asset(0, b"b")]] {
        let refused = load(&mut writer, &assets);
        assert!(matches!(refused, Err(ExecutorError::OtherAsset)), "{refused:?}");
        assert_eq!((writer.resident_asset_bytes(), writer.resident_bytes()), (0, 0));
        assert_eq!(in_bank(&writer, 0), 0, "nothing is left of it");
    }
    load(&mut writer, &[asset(0, b"one")]).expect("the room came back");
}

/// A byte of the bank, as anybody can see it who was given the slab's memory.
fn in_bank(writer: &SlabWriter, at: usize) -> u8 {
    let size = rustix::fs::fstat(writer.fd()).expect("our own").st_size as usize;
    let mut byte = [0];
    let offset = (size - GEOMETRY.asset_bytes + at) as u64;
    rustix::io::pread(writer.fd(), &mut byte[..], offset).expect("it reads");
    byte[0]
}
