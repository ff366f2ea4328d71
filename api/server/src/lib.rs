//! The parts of `mfaas-server`, as a library so that tests start the same routes that the
//! program serves.
//!
//! The server talks: to people and programs over REST, to browsers over the console, to nodes
//! over mutual TLS. What may run is decided elsewhere; what it accepts it stores unopened, and
//! what it hands out was signed by somebody else.

pub mod access;
pub mod app;
pub mod authority;
mod call_keys;
pub mod commands;
pub mod config;
mod connections;
pub mod console;
pub mod edge;
pub mod extract;
pub mod limits;
pub mod live;
mod lookups;
pub mod metrics;
pub mod nodes;
mod numbers;
#[cfg(feature = "oidc")]
pub mod oidc;
#[cfg(not(feature = "oidc"))]
#[path = "oidc/off.rs"]
pub mod oidc;
mod parts;
mod pools;
mod program;
pub mod refusal;
pub mod routes;
mod serve;
mod shares;
mod tally;
pub mod token;
mod upkeep;
pub mod views;
pub mod votes;

pub use program::{Running, start};
