//! For tests of handlers, with `cargo test` on a developer's machine.
//!
//! ```
//! use mfaas::{Binding, DataError, Kv, Write};
//!
//! struct Visits;
//!
//! impl Binding for Visits {
//!     const NAME: &'static str = "visits";
//!     type Value = i64;
//! }
//!
//! async fn count(page: String, visits: Kv<Visits, Write>) -> Result<String, DataError> {
//!     mfaas::sleep(std::time::Duration::from_millis(5)).await;
//!     Ok(visits.increment(&page, 1).await?.to_string())
//! }
//!
//! let visit = || mfaas::testing::block_on(count("a".to_owned(), mfaas::testing::kv()));
//! assert_eq!([visit(), visit()], [Ok("1".to_owned()), Ok("2".to_owned())]);
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

use mfaas_abi::{DONE, KvExpiry, KvReply, KvRequest, split_binding};
use mfaas_shim::Outcome;

use crate::{Access, Binding, Cache, Kv};

/// Where the places of data in memory begin: a function has no such binding, so that these are none in a node.
const PLACES: u32 = 1 << 31;

/// The code of a value that cannot be incremented, as a node gives it.
const NOT_A_NUMBER: u32 = 1203;

/// An entry, and when it expires.
type Entry = (Vec<u8>, Option<Instant>);

/// What lies under one binding.
#[derive(Default)]
struct Data {
    name: &'static str,
    entries: BTreeMap<Vec<u8>, Entry>,
}

thread_local! {
    static ALL: RefCell<Vec<Data>> = const { RefCell::new(Vec::new()) };
}

/// Data of this thread, for the parameter of a handler: nothing at first, and the same for each binding of a name. What is
/// changed stays, also if the handler fails, and no other call is in the way of a change.
pub fn kv<B: Binding, A: Access>() -> Kv<B, A> {
    Kv::at(place_of(B::NAME))
}

/// The same of a cache, in which everything stays.
pub fn cache<B: Binding, A: Access>() -> Cache<B, A> {
    Cache::at(place_of(B::NAME))
}

fn place_of(name: &'static str) -> u32 {
    let place = ALL.with_borrow_mut(|all| {
        all.iter().position(|data| data.name == name).unwrap_or_else(|| {
            all.push(Data { name, entries: BTreeMap::new() });
            all.len() - 1
        })
    });
    PLACES + place as u32
}

/// Runs what is `async` to its end on this thread. Not for handlers, which their node runs.
///
/// # Panics
/// If `future` waits for what this crate does not offer.
pub fn block_on<F: Future>(future: F) -> F::Output {
    mfaas_shim::block_on(future, |operation| {
        let (place, request) = split_binding(operation)?;
        let request = KvRequest::decode(request)?;
        let place = place.checked_sub(PLACES)? as usize;
        ALL.with_borrow_mut(|all| Some(all.get_mut(place)?.answer(&request)))
    })
}

impl Data {
    fn answer(&mut self, request: &KvRequest<'_>) -> Outcome {
        let now = Instant::now();
        self.entries.retain(|_, (_, expires)| expires.is_none_or(|at| now < at));
        let reply = match request {
            KvRequest::Get { keys } => {
                KvReply::Values(keys.iter().map(|key| Some(&*self.entries.get(*key)?.0)).collect()).encode()
            }
            KvRequest::Put { key, value, expiry } => {
                let expires = match expiry {
                    KvExpiry::Never => None,
                    KvExpiry::AfterMs(ms) => now.checked_add(Duration::from_millis(*ms)),
                };
                self.entries.insert(key.to_vec(), (value.to_vec(), expires));
                KvReply::Done.encode()
            }
            KvRequest::Delete { key } => {
                self.entries.remove(*key);
                KvReply::Done.encode()
            }
            KvRequest::Increment { key, by } => {
                let before = self.entries.get(*key).map_or(b"0".to_vec(), |(value, _)| value.clone());
                let number =
                    std::str::from_utf8(&before).ok().and_then(|text| text.trim().parse::<i64>().ok());
                let Some(sum) = number.and_then(|number| number.checked_add(*by)) else {
                    let bytes = b"the value, or the sum, is no whole number of 64 bits".to_vec();
                    return Outcome { code: NOT_A_NUMBER, bytes };
                };
                let expires = self.entries.get(*key).and_then(|(_, expires)| *expires);
                self.entries.insert(key.to_vec(), (sum.to_string().into_bytes(), expires));
                KvReply::Number(sum).encode()
            }
            KvRequest::CompareAndSet { key, expected, value } => {
                let before = self.entries.get(*key);
                let is_expected = before.map(|(value, _)| &**value) == *expected;
                let expires = before.and_then(|(_, expires)| *expires);
                match value {
                    Some(value) if is_expected => {
                        drop(self.entries.insert(key.to_vec(), (value.to_vec(), expires)))
                    }
                    None if is_expected => drop(self.entries.remove(*key)),
                    Some(_) | None => {}
                }
                KvReply::Changed(is_expected).encode()
            }
            KvRequest::Scan { prefix, after, limit } => self.page(prefix, *after, (*limit).max(1) as usize),
        };
        Outcome { code: DONE, bytes: reply }
    }

    fn page(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Vec<u8> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let of_prefix = self.entries.range::<[u8], _>((from, Bound::Unbounded));
        let mut of_prefix = of_prefix.take_while(|(key, _)| key.starts_with(prefix));
        let entries: Vec<(&[u8], &[u8])> =
            of_prefix.by_ref().take(limit).map(|(key, (value, _))| (&**key, &**value)).collect();
        let next = of_prefix.next().and_then(|_| entries.last()).map(|(key, _)| *key);
        KvReply::Page { entries, next }.encode()
    }
}
