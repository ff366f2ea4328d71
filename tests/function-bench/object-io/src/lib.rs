//! Writes blocks as objects, each whole and once, or reads them: from the first to the last, or in an order without order. An object is
//! never written in part, so a block is one.

use mfaas::{Binding, Error, Json, Objects, Write};
use serde::{Deserialize, Serialize};

/// The objects of all workloads.
pub struct Blocks;

impl Binding for Blocks {
    const NAME: &'static str = "blocks";
    type Value = ();
}

/// How many blocks there are and the bytes of each, and which of them, in their order, are written or read by this call: an object is put
/// when its call has succeeded, and a call puts 256 at most.
#[derive(Debug, Deserialize)]
pub struct Query {
    path: String,
    blocks: u64,
    block: usize,
    from: u64,
    count: usize,
    writes: bool,
    is_random: bool,
    #[serde(default)]
    zeros: bool,
}

/// What was read or written: a sum over the blocks in their order.
#[derive(Debug, Serialize)]
pub struct Done {
    bytes: u64,
    sum: u64,
}

/// Takes `{"path": "a", "blocks": 100, "block": 4096, "from": 0, "count": 100, "writes": true, "is_random": false}`.
pub async fn handle(Json(query): Json<Query>, blocks: Objects<Blocks, Write>) -> Result<Json<Done>, Error> {
    let mut done = Done { bytes: 0, sum: 0 };
    for number in order(query.blocks, query.is_random).skip(query.from as usize).take(query.count) {
        let (name, offset) = (format!("{}/{number}", query.path), number * query.block as u64);
        let block = if query.writes {
            let block = if query.zeros { vec![0; query.block] } else { contents(offset, query.block) };
            blocks.put(&name, &block).await?;
            block
        } else {
            blocks.get(&name).await?.ok_or_else(|| Error::new("there is no such block"))?
        };
        if block.len() != query.block {
            return Err(Error::new("the block is another one"));
        }
        let bytes = block.iter().fold(offset, |sum, byte| sum.wrapping_add(u64::from(*byte)));
        done.sum = done.sum.wrapping_mul(31).wrapping_add(bytes);
        done.bytes += block.len() as u64;
    }
    Ok(Json(done))
}

/// What lies at `offset` and behind it: it tells each place from any other.
fn contents(offset: u64, bytes: usize) -> Vec<u8> {
    (offset..offset + bytes as u64).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Each number below `count` once. What is random about it is a generator that meets every number below a power of two.
fn order(count: u64, is_random: bool) -> impl Iterator<Item = u64> {
    let all = count.next_power_of_two();
    let mut state = 0_u64;
    let numbers = (0..all).map(move |at| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) % all;
        if is_random { state } else { at }
    });
    numbers.filter(move |number| *number < count)
}
