//! Looks names up, and keeps of what is found what may be reached: a connection goes to one of these addresses and to no other, whatever
//! the name leads to a moment later.

use std::net::ToSocketAddrs as _;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use crate::addresses::Addresses;

/// Lookups of one server's name at a time: each takes a thread as long as it lasts, also if nobody waits for it any more.
const LOOKUPS: usize = 4;

/// A name leads to nothing that may be reached.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to addresses alone that are not public, and of no network that the operator allows")]
pub(crate) struct Forbidden;

/// The resolver of this machine, without what may not be reached.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    addresses: Arc<Addresses>,
    lookups: Arc<Semaphore>,
}

impl Resolver {
    pub(crate) fn within(addresses: Addresses) -> Self {
        Self { addresses: Arc::new(addresses), lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { addresses, lookups } = self.clone();
        Box::pin(async move {
            let permit = lookups.acquire_owned().await?;
            let look_up = move || {
                let _permit = permit;
                // Whoever connects puts the port in.
                (name.as_str(), 0).to_socket_addrs()
            };
            let found: Vec<_> = tokio::task::spawn_blocking(look_up).await??.collect();
            let may = |found: &&std::net::SocketAddr| addresses.may_be_reached(found.ip());
            let may: Vec<_> = found.iter().filter(may).copied().collect();
            if may.is_empty() && !found.is_empty() {
                return Err(Forbidden.into());
            }
            Ok(Box::new(may.into_iter()) as Addrs)
        })
    }
}
