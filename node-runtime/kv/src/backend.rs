//! A store, of either kind.

use crate::error::StoreError;
use crate::part::Part;
use crate::redis::Redis;
use crate::store::{Caller, Store};

/// A store that is asked for something.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Backend<'a> {
    Postgres(&'a Store),
    Redis(&'a Redis),
}

impl PartialEq for Backend<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Postgres(_), Self::Postgres(_)) => true,
            (Self::Redis(one), Self::Redis(other)) => one.identity() == other.identity(),
            (Self::Postgres(_), Self::Redis(_)) | (Self::Redis(_), Self::Postgres(_)) => false,
        }
    }
}

impl Backend<'_> {
    pub(crate) async fn try_commit(
        self,
        caller: &Caller,
        part: &Part<'_>,
        was_lost: &mut bool,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Postgres(store) => Ok(store.try_commit(caller, part, was_lost).await?),
            Self::Redis(redis) => redis.try_commit(caller, part, was_lost).await,
        }
    }

    pub(crate) async fn try_give_up(self, caller: &Caller) -> Result<bool, StoreError> {
        match self {
            Self::Postgres(store) => Ok(store.try_give_up(caller).await?),
            Self::Redis(redis) => redis.try_give_up(caller).await,
        }
    }
}
