//! Why there are no requests, and why one has no answer.

use std::path::PathBuf;

use mfaas_ident::ResourceName;

/// Why requests cannot be sent at all.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// The file cannot be read, or one that it names.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is not what it has to be.
    #[error("{path}: {error}")]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Why.
        error: Box<toml::de::Error>,
    },
    /// What it says of a resource cannot be.
    #[error("`{resource}`: {wrong}")]
    Entry {
        /// Of which.
        resource: ResourceName,
        /// What is wrong.
        wrong: String,
    },
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nobody has said which server is meant, or what the secret is.
    #[error("this node does not know `{0}`: the file MFAAS_HTTP_FILE of its broker says what it is")]
    Unknown(ResourceName),
    /// It may not be sent.
    #[error("{0}")]
    Request(String),
    /// The secret may not be sent there.
    #[error("`{secret}` may not be sent to `{server}`: the file MFAAS_HTTP_FILE of the broker says where to")]
    Elsewhere {
        /// The secret.
        secret: ResourceName,
        /// The server.
        server: ResourceName,
    },
    /// The server is where functions may not go.
    #[error("the name of `{0}` leads to addresses that functions may not reach")]
    Forbidden(ResourceName),
    /// There is no answer.
    #[error("`{server}` has not answered: {why}")]
    Unanswered {
        /// The server.
        server: ResourceName,
        /// Why.
        why: &'static str,
    },
    /// The answer is larger than one may be.
    #[error("the request has arrived, and the answer of `{server}` has more than {limit}")]
    TooLong {
        /// The server.
        server: ResourceName,
        /// What it may have.
        limit: &'static str,
    },
    /// The answer shows a secret, or it cannot be known whether it does.
    #[error("the answer of `{0}` is withheld: it shows a secret, or is compressed or a part")]
    ShowsSecret(ResourceName),
    /// It is our fault.
    #[error("the secret `{0}` cannot be read at the moment")]
    Unreadable(ResourceName),
}
