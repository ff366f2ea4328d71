//! Key-value data in a Redis or Valkey server, for resources that an operator puts there: as in PostgreSQL, by scripts that run as a
//! whole or not at all.
//!
//! A change is there when the server has run the script of its commit, and as durable as the server keeps it. Versions are drawn at
//! random and not counted: a server that loses its last changes would count some of them a second time, and what a call has seen would
//! seem to be as it was. Audit records stand in the server's outbox when a commit has taken effect, and are moved to PostgreSQL from
//! there, each once.

mod connection;
mod encoding;
mod facts;
mod file;
mod outbox;

use std::sync::Arc;

use ::redis::{Cmd, FromRedisValue, RedisError};
use mfaas_ident::ResourceName;
use uuid::Uuid;

use crate::KvError;
use crate::error::{Meaning, StoreError};
use crate::key::{Key, Place, Range};
use crate::part::Part;
use crate::redis::connection::{Connections, Link, Script};
use crate::retry::read;
use crate::store::Caller;
use crate::transaction::{Entry, Expiry, Value, Write};

pub use file::RedisServer;
pub(crate) use outbox::{AuditRecord, Waiting};

/// How long it is remembered that a call took effect: longer than any is asked for again.
const COMMITS_KEPT_MS: u64 = 24 * 3_600 * 1_000;
/// Commits whose audit records wait; beyond it none takes effect.
const OUTBOX_MAX: u64 = 1_000_000;
/// Commits whose audit records are moved at once.
const MOVED_MAX: usize = 64;
/// Entries that one script removes, so that it does not hold up others.
pub(crate) const SWEPT_MAX: u64 = 500;

/// Seconds and microseconds since 1970, and what lies at each key.
type TimedValues = ((u64, u64), Vec<Option<Vec<u8>>>);

/// A server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Redis {
    connections: Arc<Connections>,
}

impl Redis {
    /// Looks at a server, which has to be one that keeps what it is given.
    pub(crate) async fn open(server: &RedisServer) -> Result<Self, StoreError> {
        let opened = Connections::open(server.name.clone(), server.client.clone()).await;
        Ok(Self { connections: Arc::new(opened?) })
    }

    /// What the operator's file calls it.
    pub(crate) fn name(&self) -> &str {
        &self.connections.server
    }

    /// A number that no other server has.
    pub(crate) fn identity(&self) -> Uuid {
        self.connections.identity()
    }

    /// Whether it may still be used.
    pub(crate) async fn look_again(&self) -> Result<(), StoreError> {
        self.connections.look_again().await
    }

    /// The entries of these keys now, in their order.
    pub(crate) async fn read(
        &self,
        resource: &ResourceName,
        places: &[Place],
    ) -> Result<Vec<Option<Entry>>, KvError> {
        let mut ask = ::redis::pipe();
        let get = ask.cmd("TIME").cmd("MGET").arg(encoding::IDENTITY);
        for place in places {
            get.arg(encoding::entry(resource, &place.key));
        }
        let ask = &ask;
        let ((seconds, micros), found) = read(async || {
            let mut link = self.connections.link().await?;
            let answer = ask.query_async::<TimedValues>(&mut link.connection).await;
            self.judged(&link, answer).await
        })
        .await?;
        let now_ms = seconds * 1_000 + micros / 1_000;
        let mut found = found.into_iter();
        let identity = found.next().flatten();
        if identity.as_deref() != Some(self.identity().to_string().as_bytes()) {
            let wrong = "has lost what it held, or is another one: its identity differs";
            return Err(KvError::unavailable(StoreError::Unusable(wrong.to_owned())));
        }
        Ok(found.map(|bytes| encoding::decode(&bytes?, now_ms)).collect())
    }

    /// The first entries of a range now, `limit` at most.
    pub(crate) async fn scan(
        &self,
        resource: &ResourceName,
        range: &Range,
        limit: usize,
    ) -> Result<Vec<(Key, Entry)>, KvError> {
        let (mut entries, mut range) = (Vec::new(), range.clone());
        loop {
            let missing = limit - entries.len();
            let arguments = |ask: &mut Cmd| {
                ask.arg(encoding::index(resource)).arg(encoding::entries(resource));
                ask.arg(&*range.from).arg(&*range.to).arg(missing);
            };
            let (last, found): (Vec<u8>, Vec<Vec<u8>>) =
                read(async || self.run(Script::Scan, &arguments).await).await?;
            for pair in found.chunks_exact(2) {
                if let [key, bytes] = pair
                    && let Some(entry) = encoding::decode(bytes, 0)
                {
                    entries.push((Key::of_entry(key.clone()), entry));
                }
            }
            // What has expired is left out, so that there may be more.
            if last.is_empty() || entries.len() >= limit {
                return Ok(entries);
            }
            range = range.behind(&last);
        }
    }

    /// True if the changes took effect now, false if they had before. Says whether a connection was lost on which it was asked.
    pub(crate) async fn try_commit(
        &self,
        caller: &Caller,
        part: &Part<'_>,
        was_lost: &mut bool,
    ) -> Result<bool, StoreError> {
        if part.writes.iter().any(|(_, write)| write.blob().is_some()) {
            return Err(StoreError::Unusable("keeps no objects: these lie in PostgreSQL".to_owned()));
        }
        let script = if part.writes() { Script::Commit } else { Script::Check };
        let mut link = self.connections.link().await?;
        let arguments = |ask: &mut Cmd| {
            ask.arg(self.identity().to_string());
            add_seen(ask, caller, part);
            if part.writes() {
                add_changes(ask, caller, part);
            }
        };
        let answer = link.run::<i64>(script, &arguments).await;
        if let Err(error) = &answer {
            *was_lost |= Meaning::of_redis(error) == Meaning::Lost;
        }
        Ok(self.judged(&link, answer).await? == 1)
    }

    /// True if the call took effect, false if it was given up, by now or before.
    pub(crate) async fn try_give_up(&self, caller: &Caller) -> Result<bool, StoreError> {
        let call = caller.call.to_string();
        let arguments = |ask: &mut Cmd| {
            ask.arg(&call).arg(COMMITS_KEPT_MS);
        };
        self.run::<i64>(Script::GiveUp, &arguments).await.map(|took_effect| took_effect == 1)
    }

    /// Removes what has expired, a bounded part of it: how much, and whether there may be more.
    pub(crate) async fn sweep(&self) -> Result<(u64, bool), KvError> {
        let arguments = |ask: &mut Cmd| {
            ask.arg(SWEPT_MAX);
        };
        let swept = self.run::<u64>(Script::Sweep, &arguments).await.map_err(KvError::Unavailable)?;
        Ok((swept, swept >= SWEPT_MAX))
    }

    /// The resources that hold at least so many bytes, and how many.
    pub(crate) async fn large(&self, bytes: u64) -> Result<Vec<(ResourceName, u64)>, KvError> {
        let mut ask = ::redis::cmd("HGETALL");
        ask.arg(encoding::SIZES);
        let held: Vec<(String, i64)> = read(async || self.ask(&ask).await).await?;
        // Nothing was ever written under what is no name.
        let size = |(name, held): (String, i64)| Some((name.parse().ok()?, u64::try_from(held).ok()?));
        Ok(held.into_iter().filter_map(size).filter(|(_, held)| *held >= bytes).collect())
    }

    /// What waits in the outbox after an item. An item that is none of ours stays there.
    pub(crate) async fn waiting(&self, after: Option<&str>) -> Result<Waiting, KvError> {
        let mut ask = ::redis::cmd("XRANGE");
        let from = after.map_or("-".to_owned(), |after| format!("({after}"));
        ask.arg(encoding::OUTBOX).arg(from).arg("+").arg("COUNT").arg(MOVED_MAX);
        let items: Vec<(String, Vec<Vec<u8>>)> = read(async || self.ask(&ask).await).await?;
        let next = items.last().filter(|_| items.len() >= MOVED_MAX).map(|(id, _)| id.clone());
        let mut waiting = Waiting { next, ..Waiting::default() };
        for (id, fields) in items {
            match outbox::decode(&id, &fields) {
                Some(records) => {
                    waiting.records.extend(records);
                    waiting.ids.push(id);
                }
                None => {
                    tracing::error!(server = self.name(), id, "an audit record cannot be read, and stays")
                }
            }
        }
        Ok(waiting)
    }

    /// These have been written.
    pub(crate) async fn remove_waiting(&self, ids: &[String]) -> Result<(), KvError> {
        let mut ask = ::redis::cmd("XDEL");
        ask.arg(encoding::OUTBOX).arg(ids);
        self.ask::<u64>(&ask).await.map(drop).map_err(KvError::Unavailable)
    }

    /// Runs a script that may run twice.
    async fn run<T: FromRedisValue>(
        &self,
        script: Script,
        arguments: &(impl Fn(&mut Cmd) + Sync),
    ) -> Result<T, StoreError> {
        let mut link = self.connections.link().await?;
        let identity = self.identity().to_string();
        let arguments = |ask: &mut Cmd| {
            ask.arg(&identity);
            arguments(ask);
        };
        let answer = link.run(script, &arguments).await;
        self.judged(&link, answer).await
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let mut link = self.connections.link().await?;
        let answer = command.query_async(&mut link.connection).await;
        self.judged(&link, answer).await
    }

    async fn judged<T>(&self, link: &Link, answer: Result<T, RedisError>) -> Result<T, StoreError> {
        if let Err(error) = &answer {
            self.connections.judge(link, error).await;
        }
        Ok(answer?)
    }
}

/// What check.lua takes.
fn add_seen(ask: &mut Cmd, caller: &Caller, part: &Part<'_>) {
    // One that changes nothing has no identity here.
    ask.arg(if part.writes() { caller.call.to_string() } else { String::new() });
    ask.arg(part.seen.len());
    for (place, version) in &part.seen {
        ask.arg(encoding::entry(&place.resource, &place.key)).arg(encoding::version(*version));
    }
    ask.arg(part.scans.len());
    for scan in &part.scans {
        ask.arg(encoding::index(&scan.resource)).arg(encoding::entries(&scan.resource));
        ask.arg(&*scan.range.from).arg(&*scan.range.to);
        ask.arg(scan.versions.iter().flat_map(|version| version.to_be_bytes()).collect::<Vec<u8>>());
    }
}

/// What write.lua takes.
fn add_changes(ask: &mut Cmd, caller: &Caller, part: &Part<'_>) {
    ask.arg(COMMITS_KEPT_MS).arg(OUTBOX_MAX);
    let of_caller = outbox::fields(caller);
    ask.arg(of_caller.len() * 2);
    for (name, value) in &of_caller {
        ask.arg(*name).arg(value);
    }
    ask.arg(part.writes.len());
    for (place, write) in &part.writes {
        ask.arg(place.resource.as_str()).arg(place.key.as_bytes());
        ask.arg(&rand::random_range(1..=i64::MAX).to_be_bytes()[..]);
        let value: &[u8] = match write.value() {
            Some(Value::Bytes(bytes)) => bytes,
            Some(Value::Blob(_)) | None => &[],
        };
        ask.arg(if write.value().is_some() { outbox::PUT } else { outbox::DELETE });
        ask.arg(expiry(write)).arg(value);
    }
}

/// Milliseconds from the commit on, or nothing, or as it is.
fn expiry(write: &Write) -> String {
    match write {
        Write::Put { expiry: Expiry::After(time), .. } => time.as_millis().to_string(),
        Write::Put { expiry: Expiry::Kept, .. } => "kept".to_owned(),
        Write::Put { expiry: Expiry::Never, .. } | Write::Delete => String::new(),
    }
}
