//! A function of the executor that has memory in use and waits once, or does the same without waiting: beside each other they
//! show what waiting costs.

use bench_function::{ANSWER_BYTES, Constants, REQUEST_BYTES, WAIT, work};
use mfaas_abi::OperationKind;
use mfaas_shim::{Handling, Operation, Reply};

#[used]
static CONSTANTS: Constants = Constants::PLACE;

/// A nanosecond, which is over when it begins.
const SHORT: [u8; 8] = 1_u64.to_le_bytes();

/// The entry that the executor calls.
#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(call: *mut mfaas_shim::Call) -> u32 {
    mfaas_shim::enter(call, |request| -> Handling {
        let request: [u8; REQUEST_BYTES] = *request.body.first_chunk().expect("a request of 64 bytes or more");
        Box::pin(async move {
            let constants = std::hint::black_box(&CONSTANTS);
            let held = std::hint::black_box(vec![request[0]; constants.rounds as usize]);
            if constants.kind == WAIT {
                Operation::new(OperationKind::Sleep, SHORT.to_vec()).await;
            }
            assert!(held.last() == Some(&request[0]), "memory is as it was");
            let mut answer = [0; ANSWER_BYTES];
            let bytes = work(constants, &request, &mut answer);
            Reply::of(answer[..bytes].to_vec())
        })
    })
}
