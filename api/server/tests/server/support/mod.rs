//! What the tests stand on: a private Postgres cluster, a server on port 0, a client.

mod cluster;
mod rows;
mod server;

pub(crate) use cluster::Database;
pub(crate) use rows::{admitted_version, refused_deployment};
pub(crate) use server::{Answer, Server};
