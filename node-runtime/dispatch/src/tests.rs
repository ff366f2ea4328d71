#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod check;
mod simulation;
mod world;

use super::FunctionId;
