//! What node and worker tell each other of functions that a call calls where it is: instead of an outcome of such a call the node
//! tells who answers it, and with the call's own answer the worker says how often it was asked.

/// Functions that one call may call where it is from when it comes to a worker until it leaves, at most.
pub const INLINE_CALLEES_MAX: usize = 8;
/// In the place of an outcome's code: its bytes are an [`InlineCallee`]. No error has this number.
pub const INLINE_CODE: u32 = u32::MAX;
/// What stands before the body of a request to such a function, at most, in bytes.
pub const INLINE_HEAD_BYTES_MAX: usize = 512;

/// A function that a call may call where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InlineCallee<'a> {
    /// Its slot in the slab that the worker maps.
    pub slot: u32,
    /// CPU time that each of its calls may take, in microseconds.
    pub budget_us: u32,
    /// Arena of each, in bytes.
    pub memory_bytes: u64,
    /// Its request frame, up to the body's length.
    pub head: &'a [u8],
}

impl<'a> InlineCallee<'a> {
    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + self.head.len());
        bytes.extend_from_slice(&self.slot.to_le_bytes());
        bytes.extend_from_slice(&self.budget_us.to_le_bytes());
        bytes.extend_from_slice(&self.memory_bytes.to_le_bytes());
        bytes.extend_from_slice(self.head);
        bytes
    }

    /// Reads them.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (numbers, head) = bytes.split_first_chunk::<16>()?;
        let (words, _) = numbers.as_chunks::<8>();
        let [first, memory_bytes] = [words[0], words[1]].map(u64::from_le_bytes);
        let (slot, budget_us) = (first as u32, (first >> 32) as u32);
        (head.len() <= INLINE_HEAD_BYTES_MAX).then_some(Self { slot, budget_us, memory_bytes, head })
    }
}

/// What came of a function that a call has called where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InlineUse {
    /// The place of the binding by which it was called.
    pub binding: u32,
    /// Calls that were answered.
    pub calls: u32,
    /// Wall time of all of them together, in nanoseconds.
    pub wall_ns: u64,
    /// Most arena bytes in use at once.
    pub memory_bytes: u64,
    /// It waits or logs, so it has to be called by itself.
    pub is_apart: bool,
}

impl InlineUse {
    /// Its bytes with an [`crate::Answer`].
    pub const BYTES: usize = 32;

    /// The bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let words = [
            u64::from(self.binding) | u64::from(self.calls) << 32,
            self.wall_ns,
            self.memory_bytes,
            u64::from(self.is_apart),
        ];
        let mut bytes = [0; Self::BYTES];
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }

    /// Reads several, of any origin.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.as_chunks::<{ Self::BYTES }>().0.iter().map(|bytes| {
            let (words, _) = bytes.as_chunks::<8>();
            let word = |at: usize| u64::from_le_bytes(words[at]);
            Self {
                binding: word(0) as u32,
                calls: (word(0) >> 32) as u32,
                wall_ns: word(1),
                memory_bytes: word(2),
                is_apart: word(3) != 0,
            }
        })
    }
}

/// What all of them take, in bytes.
pub(crate) const INLINE_BYTES_MAX: usize = INLINE_CALLEES_MAX * InlineUse::BYTES;
