//! What it costs a call to wait: put aside, brought back, in the executor alone, beside the same function that has as much memory
//! in use and does not wait.

use std::cell::RefCell;

use super::{Lane, Plan, alternate};
use crate::functions::Kind;
use crate::report::{Bound, Row};
use crate::sides::mfaas::{EXECUTOR_PROTECTIONS, WaitingInExecutor};
use crate::sides::{Kit, latency};

/// Memory that a call has in use, in KiB.
const KIB: [u64; 4] = [1, 4, 16, 64];
/// The size that the aim is about, in KiB, and what waiting with it may cost, in µs.
const AIMED_KIB: u64 = 4;
const COST_US_MAX: f64 = 0.3;

/// The row.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("suspend", "a call that waits once: put aside with its memory, and brought back");
    let calls = plan.size(20_000, 100);
    for kib in KIB {
        let (waits, holds) = (format!("waits, {kib} KiB"), format!("does not wait, {kib} KiB"));
        // One executor in a process: both lanes share it.
        let side = RefCell::new(WaitingInExecutor::new(kit, kib << 10)?);
        let mut lane = |name: &str, kind: Kind| {
            row.side(name, EXECUTOR_PROTECTIONS.to_owned());
            let side = &side;
            Some(Lane::new(name, move || {
                let mut side = side.borrow_mut();
                side.choose(kind);
                latency(&mut *side, kit.tsc, calls, 1)
            }))
        };
        let (wait, hold) = (Kind::wait(kib << 10), Kind::hold(kib << 10));
        let lanes = vec![lane(&waits, wait), lane(&holds, hold)];
        let series = alternate(plan, &mut row, lanes);
        let p50 = |name: &str| series.of(name, |latency| latency.whole.p50);
        let (waits_us, holds_us) = (p50(&waits), p50(&holds));
        let cost = waits_us.iter().zip(&holds_us).map(|(waits, holds)| waits - holds).collect();
        row.measure(format!("{waits}, p50"), "µs", waits_us);
        row.measure(format!("{holds}, p50"), "µs", holds_us);
        let cost = row.measure(format!("suspending and resuming, {kib} KiB"), "µs", cost);
        if kib == AIMED_KIB {
            cost.aim(Bound::AtMost, COST_US_MAX);
        }
    }
    Ok(row)
}
