//! Writes the blocks of a file, each once, or reads them: from the first to the last, or in an order without order. What was written lies on
//! its disk then.

use mfaas::{Binding, Error, Json, Volume, Write};
use serde::{Deserialize, Serialize};

/// The files of all workloads.
pub struct Files;

impl Binding for Files {
    const NAME: &'static str = "files";
    type Value = ();
}

/// Which file, how many blocks it has and the bytes of each, and what is done with the first `count` of them in their order, or with all.
#[derive(Debug, Deserialize)]
pub struct Query {
    path: String,
    blocks: u64,
    block: usize,
    count: Option<usize>,
    writes: bool,
    is_random: bool,
}

/// What was read or written: a sum over the blocks in their order.
#[derive(Debug, Serialize)]
pub struct Done {
    bytes: u64,
    sum: u64,
}

/// Takes `{"path": "a", "blocks": 100, "block": 4096, "writes": true, "is_random": false}`.
pub async fn handle(Json(query): Json<Query>, files: Volume<Files, Write>) -> Result<Json<Done>, Error> {
    let mut done = Done { bytes: 0, sum: 0 };
    let file = files.open_or_create(&query.path).await?;
    for number in order(query.blocks, query.is_random).take(query.count.unwrap_or(usize::MAX)) {
        let offset = number * query.block as u64;
        let block = if query.writes {
            let block = contents(offset, query.block);
            file.write_at(offset, &block).await?;
            block
        } else {
            file.read_at(offset, query.block).await?
        };
        if block.len() < query.block {
            return Err(Error::new("the file is shorter"));
        }
        let bytes = block.iter().fold(offset, |sum, byte| sum.wrapping_add(u64::from(*byte)));
        done.sum = done.sum.wrapping_mul(31).wrapping_add(bytes);
        done.bytes += block.len() as u64;
    }
    if query.writes {
        file.sync().await?;
    }
    Ok(Json(done))
}

/// What a file has from `offset` on: it tells each place from any other.
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
