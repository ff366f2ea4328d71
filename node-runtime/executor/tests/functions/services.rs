//! A function that is short and asks the host for something of each kind.
#![no_std]

/// The layout of `mfaas_abi::Call`.
#[repr(C)]
pub struct Call {
    version: u32,
    flags: u32,
    arena: *mut u8,
    arena_bytes: usize,
    /// Method, path, headers and how many they are.
    head: [usize; 7],
    body: Span,
    response: Response,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Span {
    start: *const u8,
    bytes: usize,
}

#[repr(C)]
struct Response {
    http_status: u32,
    content_type: u32,
    headers: Span,
    header_count: usize,
    body: Span,
}

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
        let root = sin(f64::from(*call.body.start.add(1)));
        answer.add(8).cast::<f64>().write_unaligned(root);
        memcpy(answer, TEXT.as_ptr(), TEXT.len());
        if *call.body.start == b'p' {
            mfaas_host_panic(TEXT.as_ptr(), TEXT.len());
        }
        let body = Span { start: answer, bytes: 32 };
        call.response =
            Response { http_status: 200, content_type: 0, headers: Span { bytes: 0, ..body }, header_count: 0, body };
        0
    }
}
