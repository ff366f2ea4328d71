//! Ordinary code: what leads to std without a path, and the types that the facade owns.

extern crate alloc;
extern crate std;

use alloc::collections::BTreeMap;
use core::fmt::Write as _;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{Cursor, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::prelude::v1::*;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

static TABLE: LazyLock<Mutex<HashMap<String, u32>>> = LazyLock::new(Mutex::default);
static ONCE: OnceLock<u8> = OnceLock::new();

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
    static NAMES: RefCell<Vec<String>> = RefCell::new(Vec::new());
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
enum Kind {
    #[default]
    Plain,
    Odd,
}

#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
struct Entry {
    path: PathBuf,
    boxed: Option<Box<Path>>,
    sizes: BTreeMap<String, u64>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no name in {0:?}")]
    Nameless(PathBuf),
    #[error(transparent)]
    Io(#[from] ::std::io::Error),
    #[error("{path} is text", path = .path.display())]
    Text { path: PathBuf, source: core::num::ParseIntError },
}

fn paths(text: &str) -> Result<Vec<String>, Failure> {
    let path = Path::new(text);
    let name = path.file_name().and_then(OsStr::to_str).ok_or_else(|| Failure::Nameless(path.into()))?;
    let mut parts: Vec<String> = path
        .components()
        .filter(|part| !matches!(part, Component::RootDir | Component::CurDir))
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let mut other = path.with_extension("bak");
    other.push("more");
    assert!(other.starts_with(path.parent().unwrap_or(path)) && other != path, "{}", other.display());
    parts.push(format!("{name}{}", std::path::MAIN_SEPARATOR));
    Ok(parts)
}

async fn later(value: u8) -> u8 {
    let inner = async { value };
    inner.await + 1
}

fn polled() -> Option<u8> {
    let mut future = std::pin::pin!(later(1));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

fn text() -> Result<String, Failure> {
    let mut out = String::new();
    for (at, byte) in [1u8, 2].iter().enumerate() {
        write!(out, "{at}{byte:02x}").unwrap_or_default();
    }
    let mut read = Vec::new();
    Cursor::new(out.as_bytes()).take(2).read_to_end(&mut read)?;
    writeln!(read, "{}", r#core::primitive::u8::MAX)?;
    "12".parse::<u32>().map_err(|source| Failure::Text { path: "x".into(), source })?;
    Ok(String::from_utf8_lossy(&read).into_owned())
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let answer = || -> anyhow::Result<Vec<u8>> {
        let text = text()?;
        let entry: Entry = serde_json::from_str("{\"path\":\"a/b\",\"boxed\":\"c\",\"sizes\":{}}")?;
        let [first, ..] = paths("/a/./b.txt")?.try_into().unwrap_or([const { String::new() }; 3]);
        CALLS.set(CALLS.get() + u32::from(Kind::default() < Kind::Odd));
        NAMES.with_borrow_mut(|names| names.extend(vec![first, text].into_iter().map(|name| dbg!(name))));
        TABLE.lock().map(|mut table| table.insert("a".to_owned(), 1)).ok();
        println!("{:?} {:?} {:?}", ONCE.get_or_init(|| 1), std::thread::current().id(), polled());
        eprintln!("{}", std::env::consts::OS);
        anyhow::ensure!(matches!(entry.boxed.as_deref().and_then(Path::to_str), Some("c")), "{entry:?}");
        Ok(serde_json::to_vec(&entry)?)
    };
    let shared: Arc<dyn Fn() -> anyhow::Result<Vec<u8>>> = Arc::new(answer);
    shared().unwrap_or_else(|error| match request.first() {
        Some(b'p') => panic!("{error:#} {}", error.backtrace()),
        Some(_) => todo!(),
        None => unreachable!(),
    })
}
