//! What the dispatcher uses of the rest of the node.

use std::path::PathBuf;
use std::sync::Arc;

use super::caches::Caches;
use super::callees::Callees;
use super::grants::Grants;
use super::protection::Protection;
use crate::directives::Standing;
use crate::logs::LogSink;
use crate::usage::Usage;

/// What the dispatcher writes into and asks besides its own tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeServices {
    /// Log lines on their way to the server.
    pub(crate) logs: Arc<LogSink>,
    /// What the node is to take, and the bans in force.
    pub(crate) standing: Arc<Standing>,
    /// What calls cost.
    pub(crate) usage: Arc<Usage>,
    /// What functions may do with data.
    pub(crate) grants: Arc<Grants>,
    /// What functions mean that call others.
    pub(crate) callees: Arc<Callees>,
    /// What functions keep in the memory of this node.
    pub(crate) caches: Arc<Caches>,
    /// Where the broker of this node listens, if it has one.
    pub(crate) broker: Option<PathBuf>,
    /// What holds the workers.
    pub(crate) protection: Arc<Protection>,
}
