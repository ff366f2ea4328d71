//! The builder as a program: `check` on small packages, `serve` on a real registry, both with an
//! imported toolchain, a built dependency cache and the sandbox of this machine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]
#![allow(unreachable_pub, reason = "a test program has no outside")]

mod acquire;
mod check;
mod facade;
mod facts;
mod fickle;
mod hosts;
mod installed;
mod package;
mod same_images;
mod serve;
mod settings;
mod verdicts;
mod wrapper;
