//! Registers that no compiler of a safe language changes for long: made dirty, and read as the first thing.

use core::arch::asm;

use super::{Span, mfaas_host_panic};

/// Leaves something in every register of a kind. `scratch` is memory of the function's own.
#[inline(always)]
pub(super) unsafe fn make_dirty(kind: u8, scratch: *mut u8) {
    unsafe {
        match kind {
            b'k' => asm!(
                "mov eax, -1",
                "kmovw k0, eax", "kmovw k1, eax", "kmovw k2, eax", "kmovw k3, eax",
                "kmovw k4, eax", "kmovw k5, eax", "kmovw k6, eax", "kmovw k7, eax",
                out("eax") _,
            ),
            // All of the stack and one too many: exceptions and conditions in the status word.
            b'f' => asm!("fldpi", "fldpi", "fldpi", "fldpi", "fldpi", "fldpi", "fldpi", "fldpi", "fldl2e", "fld qword ptr [{}]", in(reg) scratch),
            // A register that is left empty keeps what it held.
            b'e' => asm!("fldpi", "fldpi", "fldpi", "fldpi", "fldpi", "fldpi", "fldpi", "fldpi", "emms"),
            b'c' => asm!("fldpi", "fldz", "fdivp st(1), st", "ftst", "fstp st(0)"),
            // Every exception unmasked, and one pending.
            b'u' => {
                *scratch.cast::<u16>() = 0x0040;
                asm!("fldz", "fld1", "fldcw [{}]", "fdiv st, st(1)", in(reg) scratch)
            }
            b'w' => {
                *scratch.cast::<u16>() = 0x027f;
                asm!("fldcw [{}]", in(reg) scratch)
            }
            b'm' => asm!(
                "mov eax, 0x5a5a5a5a",
                "movd mm0, eax", "movd mm1, eax", "movd mm2, eax", "movd mm3, eax",
                "movd mm4, eax", "movd mm5, eax", "movd mm6, eax", "movd mm7, eax",
                out("eax") _,
            ),
            // Rounding, flushing, and every flag of an exception.
            b'x' => {
                *scratch.cast::<u32>() = 0xffff;
                asm!("ldmxcsr [{}]", in(reg) scratch)
            }
            b'd' => asm!("std"),
            // Nested task, alignment check, identification.
            b'n' => asm!("push 0x244000", "popfq"),
            b'F' => asm!("wrfsbase {}", in(reg) scratch),
            b'0' => asm!("wrfsbase {}", in(reg) 0usize),
            b'G' => asm!("wrgsbase {}", in(reg) scratch),
            // Null with privileges of their own, and the user's data segment.
            b's' => asm!("mov eax, 3", "mov ds, eax", "mov es, eax", "mov gs, eax", "mov eax, 0x2b", "mov fs, eax", out("eax") _),
            _ => {}
        }
    }
}

/// Ends the call in a way.
#[inline(always)]
pub(super) unsafe fn end(way: u8) {
    unsafe {
        match way {
            b'u' => asm!("ud2"),
            b'l' => asm!("2:", "pause", "jmp 2b"),
            b'p' => mfaas_host_panic(b"so".as_ptr(), 2),
            b's' => asm!("syscall", inout("rax") 39isize => _, out("rcx") _, out("r11") _),
            _ => {}
        }
    }
}

/// Writes what the registers of a kind hold; so many bytes.
#[inline(always)]
pub(super) unsafe fn report(kind: u8, into: *mut u8) -> usize {
    unsafe {
        match kind {
            b'k' => {
                asm!(
                    "kmovw eax, k0", "mov [{0}], eax", "kmovw eax, k1", "mov [{0} + 4], eax",
                    "kmovw eax, k2", "mov [{0} + 8], eax", "kmovw eax, k3", "mov [{0} + 12], eax",
                    "kmovw eax, k4", "mov [{0} + 16], eax", "kmovw eax, k5", "mov [{0} + 20], eax",
                    "kmovw eax, k6", "mov [{0} + 24], eax", "kmovw eax, k7", "mov [{0} + 28], eax",
                    in(reg) into, out("eax") _,
                );
                32
            }
            // Control, status, tags, where it was last; then the registers.
            _ => {
                asm!("fnsave [{}]", in(reg) into);
                108
            }
        }
    }
}

/// What stands behind the letter: a kind of register, and a way to end.
#[inline(always)]
pub(super) unsafe fn kind_and_way(request: Span) -> (u8, u8) {
    unsafe { (*request.start.add(1), *request.start.add(2)) }
}
