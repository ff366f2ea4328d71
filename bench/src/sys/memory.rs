//! Memory of a process and its descendants, as the kernel tells it.
//!
//! It must never count a page twice that two of them map, nor leave out what only the kernel keeps for them.

use std::collections::HashMap;
use std::os::linux::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Context as _;

use super::cpu::parent;
use crate::machine::field;

/// What the kernel keeps for each thread, in KiB: its stack (`THREAD_SIZE` of x86-64,
/// Documentation/arch/x86/kernel-stacks.rst).
const KERNEL_STACK_KIB: f64 = 16.0;
/// `st_blocks` counts these (stat(2)).
const BLOCK_BYTES: f64 = 512.0;

/// A process that another one started, itself or through one that it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descendant {
    /// Its number.
    pub process: u32,
    /// Its name, of which the kernel keeps 15 bytes.
    pub name: String,
}

/// All descendants of a process. One that ends meanwhile is left out.
pub fn descendants(process: u32) -> anyhow::Result<Vec<Descendant>> {
    let entries = std::fs::read_dir("/proc").context("list the processes")?.filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for number in numbers {
        if let Some(parent) = parent(number) {
            children.entry(parent).or_default().push(number);
        }
    }
    let (mut found, mut looked_at) = (vec![process], 0);
    while let Some(process) = found.get(looked_at) {
        let more = children.remove(process).unwrap_or_default();
        found.extend(more);
        looked_at += 1;
    }
    let named = found.into_iter().skip(1).filter_map(|process| {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
        Some(Descendant { process, name: name.trim_end().to_owned() })
    });
    Ok(named.collect())
}

/// The name of a part of it, and how much it is.
pub type Part = (&'static str, fn(Held) -> f64);

/// Memory of a process and its descendants, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Held {
    /// What they keep to themselves (anonymous PSS). Their programs are in the page cache, once for whoever maps
    /// them on the machine, and do not count.
    pub own: f64,
    /// Memory that they share by descriptors: slabs and rings, once, mapped or not.
    pub shared: f64,
    /// Page tables.
    pub tables: f64,
    /// The kernel's stacks of their threads.
    pub stacks: f64,
}

impl Held {
    /// Its parts, by name.
    pub const PARTS: [Part; 4] = [
        ("processes", |held| held.own),
        ("slabs and rings", |held| held.shared),
        ("page tables", |held| held.tables),
        ("kernel stacks", |held| held.stacks),
    ];

    /// Of `process` and its descendants. Needs the right to look into them.
    pub fn by_tree(process: u32) -> anyhow::Result<Self> {
        let below = descendants(process)?.into_iter().map(|below| below.process);
        let (mut held, mut mapped) = (Self::default(), 0.0);
        let mut files = HashMap::new();
        for process in std::iter::once(process).chain(below) {
            let smaps = read(process, "smaps_rollup")?;
            let status = read(process, "status")?;
            held.own += kib(&smaps, "Pss_Anon")?;
            mapped += kib(&smaps, "Pss_Shmem")?;
            held.tables += kib(&status, "VmPTE")?;
            held.stacks += count(&status, "Threads")? * KERNEL_STACK_KIB;
            files.extend(memory_files(process)?);
        }
        // Either figure may lack something: pages that nobody maps now, files whose descriptors are closed.
        held.shared = mapped.max(files.values().sum());
        Ok(held)
    }

    /// All of it.
    pub fn total(self) -> f64 {
        self.own + self.shared + self.tables + self.stacks
    }
}

/// What the machine could give to new programs, in KiB (`MemAvailable`, proc_meminfo(5)).
pub fn available_kib() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("read the machine's memory")?;
    kib(&text, "MemAvailable")
}

/// Files in memory (memfd_create(2)) that a process has open: their numbers, and what they hold in KiB.
fn memory_files(process: u32) -> anyhow::Result<Vec<(u64, f64)>> {
    let directory = format!("/proc/{process}/fd");
    let entries = std::fs::read_dir(&directory).with_context(|| format!("list {directory}"))?;
    Ok(entries.filter_map(|entry| memory_file(&entry.ok()?.path())).collect())
}

fn memory_file(path: &Path) -> Option<(u64, f64)> {
    let name = std::fs::read_link(path).ok()?;
    if !name.to_str()?.starts_with("/memfd:") {
        return None;
    }
    let file = std::fs::metadata(path).ok()?;
    Some((file.st_ino(), file.st_blocks() as f64 * BLOCK_BYTES / 1024.0))
}

fn read(process: u32, what: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{process}/{what}");
    std::fs::read_to_string(&path).with_context(|| format!("read {path}"))
}

/// A value such as `12 kB`.
fn kib(text: &str, name: &str) -> anyhow::Result<f64> {
    count(text, name)
}

fn count(text: &str, name: &str) -> anyhow::Result<f64> {
    let value = field(text, name).and_then(|value| value.split_whitespace().next());
    let number = value.and_then(|number| number.parse().ok());
    number.with_context(|| format!("the kernel does not say {name}"))
}

#[cfg(test)]
mod tests;
