//! A function with std as a library for dlopen, as the paper loads one: bound to the C library,
//! with an allocation and a panic's machinery of its own.

use bench_function::{ANSWER_BYTES, Constants, REQUEST_BYTES, work};

#[used]
static CONSTANTS: Constants = Constants::PLACE;

/// Answers the request at `request` into `answer`, which holds [`ANSWER_BYTES`]; returns the bytes
/// of the answer.
///
/// # Safety
/// INV-BENCH-3: both pointers are to live buffers of those sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bench_handle(request: *const u8, bytes: usize, answer: *mut u8) -> usize {
    // SAFETY: INV-BENCH-3.
    let request = unsafe { std::slice::from_raw_parts(request, bytes) };
    let request: &[u8; REQUEST_BYTES] = request.try_into().expect("a request of 64 bytes");
    let mut own = [0; ANSWER_BYTES];
    let length = work(std::hint::black_box(&CONSTANTS), request, &mut own);
    let reply = own[..length].to_vec();
    // SAFETY: INV-BENCH-3.
    let answer = unsafe { std::slice::from_raw_parts_mut(answer, length) };
    answer.copy_from_slice(&reply);
    length
}
