//! Writes blocks of its own memory, each once, or reads them: what storage is compared with.

use mfaas::{Error, Json};
use serde::{Deserialize, Serialize};

/// How many blocks there are and the bytes of each, and what is done with them.
#[derive(Debug, Deserialize)]
pub struct Query {
    blocks: u64,
    block: usize,
    writes: bool,
    is_random: bool,
    #[serde(default)]
    zeros: bool,
}

/// What was read or written: a sum over the blocks in their order, and how long that took. What is read was written before.
#[derive(Debug, Serialize)]
pub struct Done {
    bytes: u64,
    sum: u64,
    ns: u128,
}

/// Takes `{"blocks": 100, "block": 4096, "writes": true, "is_random": false}`.
pub fn handle(Json(query): Json<Query>) -> Result<Json<Done>, Error> {
    let mut memory = vec![0; query.blocks as usize * query.block];
    if !query.writes {
        for number in 0..query.blocks {
            write(&mut memory, &query, number);
        }
    }
    let (since, mut sum) = (mfaas::now(), 0_u64);
    for number in order(query.blocks, query.is_random) {
        let offset = number * query.block as u64;
        let block = if query.writes {
            write(&mut memory, &query, number)
        } else {
            memory[offset as usize..][..query.block].to_vec()
        };
        let bytes = block.iter().fold(offset, |sum, byte| sum.wrapping_add(u64::from(*byte)));
        sum = sum.wrapping_mul(31).wrapping_add(bytes);
    }
    let took = mfaas::now().duration_since(since)?;
    Ok(Json(Done { bytes: memory.len() as u64, sum, ns: took.as_nanos() }))
}

fn write(memory: &mut [u8], query: &Query, number: u64) -> Vec<u8> {
    let offset = number * query.block as u64;
    let block = if query.zeros { vec![0; query.block] } else { contents(offset, query.block) };
    memory[offset as usize..][..query.block].copy_from_slice(&block);
    block
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
