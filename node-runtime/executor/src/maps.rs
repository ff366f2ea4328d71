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
mod tests {
    use super::{Mapping, all};

    #[test]
    fn a_line_is_read() {
        let line = "7f00a000-7f00b000 r-xp 00001000 fe:01 77   /usr/lib/libc.so.6";
        let mapping = Mapping::parse(line).expect("a line");
        assert_eq!((mapping.range.clone(), mapping.access()), (0x7f00_a000..0x7f00_b000, 5));
        assert!(mapping.is_of_program());
        let ring = Mapping::parse("1000-2000 r--s 00000000 00:01 9 /memfd:ring (deleted)").expect("a line");
        assert!(!ring.is_of_program());
        assert!(Mapping::parse("1000 r--s").is_none());
    }

    #[test]
    fn our_own_code_is_in_the_list() {
        let here = all as *const () as usize;
        let found = all().expect("Linux").into_iter().find(|mapping| mapping.range.contains(&here));
        let found = found.expect("mapped");
        assert!(found.execute && !found.write && found.is_of_program(), "{found:?}");
    }
}
