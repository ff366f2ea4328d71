//! The catalog on a real PostgreSQL: every statement runs here at least once.

#![allow(clippy::unwrap_used, reason = "tests")]

mod audit;
mod bans;
mod baseline;
mod builders;
mod builds;
mod call_graph;
mod call_keys;
mod call_tokens;
mod certificates;
mod collecting;
mod connections;
mod deployments;
mod fixture;
mod functions;
mod index;
mod isolation;
mod locks;
mod migrating;
mod nodes;
mod resources;
mod retention;
mod reviews;
mod roles;
mod scale;
mod schedules;
mod schema;
mod series;
mod sessions;
mod snapshot;
mod tokens;
mod triggers;
mod upgrade;
mod usage;
mod votes;
