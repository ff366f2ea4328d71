//! Backup and restore of a site: its database at one moment, and every blob that its rows refer to.
//!
//! A directory of backups is a blob store and a manifest for each backup, which names the dump, the list of blobs and what they
//! were taken from. The manifest is written last, under its name in one step, so what was not finished is no backup; and a
//! blob that a backup before has is not copied again. No key is ever read here.

mod error;
mod manifest;
mod programs;
mod repository;
mod restore;
mod take;

pub use error::BackupError;
pub use manifest::Manifest;
pub use programs::PostgresPrograms;
pub use repository::Repository;
pub(crate) use repository::create_anew;
pub use restore::{restore, verify};
pub use take::{Site, Taken, take};
