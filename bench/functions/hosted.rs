//! A function with std for the cage, as the builder links one, but for bytes alone.

use bench_function::{ANSWER_BYTES, Constants, work};

#[used]
static CONSTANTS: Constants = Constants::PLACE;

/// The entry that the cage calls.
#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(call: *mut mfaas_shim::Call) -> u32 {
    mfaas_shim::enter(call, |request| {
        let request = request.body.try_into().expect("a request of 64 bytes");
        let mut answer = [0; ANSWER_BYTES];
        let bytes = work(std::hint::black_box(&CONSTANTS), request, &mut answer);
        mfaas_shim::Reply::of(answer[..bytes].to_vec())
    })
}
