//! What every function of the benchmark does, whatever form it is built in: a shared object for
//! the executor with and without std, a library for dlopen, a program, or a plain call.
//!
//! Which of the kinds an image is, and who it is, are constants in its data, so that a
//! thousand distinct images come from one compilation. It must never use more than `core`, and
//! must give the same answer in every form.

pub mod sha512;

/// What marks [`Constants`] in a built file: no other eight bytes of it are these.
pub const MAGIC: u64 = 0x9d1c_6be3_52f0_a847;
/// Bytes of a request.
pub const REQUEST_BYTES: usize = 64;
/// Bytes of an answer, at most.
pub const ANSWER_BYTES: usize = 72;

/// Answers at once, with a mixture of the request.
pub const EMPTY: u64 = 0;
/// SHA-512 over the 64 bytes of the request, `rounds` times, each over the last digest.
pub const HASH: u64 = 1;
/// Turns `rounds` times through a chain of multiplications that no compiler shortens.
pub const BUSY: u64 = 2;
/// Never answers.
pub const SPIN: u64 = 3;
/// Writes `rounds` lines into the log and answers like [`EMPTY`]; only where there is a log.
pub const LOG: u64 = 4;
/// Waits for its host with `rounds` bytes of memory in use, and answers like [`EMPTY`]; only where there is a host that puts
/// it aside.
pub const WAIT: u64 = 5;
/// Has as much memory in use as [`WAIT`], in the same form, and does not wait.
pub const HOLD: u64 = 6;
/// Puts a value of `rounds` bytes under a key of its binding; this and what follows only where there is a host with data.
pub const PUT: u64 = 7;
/// Gets that value `rounds` times, one after the other.
pub const GET: u64 = 8;
/// Puts an object of [`OBJECT_BYTES`].
pub const PUT_OBJECT: u64 = 9;
/// Reads that object `rounds` times, one after the other.
pub const READ_OBJECT: u64 = 10;
/// Writes a file of [`PAGE_BYTES`].
pub const WRITE_FILE: u64 = 12;
/// Reads that file `rounds` times, one after the other.
pub const READ_FILE: u64 = 13;

/// Calls the function behind its second binding `rounds` times, one after the other, with its own request.
pub const CALL: u64 = 11;

/// Bytes of the object: a piece that one operation reads.
pub const OBJECT_BYTES: usize = 100 << 10;
/// Of a file.
pub const PAGE_BYTES: usize = 4 << 10;

/// The constants of one function, found by [`MAGIC`] in its file and changed there.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// [`MAGIC`].
    pub magic: u64,
    /// One of the kinds above; what this form does not know counts as [`EMPTY`].
    pub kind: u64,
    /// Which of many equal functions this is.
    pub id: u64,
    /// How much work one call is.
    pub rounds: u64,
}

impl Constants {
    /// What is compiled in, to be changed in the file.
    pub const PLACE: Self = Self { magic: MAGIC, kind: EMPTY, id: 0, rounds: 1 };
}

/// Answers one request: `id · result`, the first as 8 bytes in this machine's order, the result 8 bytes
/// or a digest of 64. Returns the bytes of the answer.
#[inline(always)]
pub fn work(constants: &Constants, request: &[u8; REQUEST_BYTES], answer: &mut [u8; ANSWER_BYTES]) -> usize {
    answer[..8].copy_from_slice(&constants.id.to_ne_bytes());
    match constants.kind {
        HASH => {
            answer[8..72].copy_from_slice(&hashed(request, constants.rounds));
            72
        }
        BUSY => {
            answer[8..16].copy_from_slice(&turned(fold(request), constants.rounds).to_ne_bytes());
            16
        }
        SPIN => loop {
            core::hint::black_box(answer.as_mut_slice());
        },
        _ => {
            answer[8..16].copy_from_slice(&fold(request).to_ne_bytes());
            16
        }
    }
}

/// A mixture of the request's words that depends on each and on their order.
#[inline(always)]
pub fn fold(request: &[u8; REQUEST_BYTES]) -> u64 {
    request.chunks_exact(8).fold(0, |mixed: u64, bytes| {
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        mixed.rotate_left(7) ^ u64::from_ne_bytes(word)
    })
}

#[inline(never)]
fn hashed(request: &[u8; REQUEST_BYTES], rounds: u64) -> [u8; 64] {
    let mut digest = sha512::digest(request);
    for _ in 1..rounds {
        digest = sha512::digest(&digest);
    }
    digest
}

#[inline(never)]
fn turned(start: u64, rounds: u64) -> u64 {
    let mut turned = start;
    for _ in 0..rounds {
        turned = core::hint::black_box(
            turned.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
        );
    }
    turned
}
