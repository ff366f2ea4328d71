//! What the facade of std owns: types of std with the authority taken out.
//!
//! Compiled by the trusted dependency build against the real std, and re-exported by the
//! generated facade under std's own paths. A type here behaves as std's does where it is about
//! values. Nothing here asks the operating system for anything.
#![forbid(elided_lifetimes_in_paths)]

pub mod backtrace;
pub mod path;
pub mod thread;

/// What a function has no way to do. Methods that need it exist so that the compiler can say why
/// they are missing; nothing implements it.
#[diagnostic::on_unimplemented(
    message = "MF0307: a function has no files: use its request",
    label = "asks for a file",
    note = "paths are text here: joining, splitting and comparing them works"
)]
pub trait HasFiles {}
