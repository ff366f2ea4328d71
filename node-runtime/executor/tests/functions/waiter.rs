//! A function that waits, without the shim: what it has in its arena and its data is there when it goes on, or it
//! says so.
#![no_std]

mod record;

use record::{Call, Response, Span};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

unsafe extern "C" {
    fn mfaas_host_panic(text: *const u8, bytes: usize) -> !;
    fn mfaas_host_oom(bytes: usize) -> !;
    fn mfaas_host_now() -> u64;
}

/// `mfaas_abi::WAITS` and `mfaas_abi::FLAG_RESUMED`.
const WAITS: u32 = 0x100;
const RESUMED: u32 = 1;
/// Where operations and answers stand in the arena, and where what the function remembers begins.
const ANSWER_AT: usize = 512;
const BLOCK_AT: usize = 1_024;
const TEXT_BYTES_MAX: usize = 16;
/// What `g` needs when it goes on.
const GROWN_BYTES: usize = 1 << 20;

/// What the function knows between its runs.
struct State {
    kind: u8,
    rounds: u8,
    block: *mut u8,
    bytes: usize,
    heard: u64,
    resumed: u64,
    text: [u8; TEXT_BYTES_MAX],
    text_bytes: usize,
}

static mut STATE: State = State {
    kind: 0,
    rounds: 0,
    block: core::ptr::null_mut(),
    bytes: 0,
    heard: 0,
    resumed: 7,
    text: [0; TEXT_BYTES_MAX],
    text_bytes: 0,
};

fn pattern(at: usize) -> u8 {
    (at * 31 + 7) as u8
}

/// Says how much of the arena was used, and is.
unsafe fn use_arena(call: &Call, bytes: usize) {
    unsafe {
        if bytes > call.arena_bytes {
            mfaas_host_oom(bytes);
        }
        *call.arena.cast::<[usize; 2]>() = [bytes; 2];
    }
}

/// Waits for a sleep that has the number of the rounds that are left.
unsafe fn wait(call: &mut Call, rounds: u8) -> u32 {
    unsafe {
        let at = call.arena.add(ANSWER_AT);
        for (index, word) in [u32::from(rounds), 1, 8, 5, 0].iter().enumerate() {
            at.cast::<u32>().add(index).write_unaligned(*word);
        }
        call.response = Response::of(Span { start: at, bytes: 20 });
        match (*(&raw const STATE)).kind {
            // Calls what stands behind binding 1, with the rest of its own request.
            b'c' => {
                let state = &*(&raw const STATE);
                for (index, word) in [4, 4 + state.text_bytes as u32, 1].iter().enumerate() {
                    at.cast::<u32>().add(1 + index).write_unaligned(*word);
                }
                for index in 0..state.text_bytes {
                    *at.add(16 + index) = state.text[index];
                }
                call.response.body.bytes = 16 + state.text_bytes;
            }
            b'n' => call.response.body.bytes = 0,
            b'o' => call.response.body.start = 8 as *const u8,
            b'r' => at.cast::<u32>().add(2).write_unaligned(99),
            b'l' => *call.arena.cast::<[usize; 2]>() = [usize::MAX; 2],
            b'f' => {
                let state = &mut *(&raw mut STATE);
                state.bytes /= 10;
                *call.arena.cast::<usize>().add(1) = BLOCK_AT + state.bytes;
            }
            _ => {}
        }
        WAITS
    }
}

unsafe fn begin(call: &mut Call) -> u32 {
    unsafe {
        let body = call.request.body.start;
        let state = &mut *(&raw mut STATE);
        state.kind = *body;
        state.rounds = *body.add(1);
        state.bytes = body.add(2).cast::<u32>().read_unaligned() as usize;
        state.text_bytes = call.request.body.bytes.saturating_sub(6).min(TEXT_BYTES_MAX);
        for at in 0..state.text_bytes {
            state.text[at] = *body.add(6 + at);
        }
        use_arena(call, BLOCK_AT + state.bytes);
        state.block = call.arena.add(BLOCK_AT);
        for at in 0..state.bytes {
            *state.block.add(at) = pattern(at);
        }
        wait(call, state.rounds)
    }
}

unsafe fn go_on(call: &mut Call) -> u32 {
    unsafe {
        let state = &mut *(&raw mut STATE);
        match state.kind {
            b'p' => mfaas_host_panic(b"resumed".as_ptr(), 7),
            b's' => loop {
                mfaas_host_now();
            },
            b'g' => {
                use_arena(call, GROWN_BYTES);
                *call.arena.add(GROWN_BYTES - 1) = 1;
            }
            _ => {}
        }
        state.resumed += 1;
        for at in 0..call.request.body.bytes {
            state.heard += u64::from(*call.request.body.start.add(at));
        }
        state.rounds -= 1;
        if state.rounds > 0 {
            return wait(call, state.rounds);
        }
        let whole = (0..state.bytes).all(|at| *state.block.add(at) == pattern(at));
        let at = call.arena.add(ANSWER_AT);
        at.cast::<u64>().write_unaligned(state.resumed);
        at.cast::<u64>().add(1).write_unaligned(state.heard);
        *at.add(16) = u8::from(whole);
        call.response = Response::of(Span { start: at, bytes: 17 });
        0
    }
}

/// # Safety
/// There is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *mut Call) -> u32 {
    unsafe {
        let call = &mut *call;
        if call.flags & RESUMED == 0 { begin(call) } else { go_on(call) }
    }
}
