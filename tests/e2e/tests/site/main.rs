//! Tests that have a site of their own each. None of them is in another's way, so they are one program: while one waits, another
//! goes on.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod agreement;
mod archives;
mod backup;
mod builders;
mod bulk;
mod console;
mod deltas;
mod dependencies;
mod index;
mod metrics;
mod refusals;
mod steps;
mod traces;
mod triggers;
