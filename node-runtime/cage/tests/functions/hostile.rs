//! A function that the compiler's rules did not stop: native code that lies and breaks things. It
//! stands for a hole in the compiler, in a library or in our filters.
#![no_std]

use core::arch::asm;

/// The layout of `mfaas_abi::Call`.
#[repr(C)]
pub struct Call {
    version: u32,
    flags: u32,
    request: *const u8,
    request_bytes: usize,
    arena: *mut u8,
    arena_bytes: usize,
    response: *const u8,
    response_bytes: usize,
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

unsafe extern "C" {
    fn mfaas_host_log(level: u32, text: *const u8, bytes: usize);
    fn mfaas_host_random(into: *mut u8, bytes: usize);
}

/// Where the body of a request frame with method `POST` and path `/` begins.
const BODY_AT: usize = 1 + 2 + 4 + 2 + 1 + 2 + 4;

const OK_FRAME: [u8; 10] = [2, 200, 0, 0, 0, 1, 0, 0, 0, b'!'];

/// The address behind the letter, by its number.
unsafe fn address(call: &Call, number: usize) -> usize {
    unsafe { (call.request.add(BODY_AT + 1 + number * 8) as *const usize).read_unaligned() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *mut Call) -> u32 {
    unsafe {
        let call = &mut *call;
        let what = *call.request.add(BODY_AT);
        let frame = call.arena.add(2_048);
        for (index, byte) in OK_FRAME.iter().enumerate() {
            *frame.add(index) = *byte;
        }
        call.response = frame;
        call.response_bytes = OK_FRAME.len();
        match what {
            b'a' => call.response = 8 as *const u8,
            b'b' => call.response = call.arena.wrapping_sub(1),
            b'c' => call.response_bytes = usize::MAX,
            b'd' => call.response_bytes = call.arena_bytes,
            b'e' => *frame = 9,
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
            b'r' => {
                // Zeros on a fresh stack and in the whole arena, or what another call left.
                let here: usize;
                asm!("mov {}, rsp", out(reg) here);
                let mut any = 0;
                // Downwards, page by page, as a stack grows: less of it than there is, so the call
                // comes again with more until there is enough.
                for depth in 1_024..400 << 10 {
                    any |= ((here - depth) as *const u8).read_volatile();
                }
                let arena = core::slice::from_raw_parts(call.arena.add(2_064), call.arena_bytes - 2_064);
                let any = arena.iter().fold(any, |any, byte| any | byte);
                *frame.add(9) = b'0' + u8::from(any != 0);
            }
            b's' => {
                let result: isize;
                asm!("syscall", inout("rax") 39isize => result, out("rcx") _, out("r11") _);
                *frame.add(9) = b'0' + u8::from(result > 0);
            }
            // Addresses come behind the letter: what is read, written, handed to the host or jumped to.
            b'w' => *frame.add(9) = *(address(call, 0) as *const u8),
            b'x' => *(address(call, 0) as *mut u8) = b'x',
            b'y' => mfaas_host_log(1, address(call, 0) as *const u8, 8),
            b'z' => mfaas_host_random(address(call, 0) as *mut u8, 8),
            // Random bytes where the service keeps its way back.
            b'C' => {
                let here: usize;
                asm!("mov {}, rsp", out(reg) here);
                mfaas_host_random((here - address(call, 0)) as *mut u8, 1);
            }
            // Into the middle of the host: to an address, with a value in `eax`; and if it comes back,
            // a look at another address.
            b'A' => {
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
                *frame.add(9) = *(address(call, 2) as *const u8);
            }
            // The same with a stack of its choice, and no way back.
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
                // One system call by the way and with the words that the request names; answers what it gave.
                let way = *call.request.add(BODY_AT + 1);
                let word = |index: usize| call.request.add(BODY_AT + 2 + 8 * index).cast::<u64>().read_unaligned();
                let mut result: u64;
                match way {
                    b'n' => asm!("syscall", inout("rax") word(0) => result, in("rdi") word(1), in("rsi") word(2), in("rdx") word(3), in("r10") word(4), in("r8") word(5), in("r9") word(6), out("rcx") _, out("r11") _),
                    _ => asm!("mov {kept}, rbx", "mov ebx, {first:e}", "int 0x80", "mov rbx, {kept}", kept = out(reg) _, first = in(reg) word(1), inout("rax") word(0) => result),
                }
                call.response_bytes = 17;
                *frame.add(5) = 8;
                frame.add(9).cast::<u64>().write_unaligned(result);
            }
            b'Z' => {
                // Zeros behind the request, or what another call's request left there.
                let behind = core::slice::from_raw_parts(call.request.add(call.request_bytes), 4_096);
                let any = behind.iter().fold(0, |any, byte| any | byte);
                *frame.add(9) = b'0' + u8::from(any != 0);
            }
            b't' => *(call.arena as *mut usize) = usize::MAX,
            b'u' => asm!("fninit", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1"),
            b'v' => asm!("xor ebx, ebx", "xor r12d, r12d", "xor r13d, r13d", "xor r14d, r14d", "xor r15d, r15d", "ud2", options(noreturn)),
            _ => {}
        }
        0
    }
}
