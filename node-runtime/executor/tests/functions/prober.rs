//! A function that jumps to the address in its request, with the word behind it in `rax`.
#![no_std]

/// Where `mfaas_abi::Call` has the start of the request's body, in bytes.
const BODY: usize = 80;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// # Safety
/// There is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *const u8) -> u32 {
    unsafe {
        let body = call.add(BODY).cast::<*const usize>().read();
        let (target, word) = (body.read_unaligned(), body.add(1).read_unaligned());
        core::arch::asm!("mov rax, rdx", "jmp rcx", in("rcx") target, in("rdx") word, options(noreturn));
    }
}
