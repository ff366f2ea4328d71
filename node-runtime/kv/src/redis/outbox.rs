//! Audit records on their way to PostgreSQL: written with the changes, and there until they stand in the audit.

use std::collections::HashMap;

use mfaas_ident::{ResourceName, VersionNumber};
use uuid::Uuid;

use crate::store::Caller;

pub(super) const PUT: &str = "put";
pub(super) const DELETE: &str = "delete";

/// One change of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditRecord {
    pub(crate) caller: Caller,
    /// When it took effect, in ms since 1970.
    pub(crate) at_ms: i64,
    pub(crate) resource: ResourceName,
    pub(crate) key: Vec<u8>,
    pub(crate) operation: &'static str,
    /// Of the value.
    pub(crate) bytes: i32,
}

/// A part of the outbox.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// What is to be removed when the records are written.
    pub(crate) ids: Vec<String>,
    pub(crate) records: Vec<AuditRecord>,
    /// After which one the next part begins; the end if absent.
    pub(crate) next: Option<String>,
}

/// What stands in an item of the outbox besides the changes.
pub(super) fn fields(caller: &Caller) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("call", caller.call.to_string()),
        ("tenant", caller.tenant.to_string()),
        ("function", caller.function.to_string()),
        ("version", caller.version.to_string()),
    ];
    fields.extend(caller.trace.clone().map(|trace| ("trace", trace)));
    fields
}

/// The records of a commit.
pub(super) fn decode(id: &str, fields: &[Vec<u8>]) -> Option<Vec<AuditRecord>> {
    let at_ms = id.split('-').next()?.parse().ok()?;
    let (mut of_call, mut changes) = (HashMap::new(), Vec::new());
    for pair in fields.chunks(2) {
        let [name, value] = pair else { return None };
        let name = std::str::from_utf8(name).ok()?;
        match name.split_once(':') {
            Some((operation, resource)) => changes.push((operation, resource, value)),
            None => drop(of_call.insert(name, std::str::from_utf8(value).ok()?)),
        }
    }
    let caller = Caller {
        call: of_call.get("call")?.parse::<Uuid>().ok()?,
        tenant: of_call.get("tenant")?.parse().ok()?,
        function: of_call.get("function")?.parse().ok()?,
        version: VersionNumber::new(of_call.get("version")?.parse().ok()?).ok()?,
        trace: of_call.get("trace").map(|trace| (*trace).to_owned()),
    };
    let record = |(operation, resource, value): (&str, &str, &Vec<u8>)| {
        let operation = [PUT, DELETE].into_iter().find(|known| *known == operation)?;
        let (bytes, key) = value.split_first_chunk()?;
        Some(AuditRecord {
            caller: caller.clone(),
            at_ms,
            resource: resource.parse().ok()?,
            key: key.to_vec(),
            operation,
            bytes: i32::from_be_bytes(*bytes),
        })
    };
    changes.into_iter().map(record).collect()
}

#[cfg(test)]
mod tests;
