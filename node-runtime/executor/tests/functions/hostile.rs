//! A function that the compiler's rules did not stop: native code that lies and breaks things. It
//! stands for a hole in the compiler, in a library or in our filters.
#![no_std]

mod record;
mod registers;

use core::arch::asm;

use record::{Call, Response, Span};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

unsafe extern "C" {
    fn mfaas_host_log(level: u32, text: *const u8, bytes: usize);
    fn mfaas_host_random(into: *mut u8, bytes: usize);
    fn mfaas_host_panic(text: *const u8, bytes: usize) -> !;
}

/// Where the answer stands in the arena: behind its header, and inside of the smallest.
const ANSWER_AT: usize = 512;

/// The address behind the letter, by its number.
unsafe fn address(call: &Call, number: usize) -> usize {
    unsafe { (call.request.body.start.add(1 + number * 8) as *const usize).read_unaligned() }
}

/// Responses that are none, and one with a type of content by its number.
#[inline(always)]
unsafe fn lie(call: &mut Call, what: u8) {
    let (arena, arena_bytes) = (call.arena, call.arena_bytes);
    let response = &mut call.response;
    match what {
        b'a' => response.body.start = 8 as *const u8,
        b'b' => response.body.start = arena.wrapping_sub(1),
        b'c' => response.body.bytes = usize::MAX,
        b'd' => response.body.bytes = arena_bytes,
        b'e' => response.http_status = 9,
        b'D' => response.http_status = 200 + (1 << 16),
        b'E' => response.content_type = 5,
        b'F' => response.header_count = 1,
        b'G' => response.header_count = (1 << 16) + 1,
        b'H' => response.headers.bytes = 1,
        b'I' => response.headers = Span { start: 8 as *const u8, bytes: 8 },
        b'J' => response.content_type = 2,
        _ => {}
    }
}

/// Whether another call left anything on the stack or in the arena.
#[inline(always)]
unsafe fn anything_left(call: &Call) -> bool {
    unsafe {
        let here: usize;
        asm!("mov {}, rsp", out(reg) here);
        let mut any = 0;
        // Downwards, page by page, as a stack grows: less of it than there is, so the call
        // comes again with more until there is enough.
        for depth in 1_024..400 << 10 {
            any |= ((here - depth) as *const u8).read_volatile();
        }
        let behind = ANSWER_AT + 16;
        let arena = core::slice::from_raw_parts(call.arena.add(behind), call.arena_bytes - behind);
        arena.iter().fold(any, |any, byte| any | byte) != 0
    }
}

/// Whether any of the registers for vectors holds anything. To be asked before the compiler uses one.
#[inline(always)]
unsafe fn vectors_hold() -> bool {
    unsafe {
        let (low, high): (u64, u64);
        asm!(
            "por xmm0, xmm1", "por xmm2, xmm3", "por xmm4, xmm5", "por xmm6, xmm7", "por xmm8, xmm9",
            "por xmm10, xmm11", "por xmm12, xmm13", "por xmm14, xmm15",
            "por xmm0, xmm2", "por xmm4, xmm6", "por xmm8, xmm10", "por xmm12, xmm14",
            "por xmm0, xmm4", "por xmm8, xmm12", "por xmm0, xmm8",
            "movq {low}, xmm0", "movhlps xmm0, xmm0", "movq {high}, xmm0",
            low = out(reg) low, high = out(reg) high,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
            out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
        low | high != 0
    }
}

/// Into the middle of the host: to an address, with a value in `eax`; and if it comes back, a look at
/// another address.
#[inline(always)]
unsafe fn jump(call: &Call) -> u8 {
    unsafe {
        asm!(
            "call r15",
            inout("rax") address(call, 1) => _,
            inout("rcx") 0usize => _,
            inout("rdx") 0usize => _,
            inout("rdi") 0usize => _,
            inout("rsi") 0usize => _,
            inout("r15") address(call, 0) => _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _,
        );
        *(address(call, 2) as *const u8)
    }
}

/// One system call by the way and with the words that the request names; what it gave.
#[inline(always)]
unsafe fn system_call(request: Span) -> u64 {
    unsafe {
        let way = *request.start.add(1);
        let word = |index: usize| request.start.add(2 + 8 * index).cast::<u64>().read_unaligned();
        let mut result: u64;
        match way {
            b'n' => asm!("syscall", inout("rax") word(0) => result, in("rdi") word(1), in("rsi") word(2), in("rdx") word(3), in("r10") word(4), in("r8") word(5), in("r9") word(6), out("rcx") _, out("r11") _),
            _ => asm!("mov {kept}, rbx", "mov ebx, {first:e}", "int 0x80", "mov rbx, {kept}", kept = out(reg) _, first = in(reg) word(1), inout("rax") word(0) => result),
        }
        result
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *mut Call) -> u32 {
    unsafe {
        let vectors_hold = vectors_hold();
        let call = &mut *call;
        let request = call.request.body;
        let what = *request.start;
        let answer = call.arena.add(ANSWER_AT);
        *answer = b'!';
        call.response = Response::of(Span { start: answer, bytes: 1 });
        lie(call, what);
        match what {
            b'f' => return 7_777,
            b'g' => return 2,
            b'h' => *(16 as *mut u8) = 1,
            b'i' => asm!("ud2"),
            b'j' => asm!("int3"),
            b'k' => asm!("std"),
            b'l' => asm!("push 0x40100", "popfq"),
            b'm' => {
                let control: u32 = 0;
                asm!("ldmxcsr [{}]", in(reg) &control)
            }
            b'n' => asm!("xor edx, edx", "div edx", inout("eax") 1 => _, out("edx") _),
            b'o' => mfaas_host_log(1, 4_096 as *const u8, 100),
            b'p' => mfaas_host_random(4_096 as *mut u8, 100),
            b'q' => asm!("mov rsp, {}", "xor ebx, ebx", "xor ebp, ebp", "ret", in(reg) call.arena.add(call.arena_bytes - 64)),
            // A stack that no address leads to.
            b'L' => asm!("mov rsp, {}", "ret", in(reg) 1u64 << 63),
            b'r' => *answer = b'0' + u8::from(anything_left(call)),
            b'K' => *answer = b'0' + u8::from(vectors_hold),
            b's' => {
                let result: isize;
                asm!("syscall", inout("rax") 39isize => result, out("rcx") _, out("r11") _);
                *answer = b'0' + u8::from(result > 0);
            }
            // Addresses come behind the letter: what is read, written, handed to the host or jumped to.
            b'w' => *answer = *(address(call, 0) as *const u8),
            b'x' => *(address(call, 0) as *mut u8) = b'x',
            b'X' => mfaas_host_random(address(call, 0) as *mut u8, address(call, 1)),
            b'Y' => core::ptr::write_bytes(address(call, 0) as *mut u8, b'Y', address(call, 1)),
            b'y' => mfaas_host_log(1, address(call, 0) as *const u8, 8),
            b'z' => mfaas_host_random(address(call, 0) as *mut u8, 8),
            // Random bytes where the service keeps its way back.
            b'C' => {
                let here: usize;
                asm!("mov {}, rsp", out(reg) here);
                mfaas_host_random((here - address(call, 0)) as *mut u8, 1);
            }
            b'A' => *answer = jump(call),
            // Into the middle of the host with a stack of its choice, and no way back.
            b'B' => asm!(
                "mov rsp, r14",
                "jmp r15",
                in("rax") address(call, 1),
                in("rcx") 0usize,
                in("rdx") 0usize,
                in("r14") address(call, 2),
                in("r15") address(call, 0),
                options(noreturn),
            ),
            b'S' => {
                call.response.body.bytes = 8;
                answer.cast::<u64>().write_unaligned(system_call(request));
            }
            b'Z' => {
                // Zeros behind the request, or what another call's request left there.
                let behind = core::slice::from_raw_parts(request.start.add(request.bytes), 4_096);
                let any = behind.iter().fold(0, |any, byte| any | byte);
                *answer = b'0' + u8::from(any != 0);
            }
            b'Q' => call.response.body.bytes = registers::report(registers::kind_and_way(request).0, answer),
            b'R' => {
                let (kind, way) = registers::kind_and_way(request);
                registers::make_dirty(kind, answer.add(64));
                registers::end(way);
            }
            b't' => *(call.arena as *mut usize) = usize::MAX,
            b'u' => asm!("fninit", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1"),
            b'v' => asm!("xor ebx, ebx", "xor r12d, r12d", "xor r13d, r13d", "xor r14d, r14d", "xor r15d, r15d", "ud2", options(noreturn)),
            _ => {}
        }
        0
    }
}
