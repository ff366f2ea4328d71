//! One loaded function: its segments, its thread-local block, and the snapshot that every call
//! starts from.
//!
//! Code and constants come straight from the sealed file, shared by all workers; what is writable
//! is a private copy. Constructors never run: std's only stores `argc` and `argv`, which a
//! function has none of.

use std::ops::Range;
use std::os::fd::AsFd;

use mfaas_abi::symbols;
use mfaas_inspect::{Layout, Segment};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::memory::{PAGE_BYTES, Region};
use crate::relocate::relocate;
use crate::sealed::read_sealed;
use crate::{CageError, system};

/// Zeros up to this many bytes are written; larger runs go back to the kernel.
const ZEROED_BYTES_MAX: usize = 32 << 10;

/// A function, ready to be called through [`crate::Cage::call`].
#[derive(Debug)]
pub struct Image {
    region: Region,
    entry: usize,
    restored: Vec<Restored>,
    pristine: Vec<u8>,
}

/// A writable run of the image and what it held after loading.
#[derive(Debug)]
struct Restored {
    /// Offsets in the image: what is copied back from `pristine`, then what is zero.
    copied: Range<usize>,
    zero: Range<usize>,
    /// Where its bytes begin in `pristine`.
    pristine_at: usize,
}

impl Image {
    /// Loads the image behind a memfd that is sealed against writing. The descriptor is not needed
    /// afterwards.
    pub fn load(fd: impl AsFd) -> Result<Self, CageError> {
        let bytes = read_sealed(&fd)?;
        let layout = mfaas_inspect::layout(&bytes)?;
        let entry = entry_of(&layout)?;
        let span = usize::try_from(layout.span_bytes).map_err(|_| CageError::Unmappable("too large"))?;
        let tls = TlsArea::behind(span, &layout)?;
        let region = Region::reserve(tls.end())?;
        for segment in &layout.segments {
            if segment.access.write {
                map_writable(&region, segment, &bytes)?;
            } else {
                map_shared(&region, segment, &fd)?;
            }
        }
        region.protect(tls.pages.clone(), MprotectFlags::READ | MprotectFlags::WRITE)?;
        relocate(&region, &layout, region.at(tls.block).addr() as u64)?;
        tls.fill(&region, &layout);
        if let Some(relro) = &layout.relro {
            region.protect(relro.start as usize..relro.end as usize, MprotectFlags::READ)?;
        }
        let mut image = Self { entry: region.address() + entry, region, restored: vec![], pristine: vec![] };
        for run in writable_runs(&layout) {
            image.remember(run);
        }
        image.remember(tls.pages);
        Ok(image)
    }

    /// Address of the entry.
    pub(crate) fn entry(&self) -> usize {
        self.entry
    }

    /// Makes everything writable what it was after loading.
    pub(crate) fn restore(&mut self) {
        for run in &self.restored {
            let from = &self.pristine[run.pristine_at..run.pristine_at + run.copied.len()];
            let to = self.region.at(run.copied.start);
            // SAFETY: INV-CAGE-3. A writable run of the image; no call runs (`&mut self`).
            unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
            let kept_end = run.zero.end.min(run.zero.start + ZEROED_BYTES_MAX).next_multiple_of(PAGE_BYTES);
            let kept_end = kept_end.min(run.zero.end);
            self.region.zero(run.zero.start..kept_end);
            self.region.discard(kept_end..run.zero.end);
        }
    }

    /// Takes a writable run of whole pages into the snapshot.
    fn remember(&mut self, run: Range<usize>) {
        // SAFETY: INV-CAGE-3. Mapped by `load`, and nothing runs yet.
        let held = unsafe { std::slice::from_raw_parts(self.region.at(run.start), run.len()) };
        let used = held.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let pristine_at = self.pristine.len();
        self.pristine.extend_from_slice(&held[..used]);
        let border = run.start + used;
        self.restored.push(Restored { copied: run.start..border, zero: border..run.end, pristine_at });
    }
}

/// Offset of the entry symbol, which must be code.
fn entry_of(layout: &Layout) -> Result<usize, CageError> {
    let code = |va: u64| {
        layout.segments.iter().any(|segment| segment.access.execute && segment.range().contains(&va))
    };
    layout
        .exports
        .iter()
        .find(|export| export.name == symbols::ENTRY && code(export.va))
        .map(|export| export.va as usize)
        .ok_or(CageError::NoEntry)
}

/// Pages of writable segments that stay writable.
fn writable_runs(layout: &Layout) -> Vec<Range<usize>> {
    let relro = layout.relro.clone().unwrap_or(0..0);
    let mut runs = Vec::new();
    for segment in layout.segments.iter().filter(|segment| segment.access.write) {
        let pages = segment.pages();
        if relro.start < pages.end && pages.start < relro.end {
            runs.push(pages.start..relro.start);
            runs.push(relro.end..pages.end);
        } else {
            runs.push(pages);
        }
    }
    runs.retain(|run| !run.is_empty());
    runs.into_iter().map(|run| run.start as usize..run.end as usize).collect()
}

/// A private writable segment with the file's bytes.
fn map_writable(region: &Region, segment: &Segment, bytes: &[u8]) -> Result<(), CageError> {
    if segment.access.execute {
        return Err(CageError::Unmappable("a segment is writable and executable"));
    }
    let pages = offsets(segment.pages());
    region.protect(pages, MprotectFlags::READ | MprotectFlags::WRITE)?;
    let from = segment.file_offset as usize;
    let source = from
        .checked_add(segment.file_size as usize)
        .and_then(|end| bytes.get(from..end))
        .filter(|source| source.len() as u64 <= segment.mem_size)
        .ok_or(CageError::Unmappable("a segment lies outside the file"))?;
    let to = region.at(segment.va as usize);
    // SAFETY: INV-CAGE-3. Just made writable, and at least `mem_size` bytes long.
    unsafe { to.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
    Ok(())
}

/// A read-only segment, straight from the sealed file.
fn map_shared(region: &Region, segment: &Segment, fd: &impl AsFd) -> Result<(), CageError> {
    let pages = offsets(segment.pages());
    region.check(&pages)?;
    let skew = segment.va % PAGE_BYTES as u64;
    if segment.file_size != segment.mem_size || segment.file_offset % PAGE_BYTES as u64 != skew {
        return Err(CageError::Unmappable("a read-only segment is not a run of the file"));
    }
    let mut access = ProtFlags::READ;
    if segment.access.execute {
        access |= ProtFlags::EXEC;
    }
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    let (at, from) = (region.at(pages.start).cast(), segment.file_offset - skew);
    // SAFETY: INV-CAGE-3. Replaces reserved pages of our own region, checked above.
    unsafe { rustix::mm::mmap(at, pages.len(), access, flags, fd, from) }.map_err(system("map a segment"))?;
    Ok(())
}

fn offsets(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// The thread-local block, on pages of its own behind the image.
struct TlsArea {
    pages: Range<usize>,
    block: usize,
}

impl TlsArea {
    /// A page without access lies between the image and the block.
    fn behind(span: usize, layout: &Layout) -> Result<Self, CageError> {
        let (bytes, align) = layout.tls.map_or((0, 1), |tls| (tls.mem_size as usize, tls.align as usize));
        if align > PAGE_BYTES || layout.tls.is_some_and(|tls| tls.file_size > tls.mem_size) {
            return Err(CageError::Unmappable("a thread-local block that cannot be"));
        }
        let start = span + PAGE_BYTES;
        Ok(Self { pages: start..start + bytes.next_multiple_of(PAGE_BYTES), block: start })
    }

    fn end(&self) -> usize {
        self.pages.end + PAGE_BYTES
    }

    /// Copies the initial bytes, relocated, from the image.
    fn fill(&self, region: &Region, layout: &Layout) {
        let Some(tls) = layout.tls else { return };
        let (from, to) = (region.at(tls.va as usize), region.at(self.block));
        // SAFETY: INV-CAGE-3. The template lies in a mapped segment; the block has room for it.
        unsafe { to.copy_from_nonoverlapping(from, tls.file_size as usize) };
    }
}
