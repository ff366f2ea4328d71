//! A function with std for the executor, as the builder links one, but for bytes alone.

use bench_function::{ANSWER_BYTES, Constants, LOG, work};

#[used]
static CONSTANTS: Constants = Constants::PLACE;

/// A line of a function that talks too much: as long as one that a person would write.
const LINE: &str = "a line of a function that writes as many of them into its log as it may, each of some hundred bytes, again and again";

/// The entry that the executor calls. Of a request only the beginning counts, however long it is.
#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(call: *mut mfaas_shim::Call) -> u32 {
    mfaas_shim::enter(call, |request| {
        let request = request.body.first_chunk().expect("a request of 64 bytes or more");
        let constants = std::hint::black_box(&CONSTANTS);
        if constants.kind == LOG {
            talk(constants.rounds);
        }
        let mut answer = [0; ANSWER_BYTES];
        let bytes = work(constants, request, &mut answer);
        mfaas_shim::Reply::of(answer[..bytes].to_vec())
    })
}

#[cold]
fn talk(lines: u64) {
    for _ in 0..lines {
        mfaas_shim::host::log(mfaas_abi::Level::Info, LINE);
    }
}
