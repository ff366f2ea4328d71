//! Profiles are data: every row says why it is there.
//!
//! A row that nobody needs and a need that has no row are both found by tests: the rows of
//! `imports` against the worker's bind table, those of `seccomp` by the sandbox's tests, the source
//! rows by the benign and hostile programs.

pub mod attributes;
pub mod crate_rules;
pub mod image_layout;
pub mod imports;
pub mod instructions;
pub mod lints;
pub mod macros;
pub mod manifest_keys;
pub mod seccomp;
pub mod std_items;
