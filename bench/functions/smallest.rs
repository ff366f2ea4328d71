//! A function without std for the cage: no allocator, no writable data. Its answer's frame is
//! written by hand behind the arena's header.
#![no_std]

use core::alloc::{GlobalAlloc, Layout};

use bench_function::{ANSWER_BYTES, Constants, work};
use mfaas_abi::{ArenaHeader, Call, Status, frame::RequestFrame};

#[used]
static CONSTANTS: Constants = Constants::PLACE;

/// Tag, status, count of headers and length of the body (`mfaas_abi::frame`).
const HEAD_BYTES: usize = 9;

/// The entry that the cage calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *mut Call) -> u32 {
    // SAFETY: INV-BENCH-7. The host's record, this call's alone.
    let call = unsafe { &mut *call };
    // SAFETY: INV-BENCH-7. The request is readable while the call lasts.
    let bytes = unsafe { core::slice::from_raw_parts(call.request, call.request_bytes) };
    let Ok(request) = RequestFrame::decode(bytes) else { return Status::Aborted.as_u32() };
    let Ok(request) = request.body.try_into() else { return Status::Aborted.as_u32() };
    let mut answer = [0; ANSWER_BYTES];
    let length = work(core::hint::black_box(&CONSTANTS), request, &mut answer);
    let start = size_of::<ArenaHeader>();
    // SAFETY: INV-BENCH-7. The arena is at least 64 KiB and writable.
    let frame = unsafe { core::slice::from_raw_parts_mut(call.arena.add(start), HEAD_BYTES + ANSWER_BYTES) };
    frame[0] = 2;
    frame[1..3].copy_from_slice(&200u16.to_le_bytes());
    frame[3..5].copy_from_slice(&[0, 0]);
    frame[5..9].copy_from_slice(&(length as u32).to_le_bytes());
    frame[HEAD_BYTES..].copy_from_slice(&answer);
    // SAFETY: INV-BENCH-7. The arena begins with its header.
    unsafe { (*call.arena.cast::<ArenaHeader>()).high_water = start + HEAD_BYTES + ANSWER_BYTES };
    call.response = frame.as_ptr();
    call.response_bytes = HEAD_BYTES + length;
    Status::Ok.as_u32()
}

/// The frames' crate can allocate; what of it is used here does not.
struct Nothing;

#[global_allocator]
static NOTHING: Nothing = Nothing;

// SAFETY: INV-BENCH-7. Never hands out a block, which an allocator may.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// The compiled `core` names it in tables for unwinding, which nothing here does.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
