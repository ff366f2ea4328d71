//! What the database is told of what lies elsewhere: that there is a store, and what calls change at once: files, and what servers have.

use mfaas_ident::ResourceName;

use crate::error::KvError;
use crate::retry::read;
use crate::store::{Caller, Store};

/// What a store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// Objects.
    Object,
    /// Volumes.
    Volume,
}

impl StoreKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Volume => "volume",
        }
    }
}

/// What is done at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// A file is made, if there is none.
    Create,
    /// Bytes are put into a file.
    Write,
    /// A file is given another size.
    Truncate,
    /// A file is removed.
    Remove,
    /// A server is asked for something that may change what it has.
    Request,
}

impl ChangeKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Write => "write",
            Self::Truncate => "truncate",
            Self::Remove => "remove",
            Self::Request => "request",
        }
    }
}

/// A change that takes effect at once, and is to be audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditedChange<'a> {
    /// The volume, or the server.
    pub resource: &'a ResourceName,
    /// The file, or the method and the path of the request.
    pub target: &'a str,
    /// What is done.
    pub kind: ChangeKind,
}

/// All that a call has done of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeOutcome {
    /// As it was announced.
    pub id: i64,
    /// How many operations there were.
    pub operations: u32,
    /// The bytes that were written or sent, as far as that is known.
    pub bytes: u64,
    /// Of a file: the first one, and the one behind the last.
    pub range: Option<(u64, u64)>,
    /// Whether one of the operations failed, which may have been done in part.
    pub has_failed: bool,
}

impl Store {
    /// Whether a store of that kind was ever opened over this data.
    pub async fn has_opened_store(&self, kind: StoreKind) -> Result<bool, KvError> {
        let ask = || {
            let asked = sqlx::query_as("SELECT EXISTS (SELECT FROM opened_stores WHERE kind = $1)");
            self.other.fetch_one(asked.bind(kind.as_str()))
        };
        read(ask).await.map(|(has,)| has)
    }

    /// One was opened.
    pub async fn note_opened_store(&self, kind: StoreKind) -> Result<(), KvError> {
        let insert = sqlx::query(
            "INSERT INTO opened_stores (kind) SELECT $1 WHERE NOT EXISTS (SELECT FROM opened_stores WHERE kind = $1)",
        );
        self.change(insert.bind(kind.as_str())).await.map(drop)
    }

    /// Announces that a call is about to change something: the number under which [`Store::complete_changes`] tells what came of it.
    pub async fn announce_change(&self, caller: &Caller, change: &AuditedChange<'_>) -> Result<i64, KvError> {
        let insert = sqlx::query_as(
            "INSERT INTO audit (call, tenant, function, version, trace, resource, key_sha256, operation, bytes, keys, outcome)
             VALUES ($1, $2, $3, $4, $5, $6, sha256($7), $8, 0, 0, 'begun') RETURNING id",
        )
        .bind(caller.call)
        .bind(caller.tenant.as_str())
        .bind(caller.function.as_str())
        .bind(i64::from(caller.version.get()))
        .bind(caller.trace.as_deref())
        .bind(change.resource.as_str())
        .bind(change.target.as_bytes())
        .bind(change.kind.as_str());
        self.other.fetch_one(insert).await.map(|(id,)| id).map_err(KvError::unavailable)
    }

    /// Tells what came of changes that were announced.
    pub async fn complete_changes(&self, changes: &[ChangeOutcome]) -> Result<(), KvError> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let update = sqlx::query(
            "UPDATE audit SET file_bytes = told.bytes, keys = told.operations, from_byte = told.from_byte,
                 to_byte = told.to_byte, outcome = CASE WHEN told.failed THEN 'failed' ELSE 'done' END
             FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bigint[], $5::bigint[], $6::boolean[])
                 AS told (id, bytes, operations, from_byte, to_byte, failed)
             WHERE audit.id = told.id AND audit.outcome = 'begun'",
        )
        .bind(changes.iter().map(|changed| changed.id).collect::<Vec<_>>())
        .bind(changes.iter().map(|changed| number(changed.bytes)).collect::<Vec<_>>())
        .bind(
            changes
                .iter()
                .map(|changed| i32::try_from(changed.operations).unwrap_or(i32::MAX))
                .collect::<Vec<_>>(),
        )
        .bind(changes.iter().map(|changed| changed.range.map(|(from, _)| number(from))).collect::<Vec<_>>())
        .bind(changes.iter().map(|changed| changed.range.map(|(_, to)| number(to))).collect::<Vec<_>>())
        .bind(changes.iter().map(|changed| changed.has_failed).collect::<Vec<_>>());
        self.change(update).await.map(drop)
    }
}
