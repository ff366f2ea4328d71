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
