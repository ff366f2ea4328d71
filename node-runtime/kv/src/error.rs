//! Why something was not read, changed or committed.

use std::path::PathBuf;

use mfaas_ident::ResourceName;
use redis::ServerErrorKind;

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
    /// The store does not answer as it should: nothing took effect.
    #[error("the store of functions' data does not answer")]
    Unavailable(#[source] StoreError),
    /// The connection was lost again and again after the store may have been asked to commit: whether the changes took effect is not
    /// known, and asking again under the same identity finds out.
    #[error("the store of functions' data did not acknowledge the changes")]
    Unacknowledged(#[source] StoreError),
    /// The call has changed data of one store and would change data of another one: nothing of that takes effect.
    #[error(
        "the call changes `{changed}`, and `{other}` lies in another store: one call changes data of one store"
    )]
    SeveralStores {
        /// What it has changed.
        changed: ResourceName,
        /// What it may not change as well.
        other: ResourceName,
    },
    /// The resource does not lie where this process would look for it.
    #[error("`{0}` lies in a store that this node was not told of")]
    Elsewhere(ResourceName),
    /// The file that names Redis servers cannot be used.
    #[error("{}: {wrong}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        wrong: String,
    },
    /// A Redis server cannot be used, or does not hold what it should.
    #[error("the Redis server `{server}`: {wrong}")]
    Server {
        /// What the file calls it.
        server: String,
        /// What is wrong with it.
        wrong: String,
    },
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

impl KvError {
    pub(crate) fn unavailable(error: impl Into<StoreError>) -> Self {
        Self::Unavailable(error.into())
    }
}

/// What a store said, or the way to it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Of PostgreSQL.
    #[error(transparent)]
    Postgres(#[from] sqlx::Error),
    /// Of Redis.
    #[error(transparent)]
    Redis(#[from] redis::RedisError),
    /// A Redis server that may not be used. It was asked for nothing.
    #[error("the server {0}")]
    Unusable(String),
    /// There was no connection in time.
    #[error("no connection to the server in time")]
    NoConnection,
}

impl StoreError {
    /// Whether a server is not there, or not yet, and is worth asking again.
    pub(crate) fn is_away(&self) -> bool {
        match self {
            Self::NoConnection => true,
            Self::Redis(error) => {
                let is_loading = matches!(error.code(), Some("LOADING" | "MASTERDOWN"));
                is_loading || error.is_connection_refusal() || error.is_timeout()
            }
            Self::Postgres(_) | Self::Unusable(_) => false,
        }
    }
}

/// What an error of a store means for what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// What was seen is not so any more.
    Conflict,
    /// The store ended it in favour of others: nothing took effect, and it can be asked for again.
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
    pub(crate) fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Postgres(error) => Self::of_postgres(error),
            StoreError::Redis(error) => Self::of_redis(error),
            StoreError::Unusable(_) | StoreError::NoConnection => Self::Failed,
        }
    }

    pub(crate) fn of_postgres(error: &sqlx::Error) -> Self {
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

    /// An error that the server has sent ends a script before it has written anything; the first words are those of the scripts, and of
    /// a server that runs the script of somebody else.
    pub(crate) fn of_redis(error: &redis::RedisError) -> Self {
        match (error.kind(), error.code()) {
            (_, Some("MFCONFLICT")) => Self::Conflict,
            (_, Some("BUSY")) => Self::Contention,
            (redis::ErrorKind::Server(ServerErrorKind::TryAgain), _) => Self::Contention,
            (redis::ErrorKind::Server(_) | redis::ErrorKind::Extension, _) => Self::Failed,
            _ => Self::Lost,
        }
    }
}

#[cfg(test)]
mod tests;
