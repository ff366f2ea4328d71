//! What the tenant's source says, as facts: Cargo.toml, the tokens of every `.rs` file, the
//! macro-expanded text, the shapes of soundness holes in it, the list of files the compiler read,
//! and the compiler's messages. And what is said about dependencies: by their own files, by
//! advisories, by other people's audits; what changed from one version to the next; and what each piece of a
//! text is to rustc's lexer, for whoever shows it.
//!
//! Nothing here decides; verdicts are made by `mfaas-rules` alone. Nothing here compiles, runs
//! or writes anything. Every reader is bounded by a named limit, works without recursion on the
//! input's depth, and reports what it does not understand as a fact of its own ("unreadable"),
//! which the rules refuse.

pub mod advisory;
pub mod classes;
pub mod crate_source;
pub mod delta;
pub mod depinfo;
pub mod expansion;
pub mod lexer;
pub mod manifest;
pub mod rustc_json;
pub mod shapes;
pub mod soundness;
pub mod touches;
pub mod vet;

mod attribute;
mod bounds;
mod imports;
mod path;
mod text;
mod token;
