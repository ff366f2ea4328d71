//! A source that has something of everything, and the linker of the toolchain.

use std::path::PathBuf;
use std::process::Command;

/// A switch, a table of functions, a trait object, recursion, a copy, a large frame, floats, a symbol of the host.
pub(crate) const SOURCE: &str = r#"
#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }

unsafe extern "C" { fn host(value: u64) -> u64; }

trait Step { fn step(&self, value: u64) -> u64; }
struct Add(u64);
struct Multiply(u64);
impl Step for Add { fn step(&self, value: u64) -> u64 { value.wrapping_add(self.0) } }
impl Step for Multiply { fn step(&self, value: u64) -> u64 { value.wrapping_mul(self.0) } }

static mut HOOK: fn(u64) -> u64 = one;
static TABLE: [fn(u64) -> u64; 3] = [one, two, three];
#[inline(never)] fn one(value: u64) -> u64 { value ^ 1 }
#[inline(never)] fn two(value: u64) -> u64 { value << 2 }
#[inline(never)] fn three(value: u64) -> u64 { let value = value % 16; if value < 2 { value } else { three(value - 1) ^ three(value - 2) } }

#[inline(never)]
fn switch(value: u64) -> u64 {
    match value % 9 {
        0 => one(value), 1 => value * 7, 2 => value / 3, 3 => two(value), 4 => value - 9, 5 => value.rotate_left(9),
        6 => value.count_ones().into(), 7 => three(value % 5), _ => !value,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(data: &mut [u8; 4096], value: u64) -> u64 {
    let steps: [&dyn Step; 2] = [&Add(value), &Multiply(value | 1)];
    let mut large = [0_u8; 20_000];
    for (at, byte) in data.iter_mut().enumerate() {
        large[(at * 31) % 20_000] = *byte;
        *byte = large[(at * 17) % 20_000] ^ steps[at % 2].step(value) as u8;
    }
    let root = (value as f64 / 3.5).to_bits();
    let called = TABLE[(value % 3) as usize](switch(value));
    unsafe { HOOK = if value > 9 { two } else { three } };
    called ^ root ^ unsafe { host(called) } ^ unsafe { HOOK(value) }
}
"#;

fn sysroot() -> PathBuf {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

pub(crate) fn linker() -> PathBuf {
    sysroot().join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld")
}
