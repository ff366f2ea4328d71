//! The rewriter as rustc calls it, and what its code does.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod link;
mod run;
mod sample;
