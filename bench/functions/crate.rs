//! [`function`] as a crate of its own, to be linked into every form.
#![no_std]

#[path = "function.rs"]
mod function;
pub use function::*;
