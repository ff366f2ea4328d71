//! Calls that wait: their memory, put aside in a frame and brought back to the same addresses.
//!
//! ```text
//! state := head · arena up to the end of the last block · data of the image · its thread-locals
//! ```
//! Nothing else of a call lives while it waits: its handler has returned, so its stack is empty. Who keeps the frame
//! meanwhile is trusted as far as a loader is: it may not know what the state means, and gives it back to the image that it is of.
//! That much is looked at, and so is every length: pointers in the state are the function's own, and verified code
//! can use whatever it finds there.

use mfaas_abi::{ResponseRecord, Span, SuspendedFrame, limits};

use crate::directory::{Resident, Run};
use crate::judge::{self, Unfit};
use crate::memory::{CallMemory, LARGEST_ARENA};

/// What the state of a call begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    /// Of the image: only it finds its own addresses in the state.
    entry: u64,
    generation: u64,
    /// Parts of the state, in bytes.
    arena: u32,
    data: u32,
    thread_locals: u32,
    /// The size of the arena, as an index.
    size: u32,
}

impl Head {
    const BYTES: usize = 32;

    /// For a call of the image that uses so much of an arena of this size. What has no room in 32 bits does not fit.
    fn of(image: &Resident, size: u8, arena: usize) -> Option<Self> {
        let [arena, data, thread_locals] =
            [arena, bytes_of(image.data), bytes_of(image.tls)].map(u32::try_from);
        Some(Self {
            entry: image.entry as u64,
            generation: image.generation,
            arena: arena.ok()?,
            data: data.ok()?,
            thread_locals: thread_locals.ok()?,
            size: u32::from(size),
        })
    }

    /// Of a whole state, in bytes.
    fn state_bytes(&self) -> usize {
        [self.arena, self.data, self.thread_locals].iter().fold(Self::BYTES, |sum, part| sum + *part as usize)
    }

    fn encode(&self) -> [u8; Self::BYTES] {
        let words = [
            self.entry,
            self.generation,
            u64::from(self.arena) | u64::from(self.data) << 32,
            u64::from(self.thread_locals) | u64::from(self.size) << 32,
        ];
        let mut head = [0; Self::BYTES];
        for (bytes, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        head
    }

    fn decode(state: &[u8]) -> Option<Self> {
        let (words, _) = state.get(..Self::BYTES)?.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        let halves = |at: usize| (word(at) as u32, (word(at) >> 32) as u32);
        let ((arena, data), (thread_locals, size)) = (halves(2), halves(3));
        Some(Self { entry: word(0), generation: word(1), arena, data, thread_locals, size })
    }
}

fn bytes_of(run: Run) -> usize {
    run.copied + run.zeroed
}

/// Appends what is put aside of a call that waits to `frame`, which is empty and has room for any: what its entry
/// left as a response are the operations that it began.
pub(crate) fn save(
    call_memory: &CallMemory,
    size: u8,
    image: &Resident,
    response: &ResponseRecord,
    frame: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let body_bytes_max = call_memory.body_bytes_max();
    let operations = judge::bytes(call_memory, size, response.body).ok_or(Unfit::Record)?;
    let held = judge::memory_held(call_memory, size);
    let head = Head::of(image, size, held).ok_or(Unfit::Record)?;
    let (bytes, most) = (head.state_bytes(), limits::state_bytes_max(body_bytes_max));
    if bytes > most {
        return Err(Unfit::State { bytes, most });
    }
    if operations.len() > limits::records_bytes_max(body_bytes_max)
        || mfaas_abi::Records::decode(operations).is_none()
    {
        return Err(Unfit::Operations);
    }
    frame.extend_from_slice(&SuspendedFrame::head(operations.len()));
    frame.extend_from_slice(operations);
    frame.extend_from_slice(&head.encode());
    frame.extend_from_slice(call_memory.arena_beginning(size, held));
    for run in [image.data, image.tls] {
        frame.extend_from_slice(run_bytes(run));
    }
    Ok(())
}

/// The image's data as the call left it.
fn run_bytes<'a>(run: Run) -> &'a [u8] {
    if bytes_of(run) == 0 {
        return &[];
    }
    let start = std::ptr::with_exposed_provenance(run.at);
    // SAFETY: INV-EXECUTOR-3. The loader wrote the run, which lies in the image's data, and no call runs.
    unsafe { std::slice::from_raw_parts(start, bytes_of(run)) }
}

/// A call that was put aside, as it lies in the request's place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saved {
    /// The outcomes that it hears of.
    pub(crate) outcomes: Span,
    /// The arena that it had.
    pub(crate) size: u8,
    /// What stands behind the head of its state, and how much of that is the arena's.
    parts: Span,
    arena: usize,
}

impl Saved {
    /// Reads a frame, unless it is none or not of a call of this image.
    pub(crate) fn read(frame: &[u8], image: &Resident, call_memory: &CallMemory) -> Option<Self> {
        let SuspendedFrame { records, state } = SuspendedFrame::decode(frame, call_memory.body_bytes_max())?;
        let head = Head::decode(state)?;
        let size = u8::try_from(head.size).ok().filter(|size| *size <= LARGEST_ARENA)?;
        let arena = head.arena as usize;
        let is_of_it = Head::of(image, size, arena) == Some(head) && head.state_bytes() == state.len();
        let fits = arena <= call_memory.arena(size).1;
        let parts = Span::of(&state[Head::BYTES..]);
        (is_of_it && fits).then_some(Self { outcomes: Span::of(records.as_bytes()), size, parts, arena })
    }

    /// Puts everything back where it was. `image` is the one that the frame was read for.
    pub(crate) fn restore(&self, image: &Resident, call_memory: &CallMemory) {
        let (arena, _) = call_memory.arena(self.size);
        let data = std::ptr::with_exposed_provenance_mut(image.data.at);
        let thread_locals = std::ptr::with_exposed_provenance_mut(image.tls.at);
        let mut from = self.parts.start;
        for (to, bytes) in
            [(arena, self.arena), (data, bytes_of(image.data)), (thread_locals, bytes_of(image.tls))]
        {
            if bytes > 0 {
                // SAFETY: INV-EXECUTOR-2, 3 and 17. `read` has found the parts to be as long as what they are copied to, which
                // lies in the arena or the image's data and so apart from the request; no call runs.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            }
            from = from.wrapping_add(bytes);
        }
    }
}
