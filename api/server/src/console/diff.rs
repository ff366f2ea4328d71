//! A file as what changed in it since the version that was decided about before.
//!
//! Changed lines with a few around them, a page of rows at a time. Hotspots stand at the lines of the new text, where
//! they are looked for. What could not be compared says so instead of looking unchanged.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

use mfaas_audit::delta::{Block, NotCompared, blocks};

use super::hotspots::HotspotRow;
use super::source::{Budget, LineRow, line_rows};
use crate::limits;

/// One row.
pub(super) struct DiffRow {
    pub(super) kind: Kind,
    /// Its line in the old text; 0 for none.
    pub(super) old: usize,
    pub(super) line: LineRow,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// In both.
    Same,
    /// In the new text alone.
    Came,
    /// In the old text alone.
    Went,
    /// Lines that are the same are left out before it; it is in both.
    Gap,
}

impl DiffRow {
    /// Its class in the style sheet.
    pub(super) fn class(&self) -> &'static str {
        match self.kind {
            Kind::Same => "same",
            Kind::Gap => "same gap",
            Kind::Came => "came",
            Kind::Went => "went",
        }
    }

    /// What it is, for those who do not see colours.
    pub(super) fn sign(&self) -> &'static str {
        match self.kind {
            Kind::Same | Kind::Gap => " ",
            Kind::Came => "+",
            Kind::Went => "−",
        }
    }

    /// Its line in the new text; 0 for none.
    pub(super) fn new_line(&self) -> usize {
        if self.kind == Kind::Went { 0 } else { self.line.number }
    }
}

/// A page of a comparison.
pub(super) struct DiffPage {
    pub(super) rows: Vec<DiffRow>,
    pub(super) added: usize,
    pub(super) removed: usize,
    /// This page, and all of them, from 1.
    pub(super) page: usize,
    pub(super) pages: usize,
    /// Hotspots of the file that stand in no row of any page.
    pub(super) hotspots_elsewhere: usize,
    /// Some rows are without colours.
    pub(super) plain: bool,
}

/// A row before its text is read: what it is, and its lines, from 0.
type Row = (Kind, usize, usize);

/// Compares and draws the page that holds line `line` of the new text, or else the page of that number.
pub(super) fn diff_page(
    (old, new): (&str, &str),
    rust: bool,
    hotspots: &[HotspotRow],
    (line, page): (Option<usize>, usize),
) -> Result<DiffPage, NotCompared> {
    let blocks = blocks(old, new, Instant::now() + limits::CONSOLE_DIFF_TIME_MAX)?;
    let all = rows(&blocks);
    let size = limits::CONSOLE_DIFF_ROWS_MAX;
    let pages = all.len().div_ceil(size).max(1);
    let at = line.and_then(|line| all.iter().position(|row| row.0 != Kind::Went && row.2 + 1 == line));
    let page = at.map_or(page, |at| at / size + 1).clamp(1, pages);
    let shown = &all[(page - 1) * size..(page * size).min(all.len())];
    let mut budget = Budget::of_page();
    let wanted = |went: bool| {
        let lines = shown.iter().filter(|row| (row.0 == Kind::Went) == went);
        merged(lines.map(|row| if went { row.1 } else { row.2 }))
    };
    let news = line_rows(new, rust, &wanted(false), hotspots, true, &mut budget);
    let olds = line_rows(old, rust, &wanted(true), &[], true, &mut budget);
    let (mut news, mut olds) = (news.into_iter(), olds.into_iter());
    let drawn = shown.iter().filter_map(|&(kind, old, _)| {
        let line = if kind == Kind::Went { olds.next() } else { news.next() }?;
        Some(DiffRow { kind, old: if kind == Kind::Came { 0 } else { old + 1 }, line })
    });
    let rows: Vec<DiffRow> = drawn.collect();
    let count = |kind| all.iter().filter(|row| row.0 == kind).count();
    let new_lines: BTreeSet<usize> =
        all.iter().filter(|row| row.0 != Kind::Went).map(|row| row.2 + 1).collect();
    let is_shown =
        |hotspot: &&HotspotRow| usize::try_from(hotspot.line).is_ok_and(|line| new_lines.contains(&line));
    Ok(DiffPage {
        added: count(Kind::Came),
        removed: count(Kind::Went),
        page,
        pages,
        hotspots_elsewhere: hotspots.len() - hotspots.iter().filter(is_shown).count(),
        plain: budget.is_plain(),
        rows,
    })
}

/// Every row of a comparison: changed lines, and those around them.
fn rows(blocks: &[Block]) -> Vec<Row> {
    let around = limits::CONSOLE_DIFF_AROUND_LINES;
    let mut rows: Vec<Row> = Vec::new();
    let last = blocks.len().saturating_sub(1);
    for (index, block) in blocks.iter().enumerate() {
        if !block.same {
            rows.extend(block.old.clone().map(|old| (Kind::Went, old, block.new.start)));
            rows.extend(block.new.clone().map(|new| (Kind::Came, block.old.end, new)));
            continue;
        }
        let length = block.new.len();
        let head = if index == 0 { 0 } else { around.min(length) };
        let tail = if index == last { 0 } else { around.min(length - head) };
        for offset in (0..head).chain(length - tail..length) {
            let is_gap = offset == length - tail && head + tail < length;
            let kind = if is_gap { Kind::Gap } else { Kind::Same };
            rows.push((kind, block.old.start + offset, block.new.start + offset));
        }
    }
    rows
}

/// Line numbers in order as ranges.
fn merged(lines: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for line in lines {
        match ranges.last_mut() {
            Some(range) if range.end == line => range.end += 1,
            _ => ranges.push(line..line + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests;
