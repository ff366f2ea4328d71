//! A function that needs nothing of std by name.
extern crate alloc;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::iter::successors;
use core::ops::ControlFlow;

fn ranked(text: &str) -> Vec<(Rc<str>, usize)> {
    let mut counts: BTreeMap<Rc<str>, (usize, usize)> = BTreeMap::new();
    for (place, word) in text.split_whitespace().enumerate() {
        counts.entry(Rc::from(word)).or_insert((0, place)).0 += 1;
    }
    let mut heap: BinaryHeap<(usize, Reverse<usize>, Rc<str>)> =
        counts.into_iter().map(|(word, (n, place))| (n, Reverse(place), word)).collect();
    core::iter::from_fn(move || heap.pop()).map(|(n, _, word)| (word, n)).collect()
}

fn first_over(text: &str, letters: usize) -> Option<&str> {
    let found = text.split_whitespace().try_for_each(|word| {
        if word.chars().count() > letters { ControlFlow::Break(word) } else { ControlFlow::Continue(()) }
    });
    match found {
        ControlFlow::Break(word) => Some(word),
        ControlFlow::Continue(()) => None,
    }
}

fn collatz(n: u64) -> usize {
    let next = |n: &u64| (*n != 1).then(|| if n % 2 == 0 { n / 2 } else { 3 * n + 1 });
    successors(Some(n), next).count() - 1
}

fn answer(request: &[u8]) -> Result<String, Box<dyn core::error::Error>> {
    let text = core::str::from_utf8(request)?;
    let ranked = ranked(text);
    if ranked.is_empty() {
        return Err("no words".into());
    }
    let counts: Vec<String> = ranked.iter().map(|(word, n)| format!("{word}={n}")).collect();
    let over = first_over(text, 3).map_or_else(|| "none".to_owned(), ToString::to_string);
    let n = text.len() as u64;
    Ok(format!("{}; first over 3 letters: {over}; collatz of {n}: {} steps", counts.join(" "), collatz(n)))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(request).unwrap_or_else(|error| format!("refused: {error}")).into_bytes()
}
