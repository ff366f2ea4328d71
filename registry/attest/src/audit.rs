//! Where the audit log ends: a chain of hashes, whose head each serving set names.
//!
//! Who can write the whole database can write the whole chain anew. What is signed elsewhere cannot be, so a row that a signed
//! head covers stays what it was.
//!
//! The oldest rows may be kept in archives instead: files of lines, the first an [`AuditArchive`], each further one a row.

use mfaas_ident::Digest;

/// The end of the chain at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditHead {
    /// The number of the last row; 0 before the first.
    pub row: u64,
    /// Its hash.
    pub hash: Digest,
}

impl AuditHead {
    /// Before the first row.
    pub const START: Self = Self { row: 0, hash: Digest::from_bytes([0; 32]) };

    /// The head behind the next row. `fields` are the row's as the database hashes them: its number, its time in microseconds
    /// since 1970, role, actor, action, tenant, subject and detail. A hash covers `length:field` of the hash before and of every
    /// field, lengths in bytes.
    #[must_use]
    pub fn next<'a>(self, fields: impl IntoIterator<Item = &'a str>) -> Self {
        let previous = self.hash.to_string();
        let mut input = format!("{}:{previous}", previous.len());
        for field in fields {
            input.push_str(&format!("{}:{field}", field.len()));
        }
        Self { row: self.row + 1, hash: Digest::of(input.as_bytes()) }
    }
}

/// The first line of an archive: which rows follow it, a line for each, in the form in which their hashes cover them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditArchive {
    /// [`Self::FORMAT`].
    pub format: u32,
    /// The head before the first row.
    pub start: AuditHead,
    /// The head behind the last one, which a record of the log names as well.
    pub end: AuditHead,
}

impl AuditArchive {
    /// What this release writes and reads.
    pub const FORMAT: u32 = 1;
    /// The action of the record that names the last row of an archive in its detail, as `last_row` and `hash`.
    pub const ACTION: &str = "audit.archived";
}
