//! What all protections together cost a function of one microsecond: calls a second with everything
//! on, against the same function with everything off.

use super::resident::rate;
use super::{Lane, Plan, alternate};
use crate::functions::{Form, Kind};
use crate::report::{Bound, Row};
use crate::sides::Kit;
use crate::sides::bare::{Bare, Mode};
use crate::sides::mfaas::{Worker, equal};
use crate::sys::pin;

const ON: &str = "everything on";
const OFF: &str = "everything off";
const KEPT_MIN: f64 = 0.90;
const FUNCTION_US: f64 = 1.0;

/// The row. Off is a plain call out of an opened library behind the bare ring: no worker of ours
/// runs without its protections.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row =
        Row::new("tax", "calls a second of a function of 1 µs, everything on against everything off");
    let calls = plan.size(100_000, 300);
    pin(kit.cores.worker)?;
    let busy = Kind::busy_micros(FUNCTION_US, kit.tsc);
    pin(kit.cores.caller)?;
    let on = Worker::start(kit, Form::Hosted, equal(busy, 1));
    let off = Bare::start(kit, Mode::Kept, busy, 1);
    let lanes = vec![
        Lane::of(&mut row, ON, on, |side| rate(side, calls, 1)),
        Lane::of(&mut row, OFF, off, |side| rate(side, calls, 1)),
    ];
    let series = alternate(plan, &mut row, lanes);
    let of = |name: &str| series.of(name, |rate| *rate);
    row.measure(ON, "M/s", of(ON));
    row.measure(OFF, "M/s", of(OFF));
    row.ratio(format!("{ON} / {OFF}"), &of(ON), &of(OFF)).aim(Bound::AtLeast, KEPT_MIN);
    Ok(row)
}
