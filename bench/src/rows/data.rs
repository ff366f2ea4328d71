//! What a function waits for data and for other functions: in a cache of the node, at the broker, in files, and beside clients of a
//! database and of a store of objects.
//!
//! Each is a difference of calls over HTTP in the same round: of one with the operation and one without, or of one with many and one
//! with a single one, by how many more they are. So nothing of the call itself is in it.

use mfaas_ident::ResourceKind;

use super::{Lane, Plan, Workers, alternate, single_calls};
use crate::functions::Kind;
use crate::report::{Bound, Row};
use crate::sides::bare::{Bare, Mode};
use crate::sides::mfaas::{CALLED, Data, Reached};
use crate::sides::{Kit, Latency, Side};

/// Bytes of a value.
const VALUE_BYTES: u64 = 100;
/// How many more operations the call with many has.
const MORE: u64 = 64;

/// Of a cache, in µs.
const CACHE_US_MAX: f64 = 1.0;
/// Of another function of the tenant where its caller is, by the dispatcher, and of one in another tenant's process whose worker sleeps or looks, in µs.
const INLINE_US_MAX: f64 = 0.3;
const CALL_US_MAX: f64 = 0.5;
const OTHER_TENANT_PARKED_US_MAX: f64 = 15.0;
const OTHER_TENANT_AWAKE_US_MAX: f64 = 3.0;
/// A round trip to the broker, by one over a bare ring.
const BROKER_RATIO_MAX: f64 = 2.0;
/// Of a page of a file that is in memory, in µs.
const PAGE_US_MAX: f64 = 2.0;
/// By the clients.
const DATABASE_RATIO_MAX: f64 = 1.1;
const REDIS_RATIO_MAX: f64 = 1.2;
const OBJECT_RATIO_MAX: f64 = 1.05;

const NONE: &str = "no operation";
const ONE: &str = "one operation";
const MANY: &str = "many operations";
const CLIENT: &str = "client";
const BARE: &str = "bare ring";

/// Another function, where its caller is.
pub(super) fn call_inline(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let row = Row::new("call-inline", "another function of the tenant, with 64 B, where its caller is");
    of_callees(kit, plan, row, (Reached::INLINE, INLINE_US_MAX))
}

/// Another function, which has data, by the dispatcher.
pub(super) fn call(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let row = Row::new("call", "another function of the tenant, with 64 B, by the dispatcher");
    of_callees(kit, plan, row, (Reached::to(ResourceKind::Cache), CALL_US_MAX))
}

/// The same of another tenant, in a process of that one's.
pub(super) fn call_other_tenant(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let us_max = match plan.workers {
        Workers::Parked => OTHER_TENANT_PARKED_US_MAX,
        Workers::Polling => OTHER_TENANT_AWAKE_US_MAX,
    };
    let row = Row::new("call-other-tenant", "a function of another tenant, with 64 B, in its own process");
    of_callees(kit, plan, row, (Reached::OTHER_TENANT, us_max))
}

fn of_callees(
    kit: &Kit,
    plan: &Plan,
    mut row: Row,
    (reached, us_max): (Reached, f64),
) -> anyhow::Result<Row> {
    let functions = [(CALLED, Kind::get(0)), ("many", Kind::call(MORE))];
    let data = Data::start(kit, worker(kit, plan), reached, &functions)?;
    let calls = plan.size(500, 20);
    let lanes = vec![
        of_calls(kit, &mut row, &data, (NONE, CALLED), calls),
        of_calls(kit, &mut row, &data, (MANY, "many"), calls),
    ];
    let series = alternate(plan, &mut row, lanes);
    let p50 = |name: &str| series.of(name, |latency: &Latency| latency.whole.p50);
    row.measure("a call without any", "µs", p50(NONE));
    row.measure("a call of the other function, p50", "µs", each(&p50(MANY), &p50(NONE), MORE))
        .aim(Bound::AtMost, us_max);
    Ok(row)
}

/// A value of a cache.
pub(super) fn cache(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("cache", "a value of 100 B of a cache of the node");
    let functions = [("put", Kind::put(VALUE_BYTES)), ("none", Kind::get(0)), ("many", Kind::get(MORE))];
    let data = Data::start(kit, worker(kit, plan), Reached::to(ResourceKind::Cache), &functions)?;
    let calls = plan.size(500, 20);
    let lanes = vec![
        of_calls(kit, &mut row, &data, (NONE, "none"), calls),
        of_calls(kit, &mut row, &data, (MANY, "many"), calls),
    ];
    let series = alternate(plan, &mut row, lanes);
    let p50 = |name: &str| series.of(name, |latency: &Latency| latency.whole.p50);
    row.measure("a call without any", "µs", p50(NONE));
    row.measure("a get, p50", "µs", each(&p50(MANY), &p50(NONE), MORE)).aim(Bound::AtMost, CACHE_US_MAX);
    Ok(row)
}

/// A value that the broker knows already: there and back, and nothing else.
pub(super) fn broker(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("broker", "a value of 100 B that the call has seen already, at the broker");
    let functions = [("put", Kind::put(VALUE_BYTES)), ("one", Kind::get(1)), ("many", Kind::get(1 + MORE))];
    let data = Data::start(kit, worker(kit, plan), Reached::to(ResourceKind::Kv), &functions)?;
    let calls = plan.size(200, 10);
    let bare = Bare::start(kit, Mode::Plain, Kind::EMPTY, 1);
    let lanes = vec![
        of_calls(kit, &mut row, &data, (ONE, "one"), calls),
        of_calls(kit, &mut row, &data, (MANY, "many"), calls),
        single_calls(kit, &mut row, BARE, bare, (plan.size(20_000, 200), 1)),
    ];
    let series = alternate(plan, &mut row, lanes);
    let p50 = |name: &str| series.of(name, |latency: &Latency| latency.whole.p50);
    let trip = each(&p50(MANY), &p50(ONE), MORE);
    row.measure("a round trip, p50", "µs", trip.clone());
    row.measure(format!("{BARE} p50"), "µs", p50(BARE));
    row.ratio(format!("a round trip / {BARE}"), &trip, &p50(BARE)).aim(Bound::AtMost, BROKER_RATIO_MAX);
    Ok(row)
}

/// A value of PostgreSQL.
pub(super) fn kv(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let row = Row::new("kv", "a value of 100 B of PostgreSQL");
    one_value(kit, plan, row, Reached::to(ResourceKind::Kv), DATABASE_RATIO_MAX, Data::database_client)
}

/// A value of Redis.
pub(super) fn redis(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let row = Row::new("redis", "a value of 100 B of Redis");
    one_value(kit, plan, row, Reached::REDIS, REDIS_RATIO_MAX, Data::redis_client)
}

/// A value of a store, beside a client of it.
fn one_value<C: Side>(
    kit: &Kit,
    plan: &Plan,
    mut row: Row,
    reached: Reached,
    ratio_max: f64,
    client: impl FnOnce(&Data) -> anyhow::Result<C>,
) -> anyhow::Result<Row> {
    let functions = [("put", Kind::put(VALUE_BYTES)), ("none", Kind::get(0)), ("one", Kind::get(1))];
    let data = Data::start(kit, worker(kit, plan), reached, &functions)?;
    let calls = plan.size(500, 20);
    let client = client(&data);
    let lanes = vec![
        of_calls(kit, &mut row, &data, (NONE, "none"), calls),
        of_calls(kit, &mut row, &data, (ONE, "one"), calls),
        single_calls(kit, &mut row, CLIENT, client, (calls, 1)),
    ];
    let series = alternate(plan, &mut row, lanes);
    let p50 = |name: &str| series.of(name, |latency: &Latency| latency.whole.p50);
    let get = each(&p50(ONE), &p50(NONE), 1);
    row.measure("a get, p50", "µs", get.clone());
    row.measure(format!("{CLIENT} p50"), "µs", p50(CLIENT));
    row.ratio(format!("a get / {CLIENT}"), &get, &p50(CLIENT)).aim(Bound::AtMost, ratio_max);
    Ok(row)
}

/// An object in a directory.
pub(super) fn object(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("object", "an object of 100 KiB in a directory");
    let functions = [
        ("put", Kind::PUT_OBJECT),
        ("none", Kind::read_object(0)),
        ("one", Kind::read_object(1)),
        ("many", Kind::read_object(1 + MORE)),
    ];
    let data = Data::start(kit, worker(kit, plan), Reached::to(ResourceKind::Object), &functions)?;
    let calls = plan.size(100, 5);
    let client = data.object_client();
    let lanes = vec![
        of_calls(kit, &mut row, &data, (NONE, "none"), calls),
        of_calls(kit, &mut row, &data, (ONE, "one"), calls),
        of_calls(kit, &mut row, &data, (MANY, "many"), calls),
        single_calls(kit, &mut row, CLIENT, client, (calls, 1)),
    ];
    let series = alternate(plan, &mut row, lanes);
    let p50 = |name: &str| series.of(name, |latency: &Latency| latency.whole.p50);
    let (first, again) = (each(&p50(ONE), &p50(NONE), 1), each(&p50(MANY), &p50(ONE), MORE));
    row.measure("read for the first time by a call, p50", "µs", first.clone());
    row.measure("read again, p50", "µs", again.clone());
    row.measure(format!("{CLIENT} p50"), "µs", p50(CLIENT));
    row.ratio(format!("read for the first time / {CLIENT}"), &first, &p50(CLIENT))
        .aim(Bound::AtMost, OBJECT_RATIO_MAX);
    row.ratio(format!("read again / {CLIENT}"), &again, &p50(CLIENT));
    Ok(row)
}

/// A page of a file in a directory.
pub(super) fn volume(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("volume", "4 KiB of a file in a directory, in the page cache");
    let functions =
        [("put", Kind::WRITE_FILE), ("one", Kind::read_file(1)), ("many", Kind::read_file(1 + MORE))];
    let data = Data::start(kit, worker(kit, plan), Reached::to(ResourceKind::Volume), &functions)?;
    let calls = plan.size(100, 5);
    let lanes = vec![
        of_calls(kit, &mut row, &data, (ONE, "one"), calls),
        of_calls(kit, &mut row, &data, (MANY, "many"), calls),
    ];
    let series = alternate(plan, &mut row, lanes);
    let p50 = |name: &str| series.of(name, |latency: &Latency| latency.whole.p50);
    row.measure("a call with one", "µs", p50(ONE));
    row.measure("a read, p50", "µs", each(&p50(MANY), &p50(ONE), MORE)).aim(Bound::AtMost, PAGE_US_MAX);
    Ok(row)
}

/// The core that the node's worker has for itself, if it has one.
fn worker(kit: &Kit, plan: &Plan) -> Option<usize> {
    (plan.workers == Workers::Polling).then_some(kit.cores.worker)
}

/// Single calls of one of the functions.
fn of_calls<'a>(
    kit: &'a Kit,
    row: &mut Row,
    data: &Data,
    (lane, function): (&str, &str),
    calls: u64,
) -> Option<Lane<'a, Latency>> {
    single_calls(kit, row, lane, data.calls(function), (calls, 1))
}

/// What one of `count` operations takes that a call has more than another, round by round.
fn each(more: &[f64], less: &[f64], count: u64) -> Vec<f64> {
    more.iter().zip(less).map(|(more, less)| (more - less) / count as f64).collect()
}
