//! The dependency cache: every offered crate compiled once, for one toolchain.
//!
//! One resolution serves the whole site (`builder/toolchain/seed`), so a tenant can never make
//! cargo choose, fetch or build anything. A cache directory is named by a key over all that
//! went into it and never changes after the rename that made it. Its build scripts and macros
//! come from audited crates, and still run only in sandboxes, each in one of its own, without a network.

mod archive;
mod broker;
mod build;
mod bundle;
mod cache;
mod cargo_run;
mod exchange;
pub(crate) mod facade;
mod grants;
mod index;
mod lockfile;
mod made;
pub(crate) mod messages;
mod own;
mod seed;
mod site;
mod unit;
mod vendor;
mod wrapper;

pub(crate) use archive::{lying_in, pack, remove_unused, unpack};
#[cfg(feature = "ablation")]
pub(crate) use build::compile_only;
pub(crate) use build::{build, sweep, try_out};
pub(crate) use cache::{Deps, is_complete};
pub(crate) use grants::GRANTS_FILE;
pub(crate) use index::{CachedCrate, ClosureCrate, CrateKind, Product};
pub(crate) use lockfile::{Lockfile, PackageKey};
pub(crate) use own::{OwnCrate, OwnSources, own_crates, write_own};
pub(crate) use seed::Seed;
pub(crate) use site::Site;
pub(crate) use unit::Unit;
pub(crate) use vendor::vendor;
pub(crate) use wrapper::{PLAN_VARIABLE, compile_as_planned};

#[cfg(test)]
mod tests;
