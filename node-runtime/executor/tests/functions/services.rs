//! A function that is short and asks the host for something of each kind.
#![no_std]

mod record;

use record::{Call, Response, Span};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

unsafe extern "C" {
    fn mfaas_host_log(level: u32, text: *const u8, bytes: usize);
    fn mfaas_host_random(into: *mut u8, bytes: usize);
    fn mfaas_host_panic(text: *const u8, bytes: usize) -> !;
    fn sin(number: f64) -> f64;
    fn memcpy(into: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
}

static TEXT: [u8; 8] = *b"services";
/// Where the answer stands in the arena.
const ANSWER_AT: usize = 512;

/// # Safety
/// There is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *mut Call) -> u32 {
    unsafe {
        let call = &mut *call;
        let answer = call.arena.add(ANSWER_AT);
        mfaas_host_log(1, TEXT.as_ptr(), TEXT.len());
        mfaas_host_random(answer.add(16), 16);
        let root = sin(f64::from(*call.request.body.start.add(1)));
        answer.add(8).cast::<f64>().write_unaligned(root);
        memcpy(answer, TEXT.as_ptr(), TEXT.len());
        if *call.request.body.start == b'p' {
            mfaas_host_panic(TEXT.as_ptr(), TEXT.len());
        }
        call.response = Response::of(Span { start: answer, bytes: 32 });
        0
    }
}
