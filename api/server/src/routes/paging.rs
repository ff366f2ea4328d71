//! Pages of lists: how many rows, behind which, and where to read on.

use mfaas_wire::Page;

use crate::limits;
use crate::refusal::Refusal;

/// Rows that a caller asked for.
pub(super) fn rows(limit: Option<u32>) -> Result<u32, Refusal> {
    let rows = limit.unwrap_or(limits::PAGE_ROWS_DEFAULT);
    let fits = (1..=limits::PAGE_ROWS_MAX).contains(&rows).then_some(rows);
    fits.ok_or_else(|| Refusal::invalid(format!("`limit` is 1 to {}.", limits::PAGE_ROWS_MAX)))
}

/// Behind which row a caller wants to read on; 0 is before all.
pub(super) fn cursor(after: Option<i64>) -> Result<i64, Refusal> {
    let fits = Some(after.unwrap_or(0)).filter(|after| *after >= 0);
    fits.ok_or_else(|| Refusal::invalid("`after` is 0 or more."))
}

/// A page out of rows of which one more than `limit` was asked for; `cursor` names the last row
/// that is shown.
pub(super) fn page<T>(mut items: Vec<T>, limit: u32, cursor: impl Fn(&T) -> String) -> Page<T> {
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if more { items.last().map(cursor) } else { None };
    Page { items, next }
}
