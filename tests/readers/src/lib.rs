//! Every reader of foreign bytes behind one function each, with what it promises about any input.
//!
//! A fuzzer calls these functions for hours (`fuzz/`), and `tests/corpus.rs` calls them for every
//! kept input on every run of the tests, so that both mean the same. A broken promise is a panic.
//! Nothing here may write to a disk, start a program or depend on a clock: one input has one
//! outcome.

mod archive;
mod call_token;
mod dependency;
mod elf;
mod machine_code;
mod package;
mod ring;
mod source;
mod statement;
mod suspended;
pub mod tar;

pub use archive::archive;
pub use call_token::call_token;
pub use dependency::{advisory, audits, dependency};
pub use elf::elf;
pub use machine_code::machine_code;
pub use package::package;
pub use ring::ring;
pub use source::{expansion, lexer, manifest};
pub use statement::statement;
pub use suspended::suspended;

/// A function that takes any bytes.
pub type Reader = fn(&[u8]);

/// Each reader by the name of its fuzz target and of its directory in `fuzz/corpus`.
pub const READERS: &[(&str, Reader)] = &[
    ("advisory", advisory),
    ("archive", archive),
    ("audits", audits),
    ("call_token", call_token),
    ("dependency", dependency),
    ("elf", elf),
    ("expansion", expansion),
    ("lexer", lexer),
    ("machine_code", machine_code),
    ("manifest", manifest),
    ("package", package),
    ("ring", ring),
    ("statement", statement),
    ("suspended", suspended),
];
