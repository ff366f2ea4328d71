//! How a server is: ready, and which of its parts are not as they should be.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of a server that is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `degraded` when one of the parts is: the server answers, and some of what it is asked for waits or fails.
    pub status: PartStatus,
    /// Each part that the server can do without for a while.
    #[serde(default)]
    pub parts: Vec<PartView>,
}

/// Whether something is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartStatus {
    /// It is.
    Ok,
    /// It is not; the cause stands beside it.
    Degraded,
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartView {
    /// `blobs` (the blob store takes uploads) or `builders` (enough of them take builds).
    #[schema(pattern = "^[a-z_]{1,40}$")]
    pub name: String,
    /// How it is.
    pub status: PartStatus,
    /// What is wrong with it, without paths and addresses, which the server's log and `/v1/builders` have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl Readiness {
    /// Of parts by name, each with what is wrong with it.
    pub fn of<'a>(parts: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Self {
        let status = |is_degraded| if is_degraded { PartStatus::Degraded } else { PartStatus::Ok };
        let part = |(name, cause): (&str, Option<String>)| PartView {
            name: name.to_owned(),
            status: status(cause.is_some()),
            cause,
        };
        let parts: Vec<PartView> = parts.into_iter().map(part).collect();
        Self { status: status(parts.iter().any(|part| part.status == PartStatus::Degraded)), parts }
    }
}

/// The builders of the site, and how many of them have to agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuildersView {
    /// How many builders with identities of their own have to make the same before it is signed, as the signer says;
    /// absent before a signer has started that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 4)]
    pub agreement: Option<u32>,
    /// How many different identities take builds now. With fewer than have to agree, builds wait.
    pub identities: u32,
    /// The instances that were seen within half a minute.
    pub builders: Vec<BuilderView>,
}

/// One instance of the builder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuilderView {
    /// One start of the program, by its own word, sanitised.
    pub instance: String,
    /// Its identity: the database role that it connects with.
    pub role: String,
    /// When it last spoke to the database.
    pub seen_at: DateTime<Utc>,
    /// Why it takes no builds, in its own words, sanitised; absent when it takes some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwell: Option<String>,
}
