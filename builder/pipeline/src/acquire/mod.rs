//! Acquiring a crate: from a request to its files, its facts and the next seed.
//!
//! Pure functions over directories and bytes: no database, no blob store, no decision. cargo runs on
//! manifests of our own alone, outside of the cage only to resolve and to download, which runs nothing
//! of what it downloads; whatever compiles runs in the cage, without a network.

mod cargo;
mod closure;
mod compare;
mod download;
mod entry;
mod error;
mod examine;
mod extend;
mod manifest;
mod offer;
mod published;
mod refusal;
mod report;
mod resolve;
mod serve;
mod site_cache;
mod table;
mod texts;
mod trial;
mod units;
mod vendor;
mod verdict;

pub(crate) use error::AcquireError;
pub(crate) use extend::{ExtendArguments, extend};
pub(crate) use report::{Subject, facts};
pub(crate) use serve::serve;
pub(crate) use table::{TableArguments, table};
