//! Acquiring a crate: from a request to its files, its facts and the next seed.
//!
//! Pure steps over directories and bytes: no database, no blob store, no decision. The acquirer puts them together.
//! cargo runs on manifests of our own alone, outside of the sandbox only to resolve and to download, which runs nothing
//! of what it downloads; whatever compiles runs in the sandbox, without a network.

mod cargo;
mod closure;
mod context;
pub(crate) mod download;
pub(crate) mod entry;
pub(crate) mod error;
mod extend;
mod failure;
pub(crate) mod gather;
pub(crate) mod manifest;
mod published;
mod refusal;
mod report;
pub(crate) mod resolve;
pub(crate) mod seed;
mod shipped;
mod table;
pub(crate) mod texts;
pub(crate) mod trial;
mod units;
mod vendor;
mod verdict;

pub(crate) use context::AcquireContext;
pub(crate) use error::AcquireError;
pub(crate) use extend::{ExtendArguments, extend};
pub(crate) use failure::{first_error, is_about_crates};
pub(crate) use report::{Subject, facts};
pub(crate) use shipped::{ShippedArguments, shipped};
pub(crate) use table::{TableArguments, table};
