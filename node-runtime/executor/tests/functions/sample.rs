//! A function with something of everything that compiled code consists of, as small as that goes: what
//! mutants are made of.
#![no_std]

use core::sync::atomic::{AtomicU64, Ordering};

/// Where `mfaas_abi::Call` has the start of the request's body, in bytes.
const BODY: usize = 80;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe { mfaas_host_panic(b"no".as_ptr(), 2) }
}

unsafe extern "C" {
    fn mfaas_host_now() -> u64;
    fn mfaas_host_log(level: u32, text: *const u8, bytes: usize);
    fn mfaas_host_panic(text: *const u8, bytes: usize) -> !;
}

trait Step {
    fn step(&self, value: u64) -> u64;
}
struct Add(u64);
struct Multiply(u64);
impl Step for Add {
    fn step(&self, value: u64) -> u64 {
        value.wrapping_add(self.0)
    }
}
impl Step for Multiply {
    fn step(&self, value: u64) -> u64 {
        value.wrapping_mul(self.0)
    }
}

static COUNT: AtomicU64 = AtomicU64::new(5);
static mut HOOK: fn(u64) -> u64 = one;
static mut WORDS: [u64; 32] = [3; 32];
static TABLE: [fn(u64) -> u64; 3] = [one, two, three];

#[inline(never)]
fn one(value: u64) -> u64 {
    value ^ 1
}
#[inline(never)]
fn two(value: u64) -> u64 {
    value << 2
}
#[inline(never)]
fn three(value: u64) -> u64 {
    let value = value % 8;
    if value < 2 { value } else { three(value - 1) ^ three(value - 2) }
}

#[inline(never)]
fn switch(value: u64) -> u64 {
    match value % 9 {
        0 => one(value),
        1 => value * 7,
        2 => value / 3,
        3 => two(value),
        4 => value - 9,
        5 => value.rotate_left(9),
        6 => value.count_ones().into(),
        7 => three(value % 5),
        _ => !value,
    }
}

/// A large frame, copies, fills and a comparison.
#[inline(never)]
fn copies(data: &mut [u8; 96], value: u64) -> u64 {
    let mut large = [value as u8; 6_000];
    for (at, byte) in data.iter_mut().enumerate() {
        large[(at * 31) % 6_000] = *byte;
        *byte = large[(at * 17) % 6_000];
    }
    large.copy_within(100..900, 200);
    u64::from(large[..64] == large[64..128]) + u64::from(large[300])
}

/// Vectors of the processor, by the compiler's own choice.
#[inline(never)]
fn vectors(words: &mut [u64; 32], floats: f64) -> f64 {
    let mut sum = floats;
    for word in words.iter_mut() {
        *word = (*word ^ 0x55).wrapping_add(*word >> 3);
        sum += *word as f64 * 0.5;
    }
    sum.max(1.5) / 3.25
}

/// # Safety
/// There is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *mut u8) -> u32 {
    unsafe {
        let body = call.add(BODY).cast::<*mut u8>().read();
        let value = body.cast::<u64>().read_unaligned();
        let steps: [&dyn Step; 2] = [&Add(value), &Multiply(value | 1)];
        let data = &mut *body.add(8).cast::<[u8; 96]>();
        let mut sum = switch(value) ^ copies(data, value);
        for (at, byte) in data.iter_mut().enumerate().take(12) {
            *byte ^= steps[at % 2].step(value) as u8;
        }
        sum ^= TABLE[(value % 3) as usize](sum);
        HOOK = if value > 9 { two } else { three };
        sum ^= (*(&raw const HOOK))(value);
        sum ^= COUNT.fetch_add(value, Ordering::SeqCst);
        let _ = COUNT.compare_exchange(sum, value, Ordering::AcqRel, Ordering::Relaxed);
        sum ^= mfaas_host_now();
        mfaas_host_log(2, data.as_ptr(), 12);
        sum ^= vectors(&mut *(&raw mut WORDS), value as f64).to_bits();
        if sum == value {
            mfaas_host_panic(body, 3);
        }
        sum as u32
    }
}
