//! What counts by bucket say of a quantile: the bucket that it lies in, and no more.

use mfaas_wire::QuantileView;

/// The bucket of the smallest time that `percent` of all do not pass; `None` without any.
pub(super) fn quantile(counts: &[u64], edges: &[u64], percent: u8) -> Option<QuantileView> {
    let all: u128 = counts.iter().map(|count| u128::from(*count)).sum();
    // The rank that the quantile has, from 1: the nearest rank.
    let rank = (all * u128::from(percent)).div_ceil(100).max(1);
    let mut below = 0_u128;
    let bucket = counts.iter().position(|count| {
        below += u128::from(*count);
        below >= rank
    })?;
    let above = bucket.checked_sub(1).and_then(|before| edges.get(before)).copied().unwrap_or(0);
    (all > 0).then_some(QuantileView { above, up_to: edges.get(bucket).copied() })
}

#[cfg(test)]
mod tests;
