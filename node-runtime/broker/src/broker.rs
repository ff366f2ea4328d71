//! What all connections share.

use std::sync::Arc;

use mfaas_kv::Store;

use crate::held::Held;
use crate::turns::Turns;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) store: Store,
    pub(crate) turns: Arc<Turns>,
    pub(crate) held: Held,
}
