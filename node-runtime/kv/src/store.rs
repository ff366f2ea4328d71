//! The database: read when a call asks, written when it has succeeded.

use std::sync::Arc;
use std::time::Duration;

use mfaas_ident::{FunctionName, ResourceName, TenantName, VersionNumber};
use uuid::Uuid;

use crate::KvError;
use crate::address;
use crate::connections::{Connections, Waits};
use crate::error::Meaning;
use crate::key::{Key, Place, Range};
use crate::part::Part;
use crate::retry::read;
use crate::schema;
use crate::transaction::{Blob, Entry, Expiry, Scan, Value, Write};

/// How long a caller waits for a free connection, and for an answer.
const WAITS: Waits = Waits { connection: Duration::from_secs(3), answer: Duration::from_secs(8) };
/// Connections for what a broker does of itself, now and then: it sums up, sweeps, and writes down what was read.
const OWN_CONNECTIONS: u32 = 4;
/// The database lets no statement take longer: one that does is stuck behind a lock, or behind a disk.
const STATEMENT_MS_MAX: &str = "5000";
/// How long it is remembered that a call took effect: longer than any is asked for again.
const COMMITS_KEPT: &str = "1 day";
/// How long a blob stays that no entry names yet: longer than any call runs, which may wait for an hour and take its time after that.
const STAGED_KEPT: &str = "6 hours";
/// And one whose call is over: what stores it may not have heard of that.
const ABANDONED_KEPT: &str = "2 minutes";
/// And one that no entry names any more. A call that has seen it and runs for longer meets a conflict.
const FREED_KEPT: &str = "5 minutes";
/// Blobs that are removed at once.
const DOOMED_MAX: i64 = 256;
/// Rows that one sweep looks at of each kind, so that it holds no locks for long.
const SWEPT_MAX: i64 = 10_000;

/// Connections to it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    /// What calls read.
    reading: Arc<Connections>,
    /// All that is neither that nor a commit.
    pub(crate) other: Arc<Connections>,
    /// Each statement is a serializable transaction.
    pub(crate) commits: Arc<Connections>,
}

/// Whose call commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The call; no other one ever has the same.
    pub call: Uuid,
    /// Whose function it runs.
    pub tenant: TenantName,
    /// The function.
    pub function: FunctionName,
    /// And its version.
    pub version: VersionNumber,
    /// The trace that the call is part of.
    pub trace: Option<String>,
}

/// What a commit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The changes took effect.
    Now,
    /// They had taken effect before, when the same was asked for.
    Before,
}

/// What was summed up of what resources hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summed {
    /// The last change among it, if there was any.
    pub last: Option<i64>,
    /// Whether it was as much as is summed up at once.
    pub may_be_more: bool,
}

/// A read that is audited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedRead {
    /// Whose it was.
    pub caller: Caller,
    /// Of what.
    pub resource: ResourceName,
    /// The first key, or what the keys of a scan begin with.
    pub key: Vec<u8>,
    /// Whether it was a scan, and not a read of keys.
    pub is_scan: bool,
    /// Keys that were asked for, or entries that a scan gave.
    pub keys: usize,
    /// What it gave, in bytes, with what stands around it.
    pub bytes: usize,
}

/// What a sweep has removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Entries that had expired.
    pub entries: u64,
    /// Identities of calls that are not asked for any more.
    pub commits: u64,
    /// Audit records that are older than they are kept.
    pub audit: u64,
    /// Events that were more than may wait, or of triggers that are none any more.
    pub events: u64,
}

impl Swept {
    /// Whether it was all that one sweep removes, so that there may be more.
    pub fn may_be_more(&self) -> bool {
        self.entries.max(self.commits).max(self.audit).max(self.events) >= SWEPT_MAX as u64
    }
}

impl Store {
    /// Connects, with `connections_max` for commits, as many and `more` for what calls read, `more` for what they write before they
    /// commit, and some for itself, and brings the schema up to date.
    pub async fn open(url: &str, connections_max: u32, more: u32) -> Result<Self, KvError> {
        let options = address::options(url)?;
        let options = options.application_name("mfaas-kv").options([("search_path", schema::NAME)]);
        schema::prepare(&options).await?;
        let options = options.options([("statement_timeout", STATEMENT_MS_MAX)]);
        let serializable = options.clone().options([("default_transaction_isolation", "serializable")]);
        let connections = |options, number| Arc::new(Connections::new(options, number, WAITS));
        Ok(Self {
            reading: connections(options.clone(), connections_max.saturating_add(more)),
            other: connections(options, more.saturating_add(OWN_CONNECTIONS)),
            commits: connections(serializable, connections_max),
        })
    }

    /// The entries of these keys now, in their order.
    pub(crate) async fn read(
        &self,
        resource: &ResourceName,
        places: &[Place],
    ) -> Result<Vec<Option<Entry>>, KvError> {
        let keys: Vec<&[u8]> = places.iter().map(|place| place.key.as_bytes()).collect();
        let ask = || {
            let asked = sqlx::query_as(
                "SELECT asked.key, e.version, e.value, e.blob, e.blob_bytes FROM unnest($2::bytea[]) WITH ORDINALITY AS asked (key, number)
                 LEFT JOIN entries e ON e.resource = $1 AND e.key = asked.key
                     AND (e.expires_at IS NULL OR e.expires_at > now())
                 ORDER BY asked.number",
            )
            .bind(resource.as_str())
            .bind(&keys);
            self.reading.fetch_all(asked)
        };
        let rows: Vec<Row> = read(ask).await?;
        Ok(rows.into_iter().map(|row| row.entry().map(|(_, entry)| entry)).collect())
    }

    /// The first entries of a range now, `limit` at most.
    pub(crate) async fn scan(
        &self,
        resource: &ResourceName,
        range: &Range,
        limit: usize,
    ) -> Result<Vec<(Key, Entry)>, KvError> {
        let ask = || {
            let asked = sqlx::query_as(
                "SELECT key, version, value, blob, blob_bytes FROM entries
                 WHERE resource = $1 AND key >= $2 AND key < $3
                     AND (expires_at IS NULL OR expires_at > now())
                 ORDER BY key LIMIT $4",
            )
            .bind(resource.as_str())
            .bind(&range.from)
            .bind(&range.to)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
            self.reading.fetch_all(asked)
        };
        let rows: Vec<Row> = read(ask).await?;
        Ok(rows.into_iter().filter_map(Row::entry).collect())
    }

    /// True if the call took effect, false if it was given up, by now or before.
    pub(crate) async fn try_give_up(&self, caller: &Caller) -> Result<bool, sqlx::Error> {
        let asked = sqlx::query_as("SELECT give_up_call($1)").bind(caller.call);
        self.commits.fetch_one(asked).await.map(|(took_effect,)| took_effect)
    }

    /// True if the changes took effect now, false if they had before. Says whether a connection was lost on which it was asked.
    pub(crate) async fn try_commit(
        &self,
        caller: &Caller,
        part: &Part<'_>,
        was_lost: &mut bool,
    ) -> Result<bool, sqlx::Error> {
        let Part { seen, scans, writes } = part;
        let resource = |name: &ResourceName| name.as_str().to_owned();
        // Where there is no connection nothing was asked.
        let mut taken = self.commits.take().await?;
        let asked = sqlx::query_scalar(
            "SELECT commit_call(
                 $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
             WHERE lie_here($6::text[] || $9::text[] || $13::text[])
                 AND set_config('mfaas_data.caller', $2::text || '/' || $3::text, true) IS NOT NULL",
        )
        .bind(caller.call)
        .bind(caller.tenant.as_str())
        .bind(caller.function.as_str())
        .bind(i64::from(caller.version.get()))
        .bind(caller.trace.as_deref())
        .bind(seen.iter().map(|(place, _)| resource(&place.resource)).collect::<Vec<_>>())
        .bind(seen.iter().map(|(place, _)| place.key.as_bytes()).collect::<Vec<_>>())
        .bind(seen.iter().map(|(_, version)| version.unwrap_or(0)).collect::<Vec<_>>())
        .bind(scans.iter().map(|scan| resource(&scan.resource)).collect::<Vec<_>>())
        .bind(scans.iter().map(|scan| &*scan.range.from).collect::<Vec<_>>())
        .bind(scans.iter().map(|scan| &*scan.range.to).collect::<Vec<_>>())
        .bind(scans.iter().map(|scan| versions(scan)).collect::<Vec<_>>())
        .bind(writes.iter().map(|(place, _)| resource(&place.resource)).collect::<Vec<_>>())
        .bind(writes.iter().map(|(place, _)| place.key.as_bytes()).collect::<Vec<_>>())
        .bind(writes.iter().map(|(_, write)| write.value().map(stored)).collect::<Vec<_>>())
        .bind(writes.iter().map(|(_, write)| expiry_ms(write)).collect::<Vec<_>>())
        .bind(writes.iter().map(|(_, write)| write.blob().map(|blob| blob.id)).collect::<Vec<_>>())
        .bind(writes.iter().map(|(_, write)| write.blob().map_or(0, bytes_of)).collect::<Vec<_>>())
        .fetch_one(taken.connection());
        let answer = self.commits.within(asked).await;
        // What the database itself refuses has not taken effect; of anything else that is not known.
        taken.answered(answer).inspect_err(|error| {
            let is_lost = Meaning::of_postgres(error) == Meaning::Lost;
            *was_lost |= is_lost || !matches!(error, sqlx::Error::Database(_));
        })
    }

    /// Removes what has expired and what nobody asks for any more, and audit records of more than so many days ago: a bounded part
    /// of it.
    pub async fn sweep(&self, audit_days: u32) -> Result<Swept, KvError> {
        let entries = sqlx::query(
            "DELETE FROM entries WHERE (resource, key) IN
                 (SELECT resource, key FROM entries WHERE expires_at <= now() LIMIT $1 FOR UPDATE SKIP LOCKED)",
        );
        let commits = sqlx::query(
            "DELETE FROM commits WHERE call IN
                 (SELECT call FROM commits WHERE committed_at < now() - $2::text::interval LIMIT $1)",
        );
        let audit = sqlx::query(
            "DELETE FROM audit WHERE id IN
                 (SELECT id FROM audit WHERE at < now() - $2 * interval '1 day' ORDER BY at LIMIT $1)",
        );
        let moved = sqlx::query(
            "DELETE FROM moved_calls WHERE call IN
                 (SELECT call FROM moved_calls WHERE moved_at < now() - $2 * interval '1 day' ORDER BY moved_at LIMIT $1)",
        );
        Ok(Swept {
            entries: self.change(entries.bind(SWEPT_MAX)).await?,
            commits: self.change(commits.bind(SWEPT_MAX).bind(COMMITS_KEPT)).await?
                + self.change(moved.bind(SWEPT_MAX).bind(f64::from(audit_days))).await?,
            audit: self.change(audit.bind(SWEPT_MAX).bind(f64::from(audit_days))).await?,
            events: self.drop_events(SWEPT_MAX).await?,
        })
    }

    /// Sums up what has changed of what resources hold, a bounded part of it, from that change on: what was summed up stays in the
    /// index for a while, and need not be looked through again.
    pub async fn sum_sizes(&self, from: i64) -> Result<Summed, KvError> {
        let sum = sqlx::query_as(
            "WITH taken AS (
                 DELETE FROM size_changes WHERE id IN
                     (SELECT id FROM size_changes WHERE id >= $2 ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
                 RETURNING id, resource, bytes
             ), summed AS (
                 INSERT INTO sizes AS s (resource, bytes)
                 SELECT resource, sum(bytes) FROM taken GROUP BY resource ORDER BY resource
                 ON CONFLICT (resource) DO UPDATE SET bytes = s.bytes + excluded.bytes
             )
             SELECT count(*), max(id) FROM taken",
        );
        let summed = self.other.fetch_one(sum.bind(SWEPT_MAX).bind(from)).await;
        let (count, last): (i64, Option<i64>) = summed.map_err(KvError::unavailable)?;
        Ok(Summed { last, may_be_more: count >= SWEPT_MAX })
    }

    /// The resources that hold at least so many bytes, and how many, as it was summed up last.
    pub async fn large(&self, bytes: u64) -> Result<Vec<(ResourceName, u64)>, KvError> {
        let ask = || {
            let asked = sqlx::query_as("SELECT resource, bytes FROM sizes WHERE bytes >= $1");
            self.other.fetch_all(asked.bind(i64::try_from(bytes).unwrap_or(i64::MAX)))
        };
        let rows: Vec<(String, i64)> = read(ask).await?;
        // Nothing was ever written under what is no name.
        let size = |(name, bytes): (String, i64)| Some((name.parse().ok()?, u64::try_from(bytes).ok()?));
        Ok(rows.into_iter().filter_map(size).collect())
    }

    /// Writes audit records of reads.
    pub async fn audit_reads(&self, reads: &[AuditedRead]) -> Result<(), KvError> {
        let texts = |of: fn(&AuditedRead) -> &str| reads.iter().map(of).collect::<Vec<_>>();
        let insert = sqlx::query(
            "INSERT INTO audit (call, tenant, function, version, trace, resource, key_sha256, operation, bytes, keys)
             SELECT call, tenant, function, version, trace, resource, sha256(key), operation, bytes, keys
             FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bytea[],
                 $8::text[], $9::integer[], $10::integer[])
                 AS read (call, tenant, function, version, trace, resource, key, operation, bytes, keys)",
        )
        .bind(reads.iter().map(|read| read.caller.call).collect::<Vec<_>>())
        .bind(texts(|read| read.caller.tenant.as_str()))
        .bind(texts(|read| read.caller.function.as_str()))
        .bind(reads.iter().map(|read| i64::from(read.caller.version.get())).collect::<Vec<_>>())
        .bind(reads.iter().map(|read| read.caller.trace.as_deref()).collect::<Vec<_>>())
        .bind(texts(|read| read.resource.as_str()))
        .bind(reads.iter().map(|read| &*read.key).collect::<Vec<_>>())
        .bind(texts(|read| if read.is_scan { "scan" } else { "get" }))
        .bind(reads.iter().map(|read| i32::try_from(read.bytes).unwrap_or(i32::MAX)).collect::<Vec<_>>())
        .bind(reads.iter().map(|read| i32::try_from(read.keys).unwrap_or(i32::MAX)).collect::<Vec<_>>());
        self.change(insert).await.map(drop)
    }

    /// Announces a blob of so many bytes, which is to be stored now: from here on it is counted among what the resource holds, and
    /// removed if no entry names it in time.
    pub async fn announce(&self, resource: &ResourceName, bytes: u64) -> Result<Blob, KvError> {
        let blob = Blob { id: Uuid::new_v4(), bytes };
        let insert = sqlx::query("INSERT INTO staged_blobs (id, resource, bytes) VALUES ($1, $2, $3)");
        self.change(insert.bind(blob.id).bind(resource.as_str()).bind(bytes_of(blob))).await?;
        Ok(blob)
    }

    /// Those of these blobs that no entry names are not to be named any more: their call is over.
    pub async fn abandon(&self, blobs: &[Uuid]) -> Result<u64, KvError> {
        let abandon = sqlx::query(
            "UPDATE staged_blobs SET doomed = true, since = now() - $2::text::interval + $3::text::interval
             WHERE id = ANY($1)",
        );
        self.change(abandon.bind(blobs).bind(STAGED_KEPT).bind(ABANDONED_KEPT)).await
    }

    /// Blobs that no entry names for so long that none will any more, a bounded number: they are to be removed.
    pub async fn doom(&self) -> Result<Vec<Uuid>, KvError> {
        let doom = sqlx::query_as(
            "WITH doomed AS (
                 UPDATE staged_blobs SET doomed = true WHERE id IN
                     (SELECT id FROM staged_blobs WHERE since < now() - $2::text::interval ORDER BY since LIMIT $1
                      FOR UPDATE SKIP LOCKED)
                 RETURNING id
             ), freed AS (
                 SELECT id FROM freed_blobs WHERE since < now() - $3::text::interval ORDER BY since LIMIT $1
             )
             SELECT id FROM doomed UNION ALL SELECT id FROM freed",
        );
        let doom = doom.bind(DOOMED_MAX).bind(STAGED_KEPT).bind(FREED_KEPT);
        let doomed: Vec<(Uuid,)> = self.other.fetch_all(doom).await.map_err(KvError::unavailable)?;
        Ok(doomed.into_iter().map(|(id,)| id).collect())
    }

    /// These have been removed.
    pub async fn removed(&self, blobs: &[Uuid]) -> Result<(), KvError> {
        let staged = sqlx::query("DELETE FROM staged_blobs WHERE doomed AND id = ANY($1)");
        let freed = sqlx::query("DELETE FROM freed_blobs WHERE id = ANY($1)");
        self.change(staged.bind(blobs)).await?;
        self.change(freed.bind(blobs)).await.map(drop)
    }

    /// Whether an entry is still as a call saw it, or put it.
    pub async fn names(&self, place: &Place, blob: Blob) -> Result<bool, KvError> {
        let entries = self.read(&place.resource, std::slice::from_ref(place)).await?;
        Ok(entries.into_iter().flatten().any(|entry| entry.value == Value::Blob(blob)))
    }

    /// How many rows a statement changed.
    pub(crate) async fn change(
        &self,
        statement: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> Result<u64, KvError> {
        let done = self.other.execute(statement).await.map_err(KvError::unavailable)?;
        Ok(done.rows_affected())
    }
}

/// A key, and the entry that there may be.
#[derive(sqlx::FromRow)]
struct Row {
    key: Vec<u8>,
    version: Option<i64>,
    value: Option<Vec<u8>>,
    blob: Option<Uuid>,
    blob_bytes: Option<i64>,
}

impl Row {
    fn entry(self) -> Option<(Key, Entry)> {
        let (version, bytes) = (self.version?, self.value?);
        let value = match self.blob {
            Some(id) => Value::Blob(Blob { id, bytes: u64::try_from(self.blob_bytes?).ok()? }),
            None => Value::Bytes(bytes.into()),
        };
        Some((Key::of_entry(self.key), Entry { value, version }))
    }
}

/// What stands in the database itself.
fn stored(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        Value::Blob(_) => &[],
    }
}

fn bytes_of(blob: Blob) -> i64 {
    i64::try_from(blob.bytes).unwrap_or(i64::MAX)
}

fn expiry_ms(write: &Write) -> Option<i64> {
    match write {
        Write::Put { expiry: Expiry::After(time), .. } => {
            Some(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
        }
        Write::Put { expiry: Expiry::Kept, .. } => Some(-1),
        Write::Put { expiry: Expiry::Never, .. } | Write::Delete => None,
    }
}

/// As PostgreSQL writes an array of numbers.
fn versions(scan: &Scan) -> String {
    let numbers: Vec<String> = scan.versions.iter().map(i64::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}
