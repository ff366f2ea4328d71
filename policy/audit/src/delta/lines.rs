//! Two texts line by line.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// Lines of one file, on either side, that are compared.
pub const LINES_MAX: usize = 100_000;

/// A run of lines that is the same in both texts, or that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Lines of the old text, from 0.
    pub old: Range<usize>,
    /// Lines of the new text, from 0.
    pub new: Range<usize>,
    /// They are the same.
    pub same: bool,
}

/// Why two texts were not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCompared {
    /// One is too large.
    #[error("it has more than {LINES_MAX} lines and was not compared")]
    TooLarge,
    /// There was no time.
    #[error("comparing it took too long")]
    TooSlow,
}

/// Lines of a text; what stands behind the last line end is a line, too.
pub fn line_count(text: &str) -> u64 {
    text.split_inclusive('\n').count() as u64
}

/// The two texts as runs of lines, in order and without gaps. A line is compared with its end.
///
/// # Errors
///
/// [`NotCompared::TooLarge`] past [`LINES_MAX`], [`NotCompared::TooSlow`] past `deadline`.
pub fn blocks(old: &str, new: &str, deadline: Instant) -> Result<Vec<Block>, NotCompared> {
    // The order of the two must not change what is found, only what it is called.
    if old > new {
        let mirrored = blocks(new, old, deadline)?;
        return Ok(mirrored
            .into_iter()
            .map(|block| Block { old: block.new, new: block.old, ..block })
            .collect());
    }
    let mut known: HashMap<&str, usize> = HashMap::new();
    let old = numbered(old, &mut known).ok_or(NotCompared::TooLarge)?;
    let new = numbered(new, &mut known).ok_or(NotCompared::TooLarge)?;
    let operations = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    // What was found after the deadline is true, and far more than what changed.
    if Instant::now() >= deadline {
        return Err(NotCompared::TooSlow);
    }
    Ok(operations.iter().map(block).collect())
}

/// Lines that came and that went.
pub(super) fn changed(blocks: &[Block]) -> (u64, u64) {
    blocks.iter().filter(|block| !block.same).fold((0, 0), |(added, removed), block| {
        (added + block.new.len() as u64, removed + block.old.len() as u64)
    })
}

/// Each line as a number, the same for the same line; `None` for too many lines.
fn numbered<'a>(text: &'a str, known: &mut HashMap<&'a str, usize>) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for line in text.split_inclusive('\n') {
        if numbers.len() == LINES_MAX {
            return None;
        }
        let next = known.len();
        numbers.push(*known.entry(line).or_insert(next));
    }
    Some(numbers)
}

fn block(operation: &DiffOp) -> Block {
    let (tag, old, new) = operation.as_tag_tuple();
    Block { old, new, same: tag == similar::DiffTag::Equal }
}
