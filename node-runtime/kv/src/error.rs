//! Why something was not read, changed or committed.

/// Why something was not read, changed or committed.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// A key without bytes, or one that is too long.
    #[error("a key has 1 to {max} bytes, this one has {0}", max = crate::limits::KEY_BYTES_MAX)]
    Key(usize),
    /// More than a call may use.
    #[error("{count} {what}, the limit is {max}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How much it would be.
        count: usize,
        /// What a call may use.
        max: usize,
    },
    /// What lies there is of the other kind: bytes where a blob is asked for, or a blob where bytes are.
    #[error("what lies there is of another kind")]
    OtherKind,
    /// What is to be incremented is no number.
    #[error("the value is no whole number of 64 bits")]
    NotANumber,
    /// The sum is none of 64 bits.
    #[error("the sum is no whole number of 64 bits")]
    Overflow,
    /// Another call has changed what this one saw: nothing took effect, and the call has to run again, under another identity.
    #[error("another call has changed what this one has read")]
    Conflict,
    /// Others stood in the way again and again: nothing took effect.
    #[error("the database is too busy with other calls")]
    Busy,
    /// The database does not answer as it should: nothing took effect.
    #[error("the database of functions' data does not answer")]
    Unavailable(#[source] sqlx::Error),
    /// The connection was lost again and again after the database may have been asked to commit: whether the changes took effect is not
    /// known, and asking again under the same identity finds out.
    #[error("the database of functions' data did not acknowledge the changes")]
    Unacknowledged(#[source] sqlx::Error),
    /// It is no address of a database, or of one that may not be spoken to like that.
    #[error(transparent)]
    Address(#[from] mfaas_startup::DatabaseAddressError),
    /// The address names more servers than one.
    #[error("the address of functions' data names {0} servers, which has to be one")]
    SeveralServers(usize),
    /// Its schema cannot be made, or is of a newer release.
    #[error("the schema of functions' data cannot be brought up to date")]
    Schema(#[source] sqlx::migrate::MigrateError),
}

/// What an error of the database means for a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// What was seen is not so any more.
    Conflict,
    /// The database ended it in favour of another one: nothing took effect, and it can be asked for again.
    Contention,
    /// The connection was lost: it may have taken effect.
    Lost,
    /// Anything else.
    Failed,
}

/// Raised by `commit_call` in the schema.
const CONFLICT: &str = "MF001";
/// Serialization failure, deadlock.
const CONTENTION: [&str; 2] = ["40001", "40P01"];
/// Connections that end: classes 08 (connection) and 57P (a server that stops).
const LOST: [&str; 2] = ["08", "57P"];

impl Meaning {
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(database) => match database.code().as_deref() {
                Some(CONFLICT) => Self::Conflict,
                Some(code) if CONTENTION.contains(&code) => Self::Contention,
                Some(code) if LOST.iter().any(|class| code.starts_with(class)) => Self::Lost,
                _ => Self::Failed,
            },
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => Self::Lost,
            // No connection to be had: nothing was asked.
            _ => Self::Failed,
        }
    }
}
