//! What the host has in the registers that it relies on, and which kinds there are.

use std::arch::asm;

use mfaas_abi::Status;

/// Ways in which the hostile function ends once it has made registers dirty: return, fault, kill, panic.
pub(crate) const WAYS: &[u8] = b"rulp";

/// What `fnsave` writes, and where in it stands which instruction and operand were the last.
pub(crate) const X87_BYTES: usize = 108;
const LAST: std::ops::Range<usize> = 12..24;
/// No test program is larger.
const PROGRAM_BYTES_MAX: u32 = 64 << 20;

/// What the host has in the registers that it relies on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    flags: u64,
    bases: Option<[u64; 2]>,
    selectors: [u32; 4],
    /// MXCSR without the flags of exceptions, which benign work raises too.
    vector_control: u32,
    /// Control, status and tags of the x87 unit, where it was last, and its registers.
    x87: [u8; X87_BYTES],
}

impl Hosts {
    pub(crate) fn now() -> Self {
        let (flags, mut selectors, mut vector_control, mut x87) = (flags(), [0; 4], 0u32, [0; X87_BYTES]);
        // SAFETY: reads selectors.
        unsafe {
            asm!("mov {0:e}, ds", "mov {1:e}, es", "mov {2:e}, fs", "mov {3:e}, gs", out(reg) selectors[0], out(reg) selectors[1], out(reg) selectors[2], out(reg) selectors[3])
        }
        // SAFETY: writes to a live local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut vector_control) }
        // SAFETY: writes to a live local, and puts back what it has reset.
        unsafe { asm!("fnsave [{0}]", "frstor [{0}]", in(reg) x87.as_mut_ptr()) }
        forget_idle(&mut x87);
        Self { flags, bases: has_bases().then(bases), selectors, vector_control: vector_control & !0x3f, x87 }
    }
}

/// Where the x87 unit was last is lost when the kernel runs something else meanwhile, if nothing else is in the
/// unit: then nothing is compared either. It is the landing's place, or none.
pub(crate) fn forget_idle(x87: &mut [u8]) {
    let last = &mut x87[LAST];
    assert!(last[..4] == [0; 4] || in_host(last), "the unit was last in a function: {last:?}");
    last.fill(0);
}

/// Whether the lower halves of both addresses, of an instruction and of what it read, are this program's.
fn in_host(last: &[u8]) -> bool {
    let here = in_host as *const () as usize as u32;
    let near = |at: usize| {
        let address = u32::from_le_bytes([last[at], last[at + 1], last[at + 2], last[at + 3]]);
        here.wrapping_sub(address).min(address.wrapping_sub(here)) < PROGRAM_BYTES_MAX
    };
    near(0) && near(8)
}

/// Direction, nested task, alignment check, identification.
fn flags() -> u64 {
    let flags: u64;
    // SAFETY: reads flags by the stack.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags) }
    flags & 0x24_4400
}

fn has_bases() -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & 2 != 0 }
}

fn bases() -> [u64; 2] {
    let (fs, gs);
    // SAFETY: the caller has asked whether there are these instructions.
    unsafe { asm!("rdfsbase {}", "rdgsbase {}", out(reg) fs, out(reg) gs) };
    [fs, gs]
}

/// Every kind of register that this processor has.
pub(crate) fn kinds() -> impl Iterator<Item = u8> {
    let masks = std::arch::is_x86_feature_detected!("avx512f");
    b"fecuwmxdnskF0G".iter().copied().filter(move |kind| match kind {
        b'k' => masks,
        b'F' | b'0' | b'G' => has_bases(),
        _ => true,
    })
}

/// An exception that is pending or an alignment check may end the call earlier.
pub(crate) fn is_expected(way: u8, status: Status) -> bool {
    let wanted = match way {
        b'r' => Status::Ok,
        b'l' => Status::OverBudget,
        b'p' => Status::Panicked,
        _ => Status::Fault,
    };
    status == wanted || status == Status::Fault
}
