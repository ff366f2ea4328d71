//! How many functions and tenants of the whole site use each crate, counted now and then.
//!
//! The count reads what every function in use was built with, which takes most of a second at 10,000 functions. So a page gets
//! the last count at once, and one that finds it old has it made anew behind its back; only the first page waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mfaas_catalog::{Catalog, CatalogError, CrateUsers};
use mfaas_ident::CrateName;
use semver::Version;

/// Users by crate version.
pub(crate) type UsersOfCrates = BTreeMap<(CrateName, Version), CrateUsers>;

/// The last count, for all who ask.
#[derive(Debug, Clone, Default)]
pub(crate) struct SiteUse {
    last: Arc<Mutex<Option<Counted>>>,
    /// Held by whoever counts.
    counting: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Clone)]
struct Counted {
    at: Instant,
    users: Arc<UsersOfCrates>,
}

impl SiteUse {
    /// The last count. One that is older than `life` is made anew for the next who asks.
    pub(crate) async fn count(
        &self,
        catalog: &Catalog,
        life: Duration,
    ) -> Result<Arc<UsersOfCrates>, CatalogError> {
        let Some(last) = self.last() else {
            let _turn = self.counting.lock().await;
            // Others may have counted while this one waited for its turn.
            return match self.last() {
                Some(last) => Ok(last.users),
                None => self.renew(catalog).await,
            };
        };
        if last.at.elapsed() >= life
            && let Ok(turn) = Arc::clone(&self.counting).try_lock_owned()
        {
            let (this, catalog) = (self.clone(), catalog.clone());
            tokio::spawn(async move {
                if let Err(error) = this.renew(&catalog).await {
                    tracing::warn!(%error, "who uses which crate could not be counted");
                }
                drop(turn);
            });
        }
        Ok(last.users)
    }

    fn last(&self) -> Option<Counted> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn renew(&self, catalog: &Catalog) -> Result<Arc<UsersOfCrates>, CatalogError> {
        let users = Arc::new(catalog.crate_users(None).await?);
        let counted = Counted { at: Instant::now(), users: Arc::clone(&users) };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
        Ok(users)
    }
}
