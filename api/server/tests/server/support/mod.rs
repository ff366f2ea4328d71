//! What the tests stand on: a private Postgres cluster, a server on port 0, a client.

mod cluster;
mod compared;
pub(crate) mod hostile;
pub(crate) mod large;
mod rows;
mod server;

pub(crate) use cluster::Database;
pub(crate) use compared::{compared, delta, file_delta};
pub(crate) use rows::{
    AskedFor, admitted_version, crate_report, open_review, refused_deployment, source_file, span,
};
pub(crate) use server::{Answer, Server};
