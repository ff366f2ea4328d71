//! The inspector of images.

use std::ops::Range;

use mfaas_inspect::{Layout, Relocation, SymbolTarget, inspect, layout};
use mfaas_rules::judge_binary;

/// Any bytes as an image.
///
/// # Panics
/// When a layout leads a loader that obeys it out of the file or out of its own segments, or when
/// there is a layout for what has no facts.
pub fn elf(input: &[u8]) {
    let facts = inspect(input);
    if let Ok(facts) = &facts {
        let _ = judge_binary(facts);
    }
    if let Ok(layout) = layout(input) {
        assert!(facts.is_ok_and(|facts| facts.is_x86_64_shared_object), "a layout without facts");
        check(input, &layout);
    }
}

fn check(data: &[u8], layout: &Layout) {
    let mut end = 0;
    for segment in &layout.segments {
        assert!(segment.file_offset + segment.file_size <= data.len() as u64);
        assert!(segment.file_size <= segment.mem_size);
        assert!(segment.va >= end && segment.range().end <= layout.span_bytes);
        assert!(segment.align.is_power_of_two());
        assert!(!(segment.access.write && segment.access.execute));
        end = segment.range().end;
    }
    for relocation in &layout.relocations {
        let at = target(relocation, layout);
        let holds = |range: Range<u64>| range.start <= at && at + 8 <= range.end;
        let mut writable = layout.segments.iter().filter(|segment| segment.access.write);
        assert!(writable.any(|segment| holds(segment.range())), "{relocation:?}");
    }
    if let Some(relro) = &layout.relro {
        let inside = |range: Range<u64>| range.start <= relro.start && relro.end <= range.end;
        assert!(layout.segments.iter().any(|segment| segment.access.write && inside(segment.range())));
    }
    assert!(layout.exports.iter().all(|export| export.va <= layout.span_bytes));
}

/// Where a relocation writes; what it writes is checked.
fn target(relocation: &Relocation, layout: &Layout) -> u64 {
    match *relocation {
        Relocation::Relative { at, addend } => {
            assert!(addend <= layout.span_bytes);
            at
        }
        Relocation::Symbol { at, target: SymbolTarget::Import(number), .. } => {
            assert!(number < layout.imports.len());
            at
        }
        Relocation::Symbol { at, target: SymbolTarget::Defined(value), .. } => {
            assert!(value <= layout.span_bytes);
            at
        }
        Relocation::TlsModule { at } => at,
        Relocation::TlsOffset { at, value } => {
            assert!(value <= layout.tls.map_or(0, |tls| tls.mem_size));
            at
        }
    }
}
