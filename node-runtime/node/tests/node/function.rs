//! The function of the tests: does what the body says. Compiled by `artifact.rs`, not by cargo.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use mfaas_abi::frame::{RequestFrame, encode_headers};
use mfaas_abi::ContentType;
use mfaas_shim::Reply;

/// What makes an image large in a window, and takes no memory.
static ROOM: [AtomicU8; ROOM_HERE] = [const { AtomicU8::new(0) }; ROOM_HERE];

static CALLS: AtomicU32 = AtomicU32::new(0);

/// What nobody but its own tenant's worker may hold. It stands in the image once, in one piece.
static CANARY: &str = "the canary of version VERSION_HERE sings in the workers of its own tenant and nowhere else";

#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(call: *mut mfaas_shim::Call) -> u32 {
    mfaas_shim::enter(call, handle)
}

fn handle(request: &RequestFrame<'_>) -> Reply {
    let text = match request.body {
        b"panic" => panic!("on purpose"),
        b"spin" => spin(),
        b"work" => work(),
        b"deep" => format!("{}", deep(1)),
        b"hoard" => hoard(),
        b"log" => {
            println!("a line");
            "logged".to_owned()
        }
        b"room" => format!("{}", ROOM[request.body.len() % ROOM.len()].fetch_add(1, Ordering::Relaxed)),
        b"grasp" => grasp(),
        b"canary" => CANARY.to_owned(),
        b"count" => format!("call {}", CALLS.fetch_add(1, Ordering::Relaxed) + 1),
        b"long" => return Reply::of(vec![7; 2 << 20]),
        b"leave" => leave(),
        b"look" => look(),
        body if body.starts_with(b"crunch") => crunch(body),
        body if body.starts_with(b"echo") => return Reply::of(body.to_vec()),
        b"headers" => request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect(),
        _ => "version VERSION_HERE".to_owned(),
    };
    let mut headers = Vec::new();
    let header_count = encode_headers(&mut headers, [("set-cookie", "stolen=1")]).expect("a plain header");
    Reply { content_type: ContentType::Text, headers, header_count, ..Reply::of(text.into_bytes()) }
}

/// Takes memory that is no function's, as far as the window has some behind its own.
fn grasp() -> String {
    let start = (&raw const ROOM).addr();
    for at in (start..start + (500 << 20)).step_by(4_096) {
        // SAFETY: none. It stands for code that got past the compiler.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(1) };
    }
    "grasped".to_owned()
}

/// Memory of which bulk functions may have so much, in bytes.
const MUCH: usize = 500 << 20;

/// Reads all that it was sent, fills as much memory as it may have, and computes for a while.
fn crunch(body: &[u8]) -> String {
    let mut memory: Vec<u64> = (0..MUCH as u64 / 8).collect();
    for (at, word) in memory.iter_mut().enumerate() {
        *word = word.wrapping_mul(u64::from(body[at % body.len()]));
    }
    let sum = memory.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
    work();
    format!("{} {sum}", body.len())
}

/// Leaves the same byte everywhere.
fn leave() -> String {
    let memory = std::hint::black_box(vec![0xaa_u8; MUCH]);
    format!("left {}", memory[MUCH / 2])
}

/// How many bytes of memory that nobody wrote in this call are not zeros.
fn look() -> String {
    let mut memory = Vec::<u8>::with_capacity(MUCH);
    // SAFETY: none. It stands for code that got past the compiler, and reads what was there.
    let held = unsafe { std::slice::from_raw_parts(std::hint::black_box(memory.as_mut_ptr()), MUCH) };
    format!("found {}", held.iter().filter(|byte| **byte != 0).count())
}

fn spin() -> ! {
    loop {
        std::hint::black_box(());
    }
}

/// A good part of a second, and not much more than one: longer than a test needs to end the worker.
fn work() -> String {
    (0..3_000_000_000_u64).for_each(|step| drop(std::hint::black_box(step)));
    "worked".to_owned()
}

fn deep(level: u64) -> u64 {
    let ballast = std::hint::black_box([level; 64]);
    if std::hint::black_box(level) == 0 { 0 } else { deep(level + 1) + ballast[7] }
}

fn hoard() -> ! {
    let mut kept = Vec::new();
    loop {
        kept.push(std::hint::black_box(vec![1_u8; 1 << 16]));
    }
}
