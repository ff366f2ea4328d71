//! A tenant that does, in safe Rust, everything that a call can end by. The request is a word.
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Instant, SystemTime};

static COUNTER: AtomicU64 = AtomicU64::new(7);
static ZERO: AtomicU64 = AtomicU64::new(0);
static ONCE: OnceLock<u64> = OnceLock::new();
static LEAKED: Mutex<Vec<&'static u64>> = Mutex::new(Vec::new());
static LARGE: Mutex<[u8; 200_000]> = Mutex::new([0; 200_000]);
thread_local! {
    static LOCAL: Cell<u64> = const { Cell::new(3) };
    static DROPPED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Changes every kind of state and says what it found.
fn count() -> String {
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
    let zero = ZERO.fetch_add(1, Ordering::Relaxed);
    let fresh = ONCE.get().is_none();
    let _ = ONCE.set(1);
    let mut leaked = LEAKED.lock().expect("never poisoned");
    leaked.push(Box::leak(Box::new(5)));
    let local = LOCAL.replace(9);
    let dropped = DROPPED.with_borrow_mut(|list| {
        list.push(1);
        list.len()
    });
    let mut large = LARGE.lock().expect("never poisoned");
    let found = large.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    large.fill(1);
    format!("{counter} {zero} {fresh} {} {local} {dropped} {found}", leaked.len())
}

/// Work that allocates, and whose result must always be the same.
fn work(rounds: u64) -> u64 {
    let mut map = BTreeMap::new();
    let mut random = rounds;
    for index in 0..60 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        map.insert(random >> 40, format!("{index}-{random}"));
        if index % 3 == 0 {
            map.pop_first();
        }
    }
    map.iter().map(|(key, text)| key.wrapping_mul(text.len() as u64)).fold(0, u64::wrapping_add)
}

struct Endless;

impl Drop for Endless {
    fn drop(&mut self) {
        loop {
            black_box(work(3));
        }
    }
}

struct PanicsInDisplay;

impl fmt::Display for PanicsInDisplay {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("in the middle of a panic")
    }
}

struct EndlessDisplay;

impl fmt::Display for EndlessDisplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        loop {
            write!(f, "{}", work(1))?;
        }
    }
}

/// Constants and data that lie where the compiler was promised.
#[repr(align(512))]
struct Aligned<T>(T);

static ALIGNED: Aligned<u64> = Aligned(3);
static ALIGNED_CHANGING: Aligned<AtomicU64> = Aligned(AtomicU64::new(4));

/// The sum of their addresses' remainders, and of what they hold.
fn aligned() -> String {
    let places = [(&raw const ALIGNED).addr(), (&raw const ALIGNED_CHANGING).addr()];
    let remainders: usize = places.iter().map(|place| black_box(*place) % 512).sum();
    let held = black_box(&ALIGNED).0 + ALIGNED_CHANGING.0.fetch_add(1, Ordering::Relaxed);
    format!("{remainders} {held}")
}

fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if depth == 0 { 0 } else { frame[3] + recurse(depth - 1) }
}

#[inline(never)]
fn large_frame() -> u64 {
    let frame = black_box([1u8; 400 << 10]);
    frame.iter().map(|byte| u64::from(*byte)).sum()
}

/// Works for a number of rounds.
fn burn(rounds: &[u8]) {
    let rounds: u64 = String::from_utf8_lossy(rounds).parse().expect("a number");
    black_box((0..rounds).fold(1u64, |x, round| black_box(x.wrapping_mul(round | 1))));
}

/// Works for 45 ms by the clock in every run, and in one with a large arena or stack for ever.
fn spin_in_the_last_run(arena: bool) -> Vec<u8> {
    let begin = Instant::now();
    while begin.elapsed().as_millis() < 45 {}
    let grown = if arena { u64::from(black_box(vec![1u8; 3 << 20])[7]) } else { large_frame() };
    while black_box(grown) > 0 {}
    Vec::new()
}

fn print() -> Vec<u8> {
    print!("one ");
    println!("line");
    eprintln!("{} and {}", 1, 2);
    print!("no end");
    Vec::new()
}

fn libm() -> String {
    let x = black_box(0.5f64);
    format!("{:.6} {:.6} {:.6} {:.6}", x.sin(), x.powf(1.5), x.ln(), (x as f32).tanh())
}

fn clocks() -> String {
    let start = Instant::now();
    let elapsed = start.elapsed().as_secs() < 5;
    let after_2020 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|age| age.as_secs() > 1_577_836_800);
    format!("{elapsed} {after_2020}")
}

/// Never ends by itself.
fn spin(body: &[u8]) -> Vec<u8> {
    match body {
        b"spin" => loop {
            black_box(());
        },
        b"spin-allocating" => loop {
            let lists: Vec<_> = (0..50usize).map(|n| vec![n as u8; n * 31 % 97]).collect();
            black_box(lists.iter().map(|list| list.len().to_string()).collect::<String>());
        },
        b"spin-working" => loop {
            black_box(work(black_box(9)));
        },
        b"spin-locked" => {
            let lock = LEAKED.lock().expect("never poisoned");
            DROPPED.with_borrow_mut(|list| loop {
                list.clear();
                list.push(lock.len() as u64);
            })
        }
        b"spin-borrowing" => {
            let cell = RefCell::new(String::new());
            let mut held = cell.borrow_mut();
            loop {
                held.clear();
                fmt::Write::write_fmt(&mut *held, format_args!("{:?}", [1.5, f64::NAN])).expect("room");
                black_box(&held);
            }
        }
        b"spin-logging" => loop {
            println!("{}", work(1));
        },
        b"spin-arena" => spin_in_the_last_run(true),
        b"spin-stack" => spin_in_the_last_run(false),
        other => other.to_ascii_uppercase(),
    }
}

/// Every way to panic.
fn panic_by(body: &[u8]) -> Vec<u8> {
    match body {
        b"panic" => panic!("no {}", String::from_utf8_lossy(body)),
        b"panic-index" => vec![body[body.len() + work(1) as usize % 7]],
        b"panic-long" => panic!("{}", "x".repeat(100_000)),
        b"panic-display" => panic!("{PanicsInDisplay}"),
        b"panic-endless" => panic!("{EndlessDisplay}"),
        b"panic-caught" => {
            let _ = std::panic::catch_unwind(|| panic!("not for long"));
            b"caught".to_vec()
        }
        b"panic-hook" => {
            std::panic::set_hook(Box::new(|_| std::process::abort()));
            panic!("by another way")
        }
        b"panic-old" => std::panic::panic_any("by the old way"),
        b"panic-number" => std::panic::panic_any(7),
        other => other.to_ascii_uppercase(),
    }
}

pub fn handle(body: &[u8]) -> Vec<u8> {
    if let Some((word, rounds)) = body.iter().position(|byte| *byte == b' ').map(|at| (&body[..at], &body[at + 1..])) {
        burn(rounds);
        // More than a first run has, after the work.
        match word {
            b"outgrow-arena" => return vec![black_box(vec![1u8; 3 << 20])[7]],
            b"outgrow-stack" => return large_frame().to_string().into_bytes(),
            _ => {}
        }
    }
    match body {
        b"count" => count().into_bytes(),
        b"verify" => format!("{} {}", count(), work(42)).into_bytes(),
        b"deadlock" => {
            let _first = LEAKED.lock();
            let _second = LEAKED.lock();
            Vec::new()
        }
        b"drop-loop" => {
            let _endless = Endless;
            Vec::new()
        }
        b"no-room" => std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; 123]>()),
        b"overflow" => recurse(u64::MAX).to_string().into_bytes(),
        b"deep" => recurse(400).to_string().into_bytes(),
        b"large-frame" => large_frame().to_string().into_bytes(),
        b"bomb" => {
            let mut list = vec![1u8];
            loop {
                list.resize(list.len() * 2, 0);
            }
        }
        b"bomb-small" => {
            let mut list = Vec::new();
            loop {
                list.push(Box::new([7u8; 100]));
            }
        }
        b"bomb-one" => Vec::with_capacity(black_box(isize::MAX as usize)),
        b"abort" => std::process::abort(),
        b"huge" => vec![1; 2 << 20],
        b"most" => vec![b'm'; 1 << 20],
        b"map" => {
            let map: HashMap<_, _> = (0..100).map(|n| (n, n * n)).collect();
            map.values().sum::<u64>().to_string().into_bytes()
        }
        b"libm" => libm().into_bytes(),
        b"print" => print(),
        b"clocks" => clocks().into_bytes(),
        b"aligned" => aligned().into_bytes(),
        b"zeroed" => vec![vec![0u8; 300_000].iter().fold(0, |any, byte| any | byte)],
        other if other.starts_with(b"spin") => spin(other),
        other if other.starts_with(b"panic") => panic_by(other),
        other => other.to_ascii_uppercase(),
    }
}
