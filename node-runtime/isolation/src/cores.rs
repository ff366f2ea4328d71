//! A set of CPUs by their numbers, in the form in which Linux writes and reads it.
//!
//! A bit for each of the CPUs that an affinity call of Linux can name. It never allocates: the control loop makes some of
//! them ten thousand times a second.

use std::fmt;
use std::str::FromStr;

/// CPUs that a set can have, as many as glibc's `cpu_set_t`.
pub const CORES_MAX: usize = 1024;
const WORD_BITS: usize = 64;

/// Numbers of CPUs below [`CORES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CoreSet {
    words: [u64; CORES_MAX / WORD_BITS],
}

/// A text or number that names no CPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoreSetError {
    /// Beyond the table.
    #[error("CPU {0} is beyond the {CORES_MAX} that a set can have")]
    TooLarge(usize),
    /// Not a list of Linux.
    #[error("{0:?} is not a list of CPUs like 0-3,8")]
    NotAList(String),
}

impl CoreSet {
    /// No CPU.
    pub const EMPTY: Self = Self { words: [0; CORES_MAX / WORD_BITS] };

    /// The CPUs from 0 on, `count` of them.
    pub fn first_cpus(count: usize) -> Result<Self, CoreSetError> {
        let mut set = Self::EMPTY;
        (0..count).try_for_each(|core| set.insert(core))?;
        Ok(set)
    }

    /// Adds a CPU.
    pub fn insert(&mut self, core: usize) -> Result<(), CoreSetError> {
        if core >= CORES_MAX {
            return Err(CoreSetError::TooLarge(core));
        }
        self.words[core / WORD_BITS] |= 1 << (core % WORD_BITS);
        Ok(())
    }

    /// Takes a CPU out; one that is not in it, or in no set, changes nothing.
    pub fn remove(&mut self, core: usize) {
        if let Some(word) = self.words.get_mut(core / WORD_BITS) {
            *word &= !(1 << (core % WORD_BITS));
        }
    }

    /// Whether the CPU is in it.
    pub fn contains(&self, core: usize) -> bool {
        self.words.get(core / WORD_BITS).is_some_and(|word| word >> (core % WORD_BITS) & 1 == 1)
    }

    /// CPUs in it.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.with(other, |a, b| a | b)
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.with(other, |a, b| a & b)
    }

    /// What is in this one and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.with(other, |a, b| a & !b)
    }

    /// Whether all of it is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    /// The `count` lowest of its CPUs, or all if there are fewer.
    #[must_use]
    pub fn take(&self, count: usize) -> Self {
        let mut taken = Self::EMPTY;
        for core in self.iter().take(count) {
            taken.words[core / WORD_BITS] |= 1 << (core % WORD_BITS);
        }
        taken
    }

    /// Its CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let rests = std::iter::successors(Some(*word), |rest| Some(rest & rest.wrapping_sub(1)));
            rests
                .take_while(|rest| *rest != 0)
                .map(move |rest| index * WORD_BITS + rest.trailing_zeros() as usize)
        })
    }

    /// Reads a list as Linux writes it: `0-3,8`, with or without a newline behind it. The empty text is the
    /// empty set. Strides, spaces and ranges that run backwards are refused: the kernel writes none.
    pub fn parse(text: &str) -> Result<Self, CoreSetError> {
        let list = text.strip_suffix('\n').unwrap_or(text);
        let mut set = Self::EMPTY;
        if list.is_empty() {
            return Ok(set);
        }
        for piece in list.split(',') {
            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            let (Some(first), Some(last)) = (number(first), number(last)) else {
                return Err(not_a_list(text));
            };
            if first > last {
                return Err(not_a_list(text));
            }
            // The end first: a range up to a billion is refused without counting to it.
            set.insert(last)?;
            (first..last).try_for_each(|core| set.insert(core))?;
        }
        Ok(set)
    }

    fn with(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self { words: std::array::from_fn(|index| combine(self.words[index], other.words[index])) }
    }
}

/// Digits alone: `parse` of the standard library would take a plus sign too.
fn number(text: &str) -> Option<usize> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits { text.parse().ok() } else { None }
}

fn not_a_list(text: &str) -> CoreSetError {
    CoreSetError::NotAList(text.chars().take(80).collect())
}

impl FromStr for CoreSet {
    type Err = CoreSetError;

    fn from_str(text: &str) -> Result<Self, CoreSetError> {
        Self::parse(text)
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cores = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cores.next() {
            let mut last = first;
            while let Some(next) = cores.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests;
