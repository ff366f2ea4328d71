//! The server as its callers meet it: real sockets, real Postgres, real files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod access;
mod allowlist;
mod audit_archive;
mod backup;
mod browser;
mod call_graph;
mod callers;
mod calls;
mod charts;
mod colours;
mod console;
mod deltas;
mod dependencies;
mod description;
mod events;
mod function;
mod health;
mod index;
mod isolation;
mod nodes;
#[cfg(feature = "oidc")]
mod oidc;
mod operation;
mod problems;
mod program;
mod registry;
mod resources;
mod reviews;
mod roles;
mod schedules;
mod support;
mod tls;
mod triggers;
mod upkeep;
mod uploads;
