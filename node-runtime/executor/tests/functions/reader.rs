//! A function that looks at its assets, and at any other address: what it does stands in three words of its
//! request.
#![no_std]

mod record;

use record::{Call, Response, Span};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Where the answer stands in the arena.
const ANSWER_AT: usize = 512;

/// # Safety
/// There is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mfaas_entry_v1(call: *mut Call) -> u32 {
    unsafe {
        let call = &mut *call;
        let words = call.request.body.start.cast::<usize>();
        let [does, at, with] = [0, 1, 2].map(|word| words.add(word).read_unaligned());
        let answer = call.arena.add(ANSWER_AT).cast::<usize>();
        match does {
            // Where its asset in this place lies.
            0 => {
                let span = if call.assets.is_null() { [0; 2] } else { place(&raw const (*call.assets), at) };
                answer.write(span[0]);
                answer.add(1).write(span[1]);
            }
            // What stands at an address.
            1 => answer.write(usize::from((at as *const u8).read_volatile())),
            2 => (at as *mut u8).write_volatile(with as u8),
            _ => core::arch::asm!("jmp rcx", in("rcx") at, options(noreturn)),
        }
        call.response = Response::of(Span { start: answer.cast(), bytes: 16 });
        0
    }
}

unsafe fn place(table: *const [Span; 16], at: usize) -> [usize; 2] {
    let span = unsafe { table.cast::<Span>().add(at).read() };
    [span.start as usize, span.bytes]
}
