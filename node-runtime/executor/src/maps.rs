//! This process's own mappings, as the kernel lists them.
//!
//! It must never be asked while a call runs: it allocates.

use std::ops::Range;

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) range: Range<usize>,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) execute: bool,
    pub(crate) private: bool,
    /// The file, the kernel's name in brackets, or empty.
    pub(crate) name: String,
}

impl Mapping {
    /// Whether it is part of a program or library, private to this process. The ring and other
    /// shared memory are not.
    pub(crate) fn is_of_program(&self) -> bool {
        self.private && self.name.starts_with('/') && !self.name.starts_with("/memfd:")
    }

    /// The access as `PROT_…` bits.
    pub(crate) fn access(&self) -> libc::c_int {
        let bit = |has: bool, bit: libc::c_int| if has { bit } else { 0 };
        bit(self.read, libc::PROT_READ)
            | bit(self.write, libc::PROT_WRITE)
            | bit(self.execute, libc::PROT_EXEC)
    }

    /// The line of `/proc/self/maps`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let flags = words.next()?.as_bytes();
        let name = words.nth(3).unwrap_or_default().to_owned();
        Some(Self {
            range: address(start)?..address(end)?,
            read: flags.first() == Some(&b'r'),
            write: flags.get(1) == Some(&b'w'),
            execute: flags.get(2) == Some(&b'x'),
            private: flags.get(3) == Some(&b'p'),
            name,
        })
    }
}

/// All mappings, in order; `None` if the list cannot be read or understood.
pub(crate) fn all() -> Option<Vec<Mapping>> {
    let text = std::fs::read_to_string("/proc/self/maps").ok()?;
    text.lines().map(Mapping::parse).collect()
}

#[cfg(test)]
mod tests;
