//! Writing zeros where a call was, in the pieces that the C library's `memset` is quick with. What is shorter than a vector it
//! stores under a mask, no bytes at all included, which costs some processors more than a kilobyte does; what is longer than 2 KiB
//! it leaves to a string instruction, which they begin slowly.

/// Shorter pieces are stored here, and not by `memset`.
const FEW_BYTES: usize = 64;
/// What `memset` is asked for at most.
const PIECE_BYTES: usize = 1 << 10;

/// Leaves zeros.
#[inline]
pub(crate) fn zero(bytes: &mut [u8]) {
    for piece in bytes.chunks_mut(PIECE_BYTES) {
        if piece.len() < FEW_BYTES {
            zero_few(piece);
        } else {
            piece.fill(0);
        }
    }
}

/// The same of less than [`FEW_BYTES`]: two stores that may overlap.
#[inline]
fn zero_few(bytes: &mut [u8]) {
    let done = zero_ends::<32>(bytes)
        || zero_ends::<16>(bytes)
        || zero_ends::<8>(bytes)
        || zero_ends::<4>(bytes)
        || zero_ends::<2>(bytes)
        || zero_ends::<1>(bytes);
    debug_assert!(done || bytes.is_empty(), "two ends of half the length cover it");
}

/// Whether there are so many bytes: then the first and the last of them are zeros now.
#[inline]
fn zero_ends<const N: usize>(bytes: &mut [u8]) -> bool {
    let Some(first) = bytes.first_chunk_mut::<N>() else { return false };
    *first = [0; N];
    let Some(last) = bytes.last_chunk_mut::<N>() else { return false };
    *last = [0; N];
    true
}

#[cfg(test)]
mod tests;
