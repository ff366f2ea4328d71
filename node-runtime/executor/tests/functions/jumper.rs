//! A function that jumps to the address in its request: what verified code can do at worst.
#![no_std]

/// Where `mfaas_abi::Call` has the start of the request's body, in bytes.
const BODY: usize = 80;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

unsafe extern "C" {
    fn mfaas_host_now() -> u64;
}

/// # Safety
/// There is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *const u8) -> u32 {
    unsafe {
        let body = call.add(BODY).cast::<*const usize>().read();
        let target: extern "C" fn(*const u8, u64) -> u32 = core::mem::transmute(body.read_unaligned());
        target(call, mfaas_host_now())
    }
}
