//! Data and functions that a function binds: what its handler takes, and what Cargo.toml declares, compared while the function is compiled.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use mfaas_abi::{DONE, OperationKind};
use mfaas_shim::{Operation, Outcome};

/// A name of `[package.metadata.mfaas.bindings]`, and what lies behind it.
///
/// ```
/// struct Links;
///
/// impl mfaas::Binding for Links {
///     const NAME: &'static str = "links";
///     type Value = String;
/// }
/// ```
pub trait Binding {
    /// The name in Cargo.toml.
    const NAME: &'static str;
    /// What lies there, as JSON; `()` for objects and volumes, which hold bytes, and for servers and secrets.
    type Value: serde::Serialize + serde::de::DeserializeOwned;
}

/// To look at data and nothing else; to ask a server for what changes nothing there.
#[derive(Debug, Clone, Copy)]
pub enum Read {}

/// To look at data and to change it; to ask a server for anything.
#[derive(Debug, Clone, Copy)]
pub enum Write {}

/// What a handler may do with what it takes: [`Read`] or [`Write`].
pub trait Access: sealed::Sealed {
    /// The word in Cargo.toml.
    #[doc(hidden)]
    const WORD: &'static str;
}

mod sealed {
    /// Keeps it to these two.
    pub trait Sealed {}
}

impl sealed::Sealed for Read {}
impl sealed::Sealed for Write {}

impl Access for Read {
    const WORD: &'static str = "read";
}

impl Access for Write {
    const WORD: &'static str = "write";
}

/// A binding as Cargo.toml declares it, or as a parameter takes it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    pub name: &'static str,
    pub kind: &'static str,
    pub access: &'static str,
}

/// What Cargo.toml declares: written by the build, in the order of the names.
#[doc(hidden)]
pub trait Manifest {
    const BINDINGS: &'static [Declared];
}

/// Refuses to compile a handler that takes other bindings than are declared.
#[doc(hidden)]
pub const fn check(taken: &[Option<Declared>], declared: &[Declared]) {
    let mut at = 0;
    while at < taken.len() {
        if let Some(binding) = &taken[at] {
            place_of(binding, declared);
        }
        at += 1;
    }
    at = 0;
    while at < declared.len() {
        if !is_taken(&declared[at], taken) {
            refuse(&[
                "Cargo.toml declares the binding `",
                declared[at].name,
                "`, which the handler does not take",
            ]);
        }
        at += 1;
    }
}

const fn is_taken(declared: &Declared, taken: &[Option<Declared>]) -> bool {
    let mut at = 0;
    while at < taken.len() {
        if let Some(binding) = &taken[at]
            && is_same(binding.name, declared.name)
        {
            return true;
        }
        at += 1;
    }
    false
}

/// Which of the declared bindings a parameter takes.
pub(crate) const fn place_of(taken: &Declared, declared: &[Declared]) -> u32 {
    let mut at = 0;
    while at < declared.len() {
        let Declared { name, kind, access } = declared[at];
        if is_same(name, taken.name) {
            if !is_same(kind, taken.kind) {
                refuse(&[
                    "the handler takes the binding `",
                    name,
                    "` as ",
                    taken.kind,
                    ", and Cargo.toml declares it as ",
                    kind,
                ]);
            }
            if !is_same(access, taken.access) {
                refuse(&[
                    "the handler takes the binding `",
                    name,
                    "` to ",
                    taken.access,
                    ", and Cargo.toml declares it to ",
                    access,
                ]);
            }
            return at as u32;
        }
        at += 1;
    }
    refuse(&["the handler takes the binding `", taken.name, "`, which Cargo.toml does not declare"])
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Bytes of a sentence that refuses; what is longer is cut.
const SENTENCE_BYTES_MAX: usize = 256;

/// Ends the compilation with a sentence.
#[allow(clippy::panic, reason = "while the function is compiled, which this ends")]
const fn refuse(parts: &[&str]) -> ! {
    let mut sentence = [b' '; SENTENCE_BYTES_MAX];
    let (mut end, mut part) = (0, 0);
    while part < parts.len() {
        let bytes = parts[part].as_bytes();
        let mut at = 0;
        while at < bytes.len() && end < SENTENCE_BYTES_MAX {
            sentence[end] = bytes[at];
            (at, end) = (at + 1, end + 1);
        }
        part += 1;
    }
    match std::str::from_utf8(sentence.split_at(end).0) {
        Ok(sentence) => panic!("{}", sentence),
        Err(_) => panic!("the handler does not take the bindings that Cargo.toml declares"),
    }
}

/// Why an operation on data, or a request to a server, has not done what it was asked for.
///
/// It has a stable code, whose page says what to do: `MF1202` for example, at `docs/errors/MF1202.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataError {
    code: Option<u32>,
    message: String,
}

impl DataError {
    pub(crate) fn of_node(code: u32, message: &[u8]) -> Self {
        Self { code: Some(code), message: String::from_utf8_lossy(message).into_owned() }
    }

    pub(crate) fn here(message: String) -> Self {
        Self { code: None, message }
    }

    pub(crate) fn not_understood() -> Self {
        Self::here("the node gave an answer that this function does not understand".to_owned())
    }

    /// The number in its code, 1202 of `MF1202`; none if a value is not of the type of the binding.
    pub fn code(&self) -> Option<u32> {
        self.code
    }
}

/// What an operation gave that did what it was asked for.
pub(crate) async fn ask(operation: Vec<u8>) -> Result<Vec<u8>, DataError> {
    gave(Operation::new(OperationKind::Data, operation).await)
}

/// Pieces that one call reads or writes together: half a MiB of its memory, and a small part of what a broker has room for of one
/// tenant.
const TOGETHER_MAX: usize = 4;

/// What operations gave that are asked for in their order, some together, up to the first that failed.
pub(crate) async fn ask_together(
    operations: impl IntoIterator<Item = Vec<u8>>,
    mut hear: impl FnMut(Vec<u8>) -> Result<(), DataError>,
) -> Result<(), DataError> {
    mfaas_shim::ask_together(operations, TOGETHER_MAX, |outcome| hear(gave(outcome)?)).await
}

fn gave(Outcome { code, bytes }: Outcome) -> Result<Vec<u8>, DataError> {
    if code == DONE { Ok(bytes) } else { Err(DataError::of_node(code, &bytes)) }
}

/// All but the last piece of what is given in pieces, and that one, which is empty of nothing alone.
pub(crate) fn split_last(bytes: &[u8], piece: usize) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len().saturating_sub(1) / piece * piece)
}

/// A number that nothing else has that the call uploads or asks for in pieces.
pub(crate) fn new_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A name in an answer.
pub(crate) fn text(name: &[u8]) -> Result<String, DataError> {
    String::from_utf8(name.to_vec()).map_err(|_| DataError::not_understood())
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "MF{code:04}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for DataError {}
