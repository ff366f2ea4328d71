//! Wake-ups: LISTEN/NOTIFY as a stream. A wake-up is a hint to look again and never carries state:
//! notifications are lost while a connection is down, so every listener also looks by itself.

use std::time::Duration;

use mfaas_ident::DeploymentId;
use sqlx::postgres::PgListener;

use crate::{Catalog, CatalogError};

/// What can be listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// A build was queued.
    Builds,
    /// A build is ready to be signed, or nodes should serve something else.
    Signer,
    /// A deployment has a new event.
    Events,
    /// A serving set was signed.
    ServingSet,
    /// A crate was asked for or decided about.
    Acquirer,
    /// What nodes are to take and not to run has changed.
    Directives,
}

impl Channel {
    fn name(self) -> &'static str {
        match self {
            Self::Builds => "mfaas_builds",
            Self::Signer => "mfaas_signer",
            Self::Events => "mfaas_events",
            Self::ServingSet => "mfaas_serving_set",
            Self::Acquirer => "mfaas_acquirer",
            Self::Directives => "mfaas_orders",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Builds, Self::Signer, Self::Events, Self::ServingSet, Self::Acquirer, Self::Directives]
            .into_iter()
            .find(|c| c.name() == name)
    }
}

/// Something happened on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// On this channel; about this deployment where the channel is about one.
    Notified(Channel, Option<DeploymentId>),
    /// The connection was lost and is back; anything may have happened meanwhile.
    Reconnected,
    /// Nothing came within the time asked for.
    TimedOut,
}

/// A connection that listens.
#[derive(Debug)]
pub struct Wakes {
    listener: PgListener,
}

impl Catalog {
    /// Listens to `channels` on a connection of its own.
    pub async fn listen(&self, channels: &[Channel]) -> Result<Wakes, CatalogError> {
        let mut listener = PgListener::connect_with(self.pool.connections()).await?;
        listener.listen_all(channels.iter().map(|c| c.name())).await?;
        Ok(Wakes { listener })
    }
}

impl Wakes {
    /// The next wake-up, or [`Wake::TimedOut`] after `wait`. Safe to cancel.
    pub async fn next(&mut self, wait: Duration) -> Result<Wake, CatalogError> {
        let Ok(received) = tokio::time::timeout(wait, self.listener.try_recv()).await else {
            return Ok(Wake::TimedOut);
        };
        let Some(notification) = received? else { return Ok(Wake::Reconnected) };
        match Channel::parse(notification.channel()) {
            Some(channel) => Ok(Wake::Notified(channel, notification.payload().parse().ok())),
            // Cannot come: only our channels were subscribed. Looking again is always right.
            None => Ok(Wake::Reconnected),
        }
    }
}
