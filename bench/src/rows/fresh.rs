//! A call that begins with fresh state, without any queue: the executor against a fresh instance of
//! wasmtime.

use super::{Lane, Plan, alternate};
use crate::functions::Kind;
use crate::report::{Bound, Row};
use crate::sides::mfaas::InExecutor;
use crate::sides::{Kit, Side, latency, wasm};

const MFAAS: &str = "mfaas, in the executor";
const WASM: &str = "wasmtime, fresh instance";
const TIMES_FASTER_MIN: f64 = 10.0;

/// The row.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("fresh", "one call with fresh state, no queue, whole: answer included");
    for (what, kind) in [("empty", Kind::EMPTY), ("SHA-512 of 64 B", Kind::HASH)] {
        let calls = plan.size(20_000, 100);
        let wasm = wasm::side(kind);
        let wasm = match wasm {
            Ok(mut side) => {
                row.side(WASM, side.protections());
                Some(Lane::new(WASM, move || latency(side.as_mut(), kit.tsc, calls, 1)))
            }
            Err(error) => {
                row.missing(WASM, &error);
                None
            }
        };
        let in_executor =
            Lane::of(&mut row, MFAAS, InExecutor::new(kit, kind), move |side: &mut InExecutor| {
                latency(side as &mut dyn Side, kit.tsc, calls, 1)
            });
        let series = alternate(plan, &mut row, vec![in_executor, wasm]);
        let p50 = |name: &str| series.of(name, |latency| latency.whole.p50);
        row.measure(format!("{MFAAS} p50, {what}"), "µs", p50(MFAAS));
        row.measure(format!("{WASM} p50, {what}"), "µs", p50(WASM));
        let faster = row.ratio(format!("times faster p50, {what}"), &p50(WASM), &p50(MFAAS));
        if kind == Kind::EMPTY {
            faster.aim(Bound::AtLeast, TIMES_FASTER_MIN);
        }
    }
    Ok(row)
}
