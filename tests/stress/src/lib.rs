//! Stress inputs for the compiler: small sources that burden a compiler beyond measure, and what becomes of them.
//!
//! Each folder of `cases/` is one: `input.toml` is its source, written out or as parts that are
//! repeated, and `expect.toml` says which limits may end it. The real `mfaas-builder check` is run
//! on it; nothing here compiles a stress input in any other way, and nothing is mocked.

pub mod benign;
pub mod input;
pub mod installed;
pub mod run;
pub mod table;
pub mod watch;
