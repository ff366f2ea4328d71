//! Upload bytes become a [`SourceTree`], or a refusal with the reason.
//!
//! Accepted are plain tar and one gzip member of tar, as GNU tar, bsdtar, git, Python and the `tar`
//! crate write them for an ordinary directory: regular files and directories with short paths.
//! Whatever two readers could understand differently is refused, never repaired; `archive.rs`,
//! `gzip.rs`, `pax.rs` and `path.rs` hold the rules. Three things are taken as meaning nothing: an exact leading `./`, a
//! directory's trailing `/`, and pax records of times and comments. A directory around everything
//! is not stripped.
//!
//! `dependency.rs` reads the archives of crates that functions depend on, which others packed long ago:
//! [`CrateArchive`] takes names that an upload may not have, and lists what it leaves out.
//!
//! Nothing here writes to a disk except [`SourceTree::write_into`] and its like, nothing here runs or
//! interprets a file's content, and no tree exists that has not passed every limit of
//! [`mfaas_rules::limits::ARCHIVE`]: [`SourceTree`] has no other constructors than
//! [`Upload::unpack`] and [`SourceTree::from_dir`].

mod archive;
mod blocks;
mod dependency;
mod directory;
mod error;
mod gzip;
mod path;
mod pax;
mod tree;

pub use dependency::CrateArchive;
pub use error::UnpackError;
pub use tree::{SourceTree, Upload};

#[cfg(test)]
mod tests;
