#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! Texts of the kernel.

use super::{Memory, cores, memory, parse};

#[test]
fn memory_is_in_bytes() {
    let text = "MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    600 kB\n";
    assert_eq!(parse(text), Some(Memory { total_bytes: 1_024_000, available_bytes: 614_400 }));
    assert_eq!(parse("MemTotal: 1000 kB\n"), None);
    let here = memory().unwrap();
    assert!(here.available_bytes > 0 && here.available_bytes < here.total_bytes);
    assert!(!cores().unwrap().is_empty());
}
