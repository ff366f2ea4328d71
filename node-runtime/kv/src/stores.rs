//! Where resources lie, and calls that concern several stores.
//!
//! A resource lies in PostgreSQL, or in the Redis server that the operator's file names for it. A call may read in several stores and
//! changes data of one: what it saw in the others is looked at right before its commit there, which is not one moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use mfaas_ident::ResourceName;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::backend::Backend;
use crate::error::StoreError;
use crate::key::{Key, Place, Range};
use crate::part::Part;
use crate::redis::{Redis, RedisServer};
use crate::store::{Caller, Committed, Store};
use crate::transaction::{Entry, Transaction};
use crate::{KvError, commit};

/// All stores. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stores {
    postgres: Store,
    servers: Arc<[Server]>,
    homes: Arc<Homes>,
}

/// A server that the file names.
#[derive(Debug)]
struct Server {
    named: RedisServer,
    /// Once it has answered. What lies there is refused until then.
    reached: OnceLock<Redis>,
    is_told: AtomicBool,
}

/// Which resources do not lie in PostgreSQL.
#[derive(Debug, Default)]
struct Homes {
    /// Those that the file names, and the number of the server where each lies.
    named: HashMap<ResourceName, usize>,
    /// Those that lie elsewhere than this process would look.
    elsewhere: RwLock<Vec<ResourceName>>,
    /// Whether some lie in a server that this process has not reached.
    has_strangers: AtomicBool,
}

impl Stores {
    /// PostgreSQL alone. What lies elsewhere is not known until [`Self::renew_homes`].
    pub fn of(postgres: Store) -> Self {
        Self { postgres, servers: Arc::default(), homes: Arc::default() }
    }

    /// PostgreSQL and these servers, which it remembers: a resource that lies in one store is never looked for in another one. A server
    /// that does not answer is asked again by [`Self::reach_servers`].
    ///
    /// # Errors
    /// [`KvError::Server`] if one of them cannot be used, or a resource lies elsewhere.
    pub async fn open(postgres: Store, servers: Vec<RedisServer>) -> Result<Self, KvError> {
        let numbered = servers.iter().enumerate();
        let named = numbered.flat_map(|(number, server)| server.resources.iter().map(move |at| (at, number)));
        let named = named.map(|(resource, number)| (resource.clone(), number)).collect();
        let server = |named| Server { named, reached: OnceLock::new(), is_told: AtomicBool::new(false) };
        let homes = Arc::new(Homes { named, ..Homes::default() });
        let stores = Self { postgres, servers: servers.into_iter().map(server).collect(), homes };
        stores.reach_servers().await?;
        stores.renew_homes().await?;
        Ok(stores)
    }

    /// Asks the servers that have not answered before: what lies in one that does is there after [`Self::renew_homes`]. Looks whether the
    /// others may still be used.
    ///
    /// # Errors
    /// [`KvError::Server`] if one has answered and cannot be used, or a resource lies elsewhere; all are asked nevertheless.
    pub async fn reach_servers(&self) -> Result<(), KvError> {
        let mut failed = Ok(());
        for server in &*self.servers {
            let name = &server.named.name;
            if let Some(redis) = server.reached.get() {
                if let Err(error) = redis.look_again().await {
                    tracing::warn!(server = name, %error, "what lies in a Redis server is refused");
                }
                continue;
            }
            match Redis::open(&server.named).await {
                Ok(redis) => failed = failed.and(self.reached(server, redis).await),
                Err(error) if error.is_away() => {
                    if !server.is_told.swap(true, Ordering::Relaxed) {
                        tracing::warn!(server = name, %error, "a Redis server does not answer; what lies there is refused until it does");
                    }
                }
                Err(error) => {
                    let wrong = match error {
                        StoreError::Unusable(what) => format!("it {what}"),
                        error => format!("it cannot be asked: {error}"),
                    };
                    failed = failed.and(Err(KvError::Server { server: name.clone(), wrong }));
                }
            }
        }
        failed
    }

    /// A server has answered: it is the home of what the file says.
    async fn reached(&self, server: &Server, redis: Redis) -> Result<(), KvError> {
        if let Some(same) = self.reached_servers().find(|other| other.identity() == redis.identity()) {
            let wrong = format!("it is the same as `{}`: name its resources there", same.name());
            return Err(KvError::Server { server: redis.name().to_owned(), wrong });
        }
        self.postgres.claim_homes(&server.named.resources, redis.identity(), redis.name()).await?;
        // Nobody else reaches it.
        let _ = server.reached.set(redis);
        Ok(())
    }

    fn reached_servers(&self) -> impl Iterator<Item = &Redis> {
        self.servers.iter().filter_map(|server| server.reached.get())
    }

    /// PostgreSQL, where everything else lies as well.
    pub fn postgres(&self) -> &Store {
        &self.postgres
    }

    /// Looks again which resources lie elsewhere than this process would look: of these nothing is read and nothing changed.
    pub async fn renew_homes(&self) -> Result<(), KvError> {
        let homes: HashMap<ResourceName, Uuid> = self.postgres.homes().await?.into_iter().collect();
        let is_known = |resource: &ResourceName, server: &Uuid| {
            let redis =
                self.homes.named.get(resource).and_then(|number| self.servers.get(*number)?.reached.get());
            redis.is_some_and(|redis| redis.identity() == *server)
        };
        let is_reached = |server: &Uuid| self.reached_servers().any(|redis| redis.identity() == *server);
        let has_strangers = homes.values().any(|server| !is_reached(server));
        self.homes.has_strangers.store(has_strangers, Ordering::Release);
        let others = homes.iter().filter(|(resource, server)| !is_known(resource, server));
        let moved = self.homes.named.keys().filter(|resource| !homes.contains_key(*resource));
        let elsewhere = others.map(|(resource, _)| resource).chain(moved).cloned().collect();
        *self.homes.elsewhere.write().unwrap_or_else(PoisonError::into_inner) = elsewhere;
        Ok(())
    }

    fn home(&self, resource: &ResourceName) -> Result<Backend<'_>, KvError> {
        let named = self.homes.named.get(resource).and_then(|number| self.servers.get(*number));
        if let Some(Server { named, reached, .. }) = named
            && reached.get().is_none()
        {
            let wrong = format!("it has not answered since this process began, and `{resource}` lies there");
            return Err(KvError::Server { server: named.name.clone(), wrong });
        }
        if self.homes.elsewhere.read().unwrap_or_else(PoisonError::into_inner).contains(resource) {
            return Err(KvError::Elsewhere(resource.clone()));
        }
        let redis = named.and_then(|server| server.reached.get());
        Ok(redis.map_or(Backend::Postgres(&self.postgres), Backend::Redis))
    }

    /// Whether a resource lies in PostgreSQL, as it has to for objects.
    pub fn is_in_postgres(&self, resource: &ResourceName) -> Result<bool, KvError> {
        Ok(matches!(self.home(resource)?, Backend::Postgres(_)))
    }

    fn all(&self) -> impl Iterator<Item = Backend<'_>> {
        std::iter::once(Backend::Postgres(&self.postgres)).chain(self.reached_servers().map(Backend::Redis))
    }

    pub(crate) async fn read(
        &self,
        resource: &ResourceName,
        places: &[Place],
    ) -> Result<Vec<Option<Entry>>, KvError> {
        match self.home(resource)? {
            Backend::Postgres(store) => store.read(resource, places).await,
            Backend::Redis(redis) => redis.read(resource, places).await,
        }
    }

    pub(crate) async fn scan(
        &self,
        resource: &ResourceName,
        range: &Range,
        limit: usize,
    ) -> Result<Vec<(Key, Entry)>, KvError> {
        match self.home(resource)? {
            Backend::Postgres(store) => store.scan(resource, range, limit).await,
            Backend::Redis(redis) => redis.scan(resource, range, limit).await,
        }
    }

    /// Whether a call may change data of this resource, after what it and the calls that made it have changed.
    ///
    /// # Errors
    /// [`KvError::SeveralStores`] if that lies in another store.
    pub fn may_change(&self, transaction: &Transaction, resource: &ResourceName) -> Result<(), KvError> {
        let home = self.home(resource)?;
        for changed in transaction.changed_resources() {
            if self.home(changed)? != home {
                return Err(KvError::SeveralStores { changed: changed.clone(), other: resource.clone() });
            }
        }
        Ok(())
    }

    /// A call that another one made has succeeded: see [`Transaction::absorb`].
    ///
    /// # Errors
    /// [`KvError::SeveralStores`] besides if they change data of several stores.
    pub fn absorb(&self, caller: &mut Transaction, callee: Transaction) -> Result<(), KvError> {
        for resource in callee.written_resources() {
            self.may_change(caller, resource)?;
        }
        caller.absorb(callee)
    }

    /// Lets all changes of a call take effect at once, if all that it saw is still so. What it saw in other stores than the one that it
    /// changes is looked at right before.
    ///
    /// Asked for again with the same call and the same transaction it is [`Committed::Before`], if it changes anything.
    ///
    /// # Errors
    /// [`KvError::Unacknowledged`] alone leaves open whether they took effect, and so does a future that is dropped.
    pub async fn commit(&self, caller: &Caller, transaction: &Transaction) -> Result<Committed, KvError> {
        if !transaction.needs_commit() {
            return Ok(Committed::Now);
        }
        // Once for all of it: what was looked up may change meanwhile.
        let mut homes = BTreeMap::new();
        for resource in transaction.resources() {
            homes.insert(resource, self.home(resource)?);
        }
        let lies_in = |home| {
            let homes = &homes;
            move |resource: &ResourceName| homes.get(resource) == Some(&home)
        };
        let mut changes = None;
        let mut checked_elsewhere = Ok(());
        for home in self.all() {
            let part = Part::of(transaction, lies_in(home));
            if part.writes() {
                if let Some((_, before)) = changes.replace((home, part)) {
                    return Err(several(&before, transaction));
                }
            } else if !part.is_empty() && checked_elsewhere.is_ok() {
                checked_elsewhere = self.check(home, caller, &part).await;
            }
        }
        let Some((home, part)) = changes else { return checked_elsewhere.map(|()| Committed::Now) };
        match checked_elsewhere {
            Ok(()) => commit::commit(home, caller, &part).await,
            // It may have been committed when it was asked for before.
            Err(KvError::Conflict) => commit::give_up(home, caller).await,
            Err(error) => Err(error),
        }
    }

    /// Whether what a call saw in a store that it does not change is still so.
    async fn check(&self, home: Backend<'_>, caller: &Caller, part: &Part<'_>) -> Result<(), KvError> {
        match commit::commit(home, caller, part).await {
            Ok(_) => Ok(()),
            // It changes nothing.
            Err(KvError::Unacknowledged(error)) => Err(KvError::Unavailable(error)),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that no attempt to commit the call takes effect any more, in any store, for whom it is not known what an earlier one
    /// came to: [`Committed::Before`] if it took effect, [`KvError::Conflict`] if none did or will.
    pub async fn give_up(&self, caller: &Caller) -> Result<Committed, KvError> {
        let mut asked = JoinSet::new();
        for number in 0..self.all().count() {
            let (stores, caller) = (self.clone(), caller.clone());
            asked.spawn(async move {
                let home = stores.all().nth(number);
                let home = home.ok_or(KvError::Unacknowledged(StoreError::NoConnection))?;
                commit::give_up(home, &caller).await
            });
        }
        // One that this process has not reached may have let it take effect for a process before.
        let is_whole = self.servers.iter().all(|server| server.reached.get().is_some())
            && !self.homes.has_strangers.load(Ordering::Acquire);
        let mut unknown = (!is_whole).then_some(KvError::Unacknowledged(StoreError::NoConnection));
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(committed)) => return Ok(committed),
                Ok(Err(KvError::Conflict)) => {}
                Ok(Err(error)) => unknown = Some(error),
                Err(_) => unknown = Some(KvError::Unacknowledged(StoreError::NoConnection)),
            }
        }
        Err(unknown.unwrap_or(KvError::Conflict))
    }

    /// Removes entries that have expired from the servers, a bounded part of it: how many, and whether there may be more.
    pub async fn sweep_servers(&self) -> Result<(u64, bool), KvError> {
        let (mut entries, mut may_be_more, mut failed) = (0, false, Ok(()));
        for redis in self.reached_servers() {
            match redis.sweep().await {
                Ok((of_server, more)) => (entries, may_be_more) = (entries + of_server, may_be_more || more),
                Err(error) => failed = Err(error),
            }
        }
        failed.map(|()| (entries, may_be_more))
    }

    /// The resources that hold at least so many bytes, and how many, as it is known by now.
    pub async fn large(&self, bytes: u64) -> Result<Vec<(ResourceName, u64)>, KvError> {
        let mut large = self.postgres.large(bytes).await?;
        for redis in self.reached_servers() {
            match redis.large(bytes).await {
                Ok(held) => large.extend(held),
                // It takes nothing while it does not answer.
                Err(error) => {
                    tracing::warn!(server = redis.name(), %error, "it is not known what resources hold")
                }
            }
        }
        Ok(large)
    }

    /// Moves audit records of changes from the servers to PostgreSQL, each once, whenever this ends: how many it wrote there.
    pub async fn move_audit(&self) -> Result<u64, KvError> {
        let (mut moved, mut failed) = (0, Ok(()));
        for redis in self.reached_servers() {
            match self.move_audit_of(redis).await {
                Ok(of_server) => moved += of_server,
                Err(error) => failed = Err(error),
            }
        }
        failed.map(|()| moved)
    }

    async fn move_audit_of(&self, redis: &Redis) -> Result<u64, KvError> {
        let (mut moved, mut after) = (0, None);
        loop {
            let waiting = redis.waiting(after.as_deref()).await?;
            if !waiting.ids.is_empty() {
                moved += self.postgres.keep_audit(&waiting.records).await?;
                redis.remove_waiting(&waiting.ids).await?;
            }
            after = waiting.next;
            if after.is_none() {
                return Ok(moved);
            }
        }
    }
}

/// Two resources that a call changes and that lie apart from each other.
fn several(part: &Part<'_>, transaction: &Transaction) -> KvError {
    let lies_there =
        |resource: &ResourceName| part.writes.iter().any(|(place, _)| place.resource == *resource);
    let mut of_part = transaction.written_resources().filter(|resource| lies_there(resource));
    let mut others = transaction.written_resources().filter(|resource| !lies_there(resource));
    match (of_part.next(), others.next()) {
        (Some(changed), Some(other)) => {
            KvError::SeveralStores { changed: changed.clone(), other: other.clone() }
        }
        _ => KvError::Conflict,
    }
}
