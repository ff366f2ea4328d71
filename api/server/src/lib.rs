//! The parts of `mfaas-server`, as a library so that tests start the same routes that the
//! program serves.
//!
//! The server talks: to people and programs over REST, to browsers over the console, to nodes
//! over mutual TLS. What may run is decided elsewhere; what it accepts it stores unopened, and
//! what it hands out was signed by somebody else.

pub mod access;
mod authorize;
pub mod backup;
mod call_keys;
mod caller;
mod calling;
mod certificate;
pub mod commands;
pub mod config;
mod connections;
mod console;
mod cron;
mod edge;
mod event_stream;
mod extract;
mod issuing;
pub mod limits;
mod lookups;
mod metrics;
mod news;
mod nodes;
mod numbers;
#[cfg(feature = "oidc")]
mod oidc;
#[cfg(not(feature = "oidc"))]
#[path = "oidc/off.rs"]
mod oidc;
mod parts;
mod pools;
mod program;
mod refusal;
mod responses;
mod router;
mod routes;
mod schedules;
mod serve;
mod sessions;
mod shares;
mod site_calls;
mod site_use;
mod state;
mod tally;
pub mod token;
mod triggers;
mod upkeep;
mod votes;

pub use program::{Running, start};
pub use routes::description;
