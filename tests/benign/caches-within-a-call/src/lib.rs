//! Caches that help within a call, and are as new in the next one.
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

thread_local! {
    static MEMO: RefCell<HashMap<u32, Option<u64>>> = RefCell::new(HashMap::new());
    static COMPUTED: Cell<u32> = const { Cell::new(0) };
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);
static NAMES: OnceLock<String> = OnceLock::new();
static SMALL: LazyLock<[u64; 2]> = LazyLock::new(|| {
    MADE.fetch_add(1, Ordering::SeqCst);
    [0, 1]
});

fn fib(n: u32) -> Option<u64> {
    if let Some(known) = MEMO.with_borrow(|memo| memo.get(&n).copied()) {
        return known;
    }
    let value = match SMALL.get(n as usize) {
        Some(small) => Some(*small),
        None => fib(n - 1).zip(fib(n - 2)).and_then(|(a, b)| a.checked_add(b)),
    };
    COMPUTED.set(COMPUTED.get() + 1);
    MEMO.with_borrow_mut(|memo| memo.insert(n, value));
    value
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let calls = CALLS.fetch_add(1, Ordering::SeqCst) + 1;
    let text = String::from_utf8_lossy(request);
    let n: u32 = match text.trim().parse() {
        Ok(n) => n,
        Err(error) => return std::num::ParseIntError::to_string(&error).into_bytes(),
    };
    let name = NAMES.get_or_init(|| "fib".repeat(1));
    assert!(NAMES.set(String::new()).is_err());
    match fib(n) {
        None => format!("{name} {n} is larger than u64"),
        Some(value) => format!(
            "{name} {value} with {} computed, table made {} times, calls {calls}",
            COMPUTED.get().max(n.min(0)),
            MADE.load(Ordering::SeqCst)
        ),
    }
    .into_bytes()
}
