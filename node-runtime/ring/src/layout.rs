//! Where everything lies in the shared memory, in bytes and in 64-bit words.
//!
//! ```text
//! header          one page: words that are written once or seldom, each writer on lines of its own
//! host's slots    slots × (64 bytes submission, 512 bytes request), written by the host alone but for wiping
//! worker's slots  slots × (64 bytes completion, 512 bytes response), written by the worker alone but for wiping
//! large areas     slots × (log, message, calls within the call, large request, large response), touched only when needed
//! ```
//! A slot takes 9 cache lines on each side, and a large area an odd number of them: strides that
//! are a multiple of a page would let all slots fight for the same few places of a cache.
//!
//! A ring for bulk functions has one slot, whose large areas hold their larger frames. Nothing else of it differs.

use std::sync::atomic::{AtomicU32, AtomicU64};

use mfaas_abi::limits;

use crate::RingError;
use crate::inline::INLINE_BYTES_MAX;

/// `mfrg`, so that a wrong descriptor is noticed.
pub(crate) const MAGIC: u32 = 0x6d66_7267;
/// Version of this layout; both ends come from one release, so they agree exactly.
pub(crate) const VERSION: u32 = 6;
/// Slots in one ring, at most: 64 slots are 137 MiB of address space, touched only where used.
const SLOTS_MAX: u32 = 64;

pub(crate) const PAGE_BYTES: usize = 4096;
pub(crate) const LINE_BYTES: usize = 64;
const HEADER_BYTES: usize = PAGE_BYTES;

/// A request or response of at most this many bytes lies beside its record.
pub const SMALL_BYTES_MAX: usize = 512;
/// Record and small payload of one direction.
const SLOT_BYTES: usize = LINE_BYTES + SMALL_BYTES_MAX;

const LOG_OFFSET: usize = 0;
const MESSAGE_OFFSET: usize = LOG_OFFSET + limits::LOG_BYTES_MAX;
const INLINE_OFFSET: usize = MESSAGE_OFFSET + limits::PANIC_BYTES_MAX;
const REQUEST_OFFSET: usize = INLINE_OFFSET + INLINE_BYTES_MAX;

const _: () = assert!(
    MESSAGE_OFFSET.is_multiple_of(LINE_BYTES)
        && INLINE_OFFSET.is_multiple_of(LINE_BYTES)
        && REQUEST_OFFSET.is_multiple_of(LINE_BYTES)
        && limits::FRAME_BYTES_MAX.is_multiple_of(LINE_BYTES)
        && limits::BULK_FRAME_BYTES_MAX.is_multiple_of(LINE_BYTES),
    "every area begins on a line of its own"
);

/// How many calls a ring holds at once, and how large their frames may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slots: u32,
    body_bytes_max: usize,
}

impl Geometry {
    /// `slots` calls in flight: a power of two from 1 to 64.
    pub fn new(slots: u32) -> Result<Self, RingError> {
        if slots.is_power_of_two() && slots <= SLOTS_MAX {
            Ok(Self { slots, body_bytes_max: limits::BODY_BYTES_MAX })
        } else {
            Err(RingError::Geometry(slots))
        }
    }

    /// Of a worker of bulk functions: one call, with large bodies.
    pub const BULK: Self = Self { slots: 1, body_bytes_max: limits::BULK_BODY_BYTES_MAX };

    /// What fits into a frame's body, in bytes.
    pub fn body_bytes_max(self) -> usize {
        self.body_bytes_max
    }

    /// What a question may have, in bytes: what all operations that a call begins at a time may.
    pub(crate) fn question_bytes_max(self) -> usize {
        limits::records_bytes_max(self.body_bytes_max)
    }

    /// What fits into a frame, in bytes.
    pub(crate) fn frame_bytes_max(self) -> usize {
        limits::frame_bytes_max(self.body_bytes_max)
    }

    /// Bytes of the large areas of one slot: an odd number of lines, so that those of all slots begin in different sets of a
    /// cache.
    fn large_bytes(self) -> usize {
        ((REQUEST_OFFSET + 2 * self.frame_bytes_max()).div_ceil(LINE_BYTES) | 1) * LINE_BYTES
    }

    /// How many calls a ring holds at once.
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// The whole memory, in bytes.
    pub(crate) fn memory_bytes(self) -> usize {
        (self.large_offset() + self.slots as usize * self.large_bytes()).next_multiple_of(PAGE_BYTES)
    }

    /// The only geometry whose memory has this size.
    pub(crate) fn of_memory(bytes: u64) -> Option<Self> {
        (0..=SLOTS_MAX.ilog2())
            .map(|power| Self { slots: 1 << power, body_bytes_max: limits::BODY_BYTES_MAX })
            .chain([Self::BULK])
            .find(|geometry| geometry.memory_bytes() as u64 == bytes)
    }

    /// Offset of the submission of the slot that `position` falls on.
    pub(crate) fn submission_offset(self, position: u64) -> usize {
        HEADER_BYTES + self.index(position) * SLOT_BYTES
    }

    /// Offset of the completion of the slot that `position` falls on.
    pub(crate) fn completion_offset(self, position: u64) -> usize {
        HEADER_BYTES + self.side_bytes() + self.index(position) * SLOT_BYTES
    }

    /// Offset of one area of the slot that `position` falls on.
    pub(crate) fn area_offset(self, position: u64, area: Area) -> usize {
        let large = self.large_offset() + self.index(position) * self.large_bytes();
        match area {
            Area::SmallRequest => self.submission_offset(position) + LINE_BYTES,
            Area::SmallResponse => self.completion_offset(position) + LINE_BYTES,
            Area::Log => large + LOG_OFFSET,
            Area::Message => large + MESSAGE_OFFSET,
            Area::Inline => large + INLINE_OFFSET,
            Area::LargeRequest => large + REQUEST_OFFSET,
            Area::LargeResponse => large + REQUEST_OFFSET + self.frame_bytes_max(),
        }
    }

    /// What fits into an area, in bytes.
    pub(crate) fn area_bytes(self, area: Area) -> usize {
        match area {
            Area::SmallRequest | Area::SmallResponse => SMALL_BYTES_MAX,
            Area::Log => limits::LOG_BYTES_MAX,
            Area::Message => limits::PANIC_BYTES_MAX,
            Area::Inline => INLINE_BYTES_MAX,
            Area::LargeRequest | Area::LargeResponse => self.frame_bytes_max(),
        }
    }

    /// What fits of a part, in bytes.
    pub(crate) fn part_bytes_max(self, part: Part) -> usize {
        match part {
            Part::Request | Part::Response => self.frame_bytes_max(),
            Part::Log => limits::LOG_BYTES_MAX,
            Part::Message => limits::PANIC_BYTES_MAX,
            Part::Inline => INLINE_BYTES_MAX,
        }
    }

    /// The slot that a position falls on.
    pub(crate) fn index(self, position: u64) -> usize {
        (position & u64::from(self.slots - 1)) as usize
    }

    fn side_bytes(self) -> usize {
        (self.slots as usize * SLOT_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn large_offset(self) -> usize {
        HEADER_BYTES + 2 * self.side_bytes()
    }
}

/// What a call or its answer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Request,
    Response,
    Log,
    Message,
    Inline,
}

impl Part {
    /// Where `bytes` of this part lie. Both ends follow from the same length.
    pub(crate) const fn area(self, bytes: usize) -> Area {
        match self {
            Self::Request if bytes <= SMALL_BYTES_MAX => Area::SmallRequest,
            Self::Request => Area::LargeRequest,
            Self::Response if bytes <= SMALL_BYTES_MAX => Area::SmallResponse,
            Self::Response => Area::LargeResponse,
            Self::Log => Area::Log,
            Self::Message => Area::Message,
            Self::Inline => Area::Inline,
        }
    }
}

/// A piece of a slot's memory that holds one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    SmallRequest,
    SmallResponse,
    Log,
    Message,
    Inline,
    LargeRequest,
    LargeResponse,
}

/// One word alone on its cache line, so that the two ends do not fight over it.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Lone<T>(pub(crate) T);

/// The header page.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    /// Written last of the first line, so that an end that sees it sees the others.
    pub(crate) magic: AtomicU32,
    pub(crate) version: AtomicU32,
    /// A [`crate::clock::Source`]: what the ticks of this ring count.
    pub(crate) clock_source: AtomicU64,
    /// Ticks of that clock in a millisecond.
    pub(crate) ticks_per_ms: AtomicU64,
    /// Not 0 where the host orders memory for both ends before it sleeps ([`crate::barrier`]).
    pub(crate) host_orders: AtomicU64,
    /// Changes before the host wakes the worker: what a sleeping worker waits on.
    pub(crate) worker_bell: Lone<AtomicU32>,
    /// Not 0 while the worker sleeps or is about to.
    pub(crate) worker_sleeps: Lone<AtomicU32>,
    /// Not 0 once the host wants the worker to finish what is submitted and leave.
    pub(crate) stop: Lone<AtomicU32>,
    /// Changes before the worker wakes the host: what a sleeping host waits on.
    pub(crate) host_bell: Lone<AtomicU32>,
    /// Not 0 while the host sleeps or is about to.
    pub(crate) host_sleeps: Lone<AtomicU32>,
    /// A [`WorkerState`]; written by the worker.
    pub(crate) state: Lone<AtomicU32>,
    /// Wall deadline of the running call in ticks, 0 when none runs; written by the worker.
    pub(crate) watch: Lone<AtomicU64>,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// One call, as the host wrote it.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct SubmissionRecord {
    /// Written last: see [`crate::protocol`].
    pub(crate) sequence: AtomicU64,
    pub(crate) call_id: AtomicU64,
    /// Function in the low half, budget in microseconds in the high half.
    pub(crate) function_and_budget: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) frame_bytes: AtomicU64,
    /// Any of [`FLAG_RESUMES`], [`FLAG_MAY_ASK`] and [`FLAG_YIELDS`].
    pub(crate) flags: AtomicU64,
}

const _: () = assert!(size_of::<SubmissionRecord>() == LINE_BYTES);

/// One answer, as the worker wrote it.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct CompletionRecord {
    /// Written last: see [`crate::protocol`].
    pub(crate) sequence: AtomicU64,
    /// Status in the low half, flags in the high half: of that the low half [`FLAG_COLD`] and [`FLAG_WAITS`], the high half how many
    /// bytes say what was called within the call.
    pub(crate) status_and_flags: AtomicU64,
    /// Response bytes in the low half, log bytes in the high half.
    pub(crate) response_and_log: AtomicU64,
    /// Message bytes in the low half, number of a refusal's code in the high half.
    pub(crate) message_and_code: AtomicU64,
    pub(crate) wall_ns: AtomicU64,
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
    /// What the call asks that is not answered yet: a [`crate::protocol::Asking`], and how many bytes there are of it. Both ends
    /// write it.
    pub(crate) question: AtomicU64,
}

const _: () = assert!(size_of::<CompletionRecord>() == LINE_BYTES);

/// Flag of a submission: the frame is a call's that waited, and no request.
pub(crate) const FLAG_RESUMES: u64 = 1;
/// Flag of a submission: the host may answer what the call waits for while it stays in its worker.
pub(crate) const FLAG_MAY_ASK: u64 = 2;
/// Flag of a submission: others may want the worker's core once it has answered.
pub(crate) const FLAG_YIELDS: u64 = 4;
/// Flag of a completion: the first call of this function in this worker.
pub(crate) const FLAG_COLD: u32 = 1;
/// Flag of a completion: the call has not ended.
pub(crate) const FLAG_WAITS: u32 = 2;

/// How far up in the flags of a completion the bytes are counted that say what was called within the call.
pub(crate) const INLINE_SHIFT: u32 = 16;
const _: () = assert!(INLINE_BYTES_MAX < 1 << 16);

/// Two 32-bit numbers in one word, the first in the low half.
pub(crate) fn pack(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The two 32-bit numbers of a word.
pub(crate) fn unpack(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// What the worker says about itself.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerState {
    /// Loading; takes no calls yet.
    Starting = 0,
    /// Locked down and taking calls.
    Ready = 1,
    /// Has answered everything and leaves.
    Stopped = 2,
}

impl WorkerState {
    pub(crate) fn from_u32(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Starting),
            1 => Some(Self::Ready),
            2 => Some(Self::Stopped),
            _ => None,
        }
    }
}
