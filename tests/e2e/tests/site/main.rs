//! Tests that have a site of their own each. None of them is in another's way, so they are one program: while one waits, another
//! goes on.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod agreement;
mod archives;
mod assets;
mod backup;
mod builders;
mod bulk;
mod callers;
mod calls;
mod console;
mod data;
mod deltas;
mod dependencies;
mod deploys;
mod dev;
mod faults;
mod function_bench;
mod index;
mod metrics;
mod neighbours;
mod outbound;
mod refusals;
mod runtime;
mod steps;
mod supervision;
mod traces;
mod triggers;
mod trust;
