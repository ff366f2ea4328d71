//! What a call token costs: the same function of the same node, called without one, with one that the node knows, and with
//! one that it has to verify.

use super::{Lane, Plan, alternate};
use crate::report::Row;
use crate::sides::mfaas::{Callers, Shown};
use crate::sides::{Kit, Latency};

/// The row. One node answers all of it, so that the token is the only difference.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row =
        Row::new("tokens", "a call over HTTP without a call token, with a known one, with a new one");
    let calls = plan.size(2_000, 20);
    let callers = Callers::start(kit)?;
    row.side("node", callers.protections());
    let lane = |shown: Shown| {
        let callers = &callers;
        Some(Lane::new(shown.name(), move || callers.round(shown, kit.tsc, calls)))
    };
    let lanes = Shown::ALL.into_iter().map(lane).collect();
    let series = alternate(plan, &mut row, lanes);
    let p50 = |shown: Shown| series.of(shown.name(), |round: &Latency| round.whole.p50);
    let without = p50(Shown::Nothing);
    for shown in Shown::ALL {
        row.measure(format!("{}, p50", shown.name()), "µs", p50(shown));
        row.measure(format!("{}, p99", shown.name()), "µs", series.of(shown.name(), |round| round.whole.p99));
    }
    for shown in [Shown::KnownToken, Shown::NewToken] {
        let name = shown.name();
        let extra = p50(shown).iter().zip(&without).map(|(with, without)| with - without).collect();
        row.ratio(format!("{name} / {}, p50", Shown::Nothing.name()), &p50(shown), &without);
        row.measure(format!("{name}, p50 above {}", Shown::Nothing.name()), "µs", extra);
    }
    Ok(row)
}
