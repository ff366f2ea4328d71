//! Looks names up, and keeps of what is found what may be reached: a connection goes to one of these addresses and to no other, whatever
//! the name leads to a moment later.

use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::addresses::Addresses;

/// A name leads to nothing that may be reached.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to addresses alone that are not public, and of no network that the operator allows")]
pub(crate) struct Forbidden;

/// The resolver of this machine, without what may not be reached.
#[derive(Debug)]
pub(crate) struct Resolver(pub(crate) Arc<Addresses>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = Arc::clone(&self.0);
        Box::pin(async move {
            // Whoever connects puts the port in.
            let mut found = tokio::net::lookup_host((name.as_str(), 0)).await?.peekable();
            let is_there = found.peek().is_some();
            let may: Vec<_> = found.filter(|found| addresses.may_be_reached(found.ip())).collect();
            if may.is_empty() && is_there {
                return Err(Forbidden.into());
            }
            Ok(Box::new(may.into_iter()) as Addrs)
        })
    }
}
