//! Where everything lies in the shared memory, in bytes and in 64-bit words.

use std::sync::atomic::{AtomicU32, AtomicU64};

use mfaas_abi::limits;

use crate::RingError;

/// `mfrg`, so that a wrong descriptor is noticed.
pub(crate) const MAGIC: u32 = 0x6d66_7267;
/// Version of this layout; both ends come from one release, so they agree exactly.
pub(crate) const VERSION: u32 = 1;
/// Slots in one ring, at most: 64 slots are 136 MiB of address space, touched only where used.
const SLOTS_MAX: u32 = 64;

const HEADER_BYTES: usize = 4096;
const RECORD_BYTES: usize = 64;

/// Bytes of each part of a slot's payload area, in the order in which they lie there.
pub(crate) const REQUEST_BYTES: usize = limits::FRAME_BYTES_MAX;
pub(crate) const RESPONSE_BYTES: usize = limits::FRAME_BYTES_MAX;
pub(crate) const LOG_BYTES: usize = limits::LOG_BYTES_MAX;
pub(crate) const MESSAGE_BYTES: usize = limits::PANIC_BYTES_MAX;
const PAYLOAD_BYTES: usize =
    (REQUEST_BYTES + RESPONSE_BYTES + LOG_BYTES + MESSAGE_BYTES).next_multiple_of(4096);

/// How many calls a ring holds at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slots: u32,
}

impl Geometry {
    /// `slots` calls in flight: a power of two from 1 to 64.
    pub fn new(slots: u32) -> Result<Self, RingError> {
        if slots.is_power_of_two() && slots <= SLOTS_MAX {
            Ok(Self { slots })
        } else {
            Err(RingError::Geometry(slots))
        }
    }

    /// How many calls a ring holds at once.
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// The whole memory, in bytes.
    pub(crate) fn memory_bytes(self) -> usize {
        self.payload_offset(self.slots)
    }

    /// The only geometry whose memory has this size.
    pub(crate) fn of_memory(bytes: u64) -> Option<Self> {
        (0..=SLOTS_MAX.ilog2())
            .map(|power| Self { slots: 1 << power })
            .find(|geometry| geometry.memory_bytes() as u64 == bytes)
    }

    /// Offset of the record of the slot that `counter` falls on.
    pub(crate) fn record_offset(self, counter: u32) -> usize {
        HEADER_BYTES + self.index(counter) * RECORD_BYTES
    }

    /// Offset of one part of the payload of the slot that `counter` falls on.
    pub(crate) fn part_offset(self, counter: u32, part: Part) -> usize {
        self.payload_offset(self.index(counter) as u32) + part.offset()
    }

    fn payload_offset(self, index: u32) -> usize {
        let records = (self.slots as usize * RECORD_BYTES).next_multiple_of(4096);
        HEADER_BYTES + records + index as usize * PAYLOAD_BYTES
    }

    /// Counters wrap at 2³²; that they fall on the right slot then is why slots are a power of two.
    pub(crate) fn index(self, counter: u32) -> usize {
        (counter & (self.slots - 1)) as usize
    }
}

/// A part of a slot's payload area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Request,
    Response,
    Log,
    Message,
}

impl Part {
    const fn offset(self) -> usize {
        match self {
            Self::Request => 0,
            Self::Response => REQUEST_BYTES,
            Self::Log => REQUEST_BYTES + RESPONSE_BYTES,
            Self::Message => REQUEST_BYTES + RESPONSE_BYTES + LOG_BYTES,
        }
    }

    /// What fits, in bytes.
    pub(crate) const fn bytes_max(self) -> usize {
        match self {
            Self::Request => REQUEST_BYTES,
            Self::Response => RESPONSE_BYTES,
            Self::Log => LOG_BYTES,
            Self::Message => MESSAGE_BYTES,
        }
    }
}

/// One word alone on its cache line, so that the two ends do not fight over it.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Lone<T>(pub(crate) T);

/// The header page.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU32,
    pub(crate) version: AtomicU32,
    /// Which generation of workers this ring belongs to; written once by the host.
    pub(crate) generation: AtomicU64,
    /// Calls submitted since the start; written by the host.
    pub(crate) submitted: Lone<AtomicU32>,
    /// Changes with every submission and with a stop: what a sleeping worker waits on.
    pub(crate) worker_bell: Lone<AtomicU32>,
    /// Not 0 while the worker sleeps or is about to.
    pub(crate) worker_sleeps: Lone<AtomicU32>,
    /// Not 0 once the host wants the worker to finish what is submitted and leave.
    pub(crate) stop: Lone<AtomicU32>,
    /// Calls completed since the start; written by the worker.
    pub(crate) completed: Lone<AtomicU32>,
    /// Changes with every completion and every change of state: what a waiting host waits on.
    pub(crate) host_bell: Lone<AtomicU32>,
    /// Not 0 while the host sleeps or is about to.
    pub(crate) host_sleeps: Lone<AtomicU32>,
    /// A [`WorkerState`]; written by the worker.
    pub(crate) state: Lone<AtomicU32>,
    /// Grows whenever the worker wakes or starts a call; written by the worker.
    pub(crate) heartbeat: Lone<AtomicU64>,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// The record of one slot. Words 0 and 1 are written by the host, the others by the worker.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) call_id: AtomicU64,
    /// Function index in the low half, request bytes in the high half.
    pub(crate) function_and_request: AtomicU64,
    /// Status in the low half, flags in the high half.
    pub(crate) status_and_flags: AtomicU64,
    /// Response bytes in the low half, log bytes in the high half.
    pub(crate) response_and_log: AtomicU64,
    /// Message bytes.
    pub(crate) message: AtomicU64,
    pub(crate) wall_ns: AtomicU64,
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
}

const _: () = assert!(size_of::<Record>() == RECORD_BYTES);

/// Flag of a completion: the first call of this function in this worker.
pub(crate) const FLAG_COLD: u32 = 1;

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
