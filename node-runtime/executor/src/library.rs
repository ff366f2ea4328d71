//! What functions call without leaving the window: copies, fills and comparisons, the address of a
//! thread-local, and what std links and functions have no use for.
//!
//! The loader copies these instructions to the beginning of every slab's code, where they run with the
//! function's own rights and pass the same verifier as the function's: every address has 32 bits, no
//! instruction crosses a bundle, every return is masked. So none of it is in the trusted base, and what
//! is left to [`crate::services`] is all that a function can ask the host.
//!
//! It must never use memory but its arguments' and the function's `errno`, and never what a machine may
//! lack.

use std::arch::global_asm;

use crate::memory::ERRNO;

/// From so many bytes on the processor's own copy is faster than a loop.
const STRING_BYTES_MIN: usize = 1 << 10;

/// An instruction of at most 8 bytes, which does not cross a bundle.
macro_rules! bundled {
    ($instruction:literal) => {
        concat!(".p2align 5, , 7\n", $instruction)
    };
}

/// The end of a routine: what the verifier demands of a return, in one bundle.
macro_rules! masked_return {
    () => {
        ".p2align 5, 0x90, 12
         .byte 0x44, 0x8b, 0x1c, 0x24
         .byte 0x41, 0x83, 0xe3, 0xe0
         .byte 0x4c, 0x89, 0x1c, 0x24
         ret"
    };
}

/// Room up to the next bundle, where a routine begins.
macro_rules! start {
    () => {
        ".p2align 5, 0xcc"
    };
}

global_asm!(
    ".pushsection .text.mfaas_window,\"ax\",@progbits",
    ".p2align 5",
    ".globl mfaas_window, mfaas_window_end, mfaas_window_copy, mfaas_window_fill, mfaas_window_compare
     .globl mfaas_window_length, mfaas_window_thread_local, mfaas_window_errno, mfaas_window_unavailable
     .globl mfaas_window_nothing, mfaas_window_no_memory, mfaas_window_key_create, mfaas_window_error_text
     .hidden mfaas_window, mfaas_window_end, mfaas_window_copy, mfaas_window_fill, mfaas_window_compare
     .hidden mfaas_window_length, mfaas_window_thread_local, mfaas_window_errno, mfaas_window_unavailable
     .hidden mfaas_window_nothing, mfaas_window_no_memory, mfaas_window_key_create, mfaas_window_error_text",
    "mfaas_window:",
    // `memmove`, and so `memcpy` too: `rdi` to, `rsi` from, `rdx` bytes; answers `rdi`.
    start!(),
    "mfaas_window_copy:",
    bundled!("mov rax, rdi"),
    bundled!("cmp rdx, 16"),
    bundled!("jb 20f"),
    bundled!("cmp rdx, 32"),
    bundled!("ja 30f"),
    bundled!("movups xmm0, [esi]"),
    bundled!("movups xmm1, [esi + edx - 16]"),
    bundled!("movups [edi], xmm0"),
    bundled!("movups [edi + edx - 16], xmm1"),
    masked_return!(),
    // 33 to 64: everything is read before anything is written.
    "30:",
    bundled!("cmp rdx, 64"),
    bundled!("ja 40f"),
    bundled!("movups xmm0, [esi]"),
    bundled!("movups xmm1, [esi + 16]"),
    bundled!("movups xmm2, [esi + edx - 32]"),
    bundled!("movups xmm3, [esi + edx - 16]"),
    bundled!("movups [edi], xmm0"),
    bundled!("movups [edi + 16], xmm1"),
    bundled!("movups [edi + edx - 32], xmm2"),
    bundled!("movups [edi + edx - 16], xmm3"),
    masked_return!(),
    "40:",
    bundled!("mov rcx, rdi"),
    bundled!("sub rcx, rsi"),
    bundled!("cmp rcx, rdx"),
    bundled!("jb 60f"),
    // Forwards. The last 64 bytes are read first: the loop may overwrite them.
    bundled!("cmp rdx, {string_bytes_min}"),
    bundled!("jb 45f"),
    bundled!("mov rcx, rsi"),
    bundled!("sub rcx, rdi"),
    bundled!("cmp rcx, rdx"),
    bundled!("jb 45f"),
    bundled!("mov rcx, rdx"),
    bundled!("rep movsb byte ptr [edi], byte ptr [esi]"),
    masked_return!(),
    "45:",
    bundled!("movups xmm4, [esi + edx - 64]"),
    bundled!("movups xmm5, [esi + edx - 48]"),
    bundled!("movups xmm6, [esi + edx - 32]"),
    bundled!("movups xmm7, [esi + edx - 16]"),
    bundled!("lea r8, [rdi + rdx - 64]"),
    "50:",
    bundled!("movups xmm0, [esi]"),
    bundled!("movups xmm1, [esi + 16]"),
    bundled!("movups xmm2, [esi + 32]"),
    bundled!("movups xmm3, [esi + 48]"),
    bundled!("movups [edi], xmm0"),
    bundled!("movups [edi + 16], xmm1"),
    bundled!("movups [edi + 32], xmm2"),
    bundled!("movups [edi + 48], xmm3"),
    bundled!("add rsi, 64"),
    bundled!("add rdi, 64"),
    bundled!("cmp rdi, r8"),
    bundled!("jb 50b"),
    bundled!("movups [r8d], xmm4"),
    bundled!("movups [r8d + 16], xmm5"),
    bundled!("movups [r8d + 32], xmm6"),
    bundled!("movups [r8d + 48], xmm7"),
    masked_return!(),
    // Backwards, with the first 64 bytes read first.
    "60:",
    bundled!("movups xmm4, [esi]"),
    bundled!("movups xmm5, [esi + 16]"),
    bundled!("movups xmm6, [esi + 32]"),
    bundled!("movups xmm7, [esi + 48]"),
    "65:",
    bundled!("movups xmm0, [esi + edx - 64]"),
    bundled!("movups xmm1, [esi + edx - 48]"),
    bundled!("movups xmm2, [esi + edx - 32]"),
    bundled!("movups xmm3, [esi + edx - 16]"),
    bundled!("movups [edi + edx - 64], xmm0"),
    bundled!("movups [edi + edx - 48], xmm1"),
    bundled!("movups [edi + edx - 32], xmm2"),
    bundled!("movups [edi + edx - 16], xmm3"),
    bundled!("sub rdx, 64"),
    bundled!("cmp rdx, 64"),
    bundled!("ja 65b"),
    bundled!("movups [edi], xmm4"),
    bundled!("movups [edi + 16], xmm5"),
    bundled!("movups [edi + 32], xmm6"),
    bundled!("movups [edi + 48], xmm7"),
    masked_return!(),
    // Below 16: two words that may overlap.
    "20:",
    bundled!("cmp rdx, 8"),
    bundled!("jb 22f"),
    bundled!("mov r8, [esi]"),
    bundled!("mov r9, [esi + edx - 8]"),
    bundled!("mov [edi], r8"),
    bundled!("mov [edi + edx - 8], r9"),
    masked_return!(),
    "22:",
    bundled!("cmp rdx, 4"),
    bundled!("jb 24f"),
    bundled!("mov r8d, [esi]"),
    bundled!("mov r9d, [esi + edx - 4]"),
    bundled!("mov [edi], r8d"),
    bundled!("mov [edi + edx - 4], r9d"),
    masked_return!(),
    "24:",
    bundled!("test rdx, rdx"),
    bundled!("je 26f"),
    bundled!("mov r9, rdx"),
    bundled!("shr r9, 1"),
    bundled!("movzx ecx, byte ptr [esi]"),
    bundled!("movzx r8d, byte ptr [esi + r9d]"),
    bundled!("movzx r10d, byte ptr [esi + edx - 1]"),
    bundled!("mov [edi], cl"),
    bundled!("mov [edi + r9d], r8b"),
    bundled!("mov [edi + edx - 1], r10b"),
    "26:",
    masked_return!(),
    // `memset`: `rdi` to, `sil` what, `rdx` bytes; answers `rdi`.
    start!(),
    "mfaas_window_fill:",
    bundled!("mov rax, rdi"),
    bundled!("movzx esi, sil"),
    ".p2align 5, , 9",
    "mov rcx, 0x0101010101010101",
    bundled!("imul rcx, rsi"),
    bundled!("cmp rdx, 16"),
    bundled!("jb 20f"),
    bundled!("movq xmm0, rcx"),
    bundled!("punpcklqdq xmm0, xmm0"),
    bundled!("cmp rdx, {string_bytes_min}"),
    bundled!("jae 50f"),
    bundled!("lea r8, [rdi + rdx - 16]"),
    "30:",
    bundled!("movups [edi], xmm0"),
    bundled!("add rdi, 16"),
    bundled!("cmp rdi, r8"),
    bundled!("jb 30b"),
    bundled!("movups [r8d], xmm0"),
    masked_return!(),
    "50:",
    bundled!("mov r8, rax"),
    bundled!("mov eax, esi"),
    bundled!("mov rcx, rdx"),
    bundled!("rep stosb byte ptr [edi], al"),
    bundled!("mov rax, r8"),
    masked_return!(),
    "20:",
    bundled!("cmp rdx, 8"),
    bundled!("jb 22f"),
    bundled!("mov [edi], rcx"),
    bundled!("mov [edi + edx - 8], rcx"),
    masked_return!(),
    "22:",
    bundled!("cmp rdx, 4"),
    bundled!("jb 24f"),
    bundled!("mov [edi], ecx"),
    bundled!("mov [edi + edx - 4], ecx"),
    masked_return!(),
    "24:",
    bundled!("test rdx, rdx"),
    bundled!("je 26f"),
    bundled!("mov r9, rdx"),
    bundled!("shr r9, 1"),
    bundled!("mov [edi], cl"),
    bundled!("mov [edi + r9d], cl"),
    bundled!("mov [edi + edx - 1], cl"),
    "26:",
    masked_return!(),
    // `memcmp`, and so `bcmp` too: `rdi` and `rsi`, `rdx` bytes; answers the difference of the first two
    // bytes that are not the same, or 0.
    start!(),
    "mfaas_window_compare:",
    bundled!("sub rdx, 16"),
    bundled!("jb 40f"),
    "30:",
    bundled!("movups xmm0, [edi]"),
    bundled!("movups xmm1, [esi]"),
    bundled!("pcmpeqb xmm0, xmm1"),
    bundled!("pmovmskb eax, xmm0"),
    bundled!("xor eax, 0xffff"),
    bundled!("jne 60f"),
    bundled!("add rdi, 16"),
    bundled!("add rsi, 16"),
    bundled!("sub rdx, 16"),
    bundled!("jae 30b"),
    // `rdx` is 16 less than what is left, which is less than 16.
    "40:",
    bundled!("add rdx, 16"),
    bundled!("cmp rdx, 8"),
    bundled!("jb 50f"),
    bundled!("mov rax, [edi]"),
    bundled!("mov rcx, [esi]"),
    bundled!("cmp rax, rcx"),
    bundled!("jne 70f"),
    bundled!("add rdi, 8"),
    bundled!("add rsi, 8"),
    bundled!("sub rdx, 8"),
    "50:",
    bundled!("xor eax, eax"),
    bundled!("test rdx, rdx"),
    bundled!("je 56f"),
    "52:",
    bundled!("movzx eax, byte ptr [edi]"),
    bundled!("movzx ecx, byte ptr [esi]"),
    bundled!("sub eax, ecx"),
    bundled!("jne 56f"),
    bundled!("inc rdi"),
    bundled!("inc rsi"),
    bundled!("dec rdx"),
    bundled!("jne 52b"),
    "56:",
    masked_return!(),
    "60:",
    bundled!("bsf ecx, eax"),
    bundled!("movzx eax, byte ptr [edi + ecx]"),
    bundled!("movzx ecx, byte ptr [esi + ecx]"),
    bundled!("sub eax, ecx"),
    masked_return!(),
    "70:",
    bundled!("bswap rax"),
    bundled!("bswap rcx"),
    bundled!("cmp rax, rcx"),
    bundled!("sbb eax, eax"),
    bundled!("or eax, 1"),
    masked_return!(),
    // `strlen`: `rdi`. Reads whole blocks of 16 bytes, which never cross a page.
    start!(),
    "mfaas_window_length:",
    bundled!("mov r8, rdi"),
    bundled!("and r8, -16"),
    bundled!("mov ecx, edi"),
    bundled!("and ecx, 15"),
    bundled!("pxor xmm0, xmm0"),
    bundled!("movdqa xmm1, [r8d]"),
    bundled!("pcmpeqb xmm1, xmm0"),
    bundled!("pmovmskb eax, xmm1"),
    bundled!("shr eax, cl"),
    bundled!("test eax, eax"),
    bundled!("je 30f"),
    bundled!("bsf eax, eax"),
    masked_return!(),
    "30:",
    bundled!("add r8, 16"),
    bundled!("movdqa xmm1, [r8d]"),
    bundled!("pcmpeqb xmm1, xmm0"),
    bundled!("pmovmskb eax, xmm1"),
    bundled!("test eax, eax"),
    bundled!("je 30b"),
    bundled!("bsf eax, eax"),
    bundled!("add rax, r8"),
    bundled!("sub rax, rdi"),
    masked_return!(),
    // `__tls_get_addr`: `rdi` at the address of the image's one block, which the loader wrote where a
    // module's number would stand, and an offset behind it.
    start!(),
    "mfaas_window_thread_local:",
    bundled!("mov rax, [edi]"),
    bundled!("add rax, [edi + 8]"),
    masked_return!(),
    // `__errno_location`.
    start!(),
    "mfaas_window_errno:",
    "mov eax, {errno}",
    masked_return!(),
    // Answers "not implemented", as system calls do.
    start!(),
    "mfaas_window_unavailable:",
    "mov eax, {errno}",
    "mov dword ptr [eax], {not_implemented}",
    "mov rax, -1",
    masked_return!(),
    // Does nothing, with success; has nothing to point at.
    start!(),
    "mfaas_window_nothing:",
    "xor eax, eax",
    masked_return!(),
    // Says by its number that there is no memory.
    start!(),
    "mfaas_window_no_memory:",
    "mov eax, {no_memory}",
    masked_return!(),
    // `pthread_key_create`: std takes 0 for "not made yet", so every key is 1; what is stored under it is
    // never read.
    start!(),
    "mfaas_window_key_create:",
    "mov dword ptr [edi], 1",
    "xor eax, eax",
    masked_return!(),
    // `strerror_r`: an empty text for every number.
    start!(),
    "mfaas_window_error_text:",
    "xor eax, eax",
    "test rdx, rdx",
    "je 20f",
    bundled!("mov byte ptr [esi], 0"),
    "20:",
    masked_return!(),
    start!(),
    "mfaas_window_end:",
    ".popsection",
    string_bytes_min = const STRING_BYTES_MIN,
    errno = const ERRNO,
    not_implemented = const libc::ENOSYS,
    no_memory = const libc::ENOMEM,
);

/// Names of the routines for Rust, and which symbols each is bound to.
macro_rules! routines {
    ($($routine:ident: $($symbol:literal)+;)+) => {
        unsafe extern "C" {
            static mfaas_window: u8;
            static mfaas_window_end: u8;
            $(static $routine: u8;)+
        }

        /// Where the routine behind an import begins, in bytes from the library's first; `None` for what
        /// is not in it.
        pub(crate) fn offset_of(symbol: &str) -> Option<usize> {
            let routine = match symbol {
                $($($symbol)|+ => &raw const $routine,)+
                _ => return None,
            };
            Some(routine.addr() - (&raw const mfaas_window).addr())
        }
    };
}

routines! {
    mfaas_window_copy: "memcpy" "memmove";
    mfaas_window_fill: "memset";
    mfaas_window_compare: "memcmp" "bcmp";
    mfaas_window_length: "strlen";
    mfaas_window_thread_local: "__tls_get_addr";
    mfaas_window_errno: "__errno_location";
    mfaas_window_unavailable: "open64" "read" "close" "poll" "syscall";
    mfaas_window_nothing: "malloc" "calloc" "realloc" "free" "__cxa_thread_atexit_impl" "__cxa_finalize"
        "pthread_key_delete" "pthread_setspecific" "sched_yield";
    mfaas_window_no_memory: "posix_memalign";
    mfaas_window_key_create: "pthread_key_create";
    mfaas_window_error_text: "__xpg_strerror_r";
}

/// The library's instructions.
pub(crate) fn code() -> &'static [u8] {
    let (start, end) = (&raw const mfaas_window, &raw const mfaas_window_end);
    // SAFETY: INV-EXECUTOR-16. The bytes between the two labels of one section, which nobody writes.
    unsafe { std::slice::from_raw_parts(start, end.addr() - start.addr()) }
}

/// The same without the masks of returns: images that were not verified return to any address, in the
/// window too.
pub(crate) fn without_masks() -> Vec<u8> {
    /// `and r11d, -32`, and with -1.
    const MASK: [u8; 4] = [0x41, 0x83, 0xe3, 0xe0];
    const NONE: [u8; 4] = [0x41, 0x83, 0xe3, 0xff];
    let mut code = code().to_vec();
    let starts: Vec<usize> =
        code.windows(MASK.len()).enumerate().filter(|(_, bytes)| *bytes == MASK).map(|(at, _)| at).collect();
    for at in starts {
        code[at..at + NONE.len()].copy_from_slice(&NONE);
    }
    code
}
