#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! Texts of the kernel.

use super::{Memory, cores, disk_of, memory, parse};
use crate::groups::DiskCounts;

#[test]
fn memory_is_in_bytes() {
    let text = "MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    600 kB\n";
    assert_eq!(parse(text), Some(Memory { total_bytes: 1_024_000, available_bytes: 614_400 }));
    assert_eq!(parse("MemTotal: 1000 kB\n"), None);
    let here = memory().unwrap();
    assert!(here.available_bytes > 0 && here.available_bytes < here.total_bytes);
    assert!(!cores().unwrap().is_empty());
}

#[test]
fn a_disk_is_found_by_its_number() {
    let text = "   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9\n 254       0 vda 10 0 80 5 20 1 160 6 0 7 8\n";
    let counts = DiskCounts { reads: 10, writes: 20, read_bytes: 80 * 512, written_bytes: 160 * 512 };
    assert_eq!(disk_of("254:0", text), Some(counts));
    assert_eq!((disk_of("254:1", text), disk_of("vda", text)), (None, None));
}
