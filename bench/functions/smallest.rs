//! A function without std for the executor: no allocator, no writable data. Its answer is
//! written by hand behind the arena's header.
#![no_std]

use core::alloc::{GlobalAlloc, Layout};

use bench_function::{ANSWER_BYTES, Constants, work};
use mfaas_abi::{ArenaHeader, Call, ResponseRecord, Span, Status};

#[used]
static CONSTANTS: Constants = Constants::PLACE;

/// The entry that the executor calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *mut Call) -> u32 {
    // SAFETY: INV-BENCH-7. The host's record, this call's alone.
    let call = unsafe { &mut *call };
    // SAFETY: INV-BENCH-7. The request is readable while the call lasts.
    let body = unsafe { core::slice::from_raw_parts(call.request.body.start, call.request.body.bytes) };
    let Ok(request) = body.try_into() else { return Status::Aborted.as_u32() };
    let start = size_of::<ArenaHeader>();
    // SAFETY: INV-BENCH-7. The arena is at least 4 KiB and writable.
    let answer = unsafe { &mut *call.arena.add(start).cast::<[u8; ANSWER_BYTES]>() };
    let bytes = work(core::hint::black_box(&CONSTANTS), request, answer);
    // SAFETY: INV-BENCH-7. The arena begins with its header.
    unsafe { (*call.arena.cast::<ArenaHeader>()).high_water = start + ANSWER_BYTES };
    let body = Span::of(&answer[..bytes]);
    call.response = ResponseRecord { http_status: 200, body, ..ResponseRecord::NONE };
    Status::Ok.as_u32()
}

/// The ABI's crate can allocate; what of it is used here does not.
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
