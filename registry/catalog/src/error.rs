//! Errors of the catalog. Constraints have names, and names become errors.

use mfaas_startup::{DatabaseAddressError, UnusableDatabase};

/// Why the catalog could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// There is no such row, or it belongs to another tenant.
    #[error("there is no such {what}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
    },
    /// The state of the row does not allow it, or it exists already.
    #[error("{reason}")]
    Conflict {
        /// A sentence without secrets.
        reason: String,
    },
    /// The idempotency key was used for another upload.
    #[error("the idempotency key was used for another upload")]
    IdempotencyKeyReused,
    /// The tenant has as much in the queue as it may have.
    #[error("the queue holds {deployments} deployments of the tenant with {bytes} bytes of source")]
    QueueFull {
        /// How many deployments it has there.
        deployments: u64,
        /// How many bytes of source.
        bytes: u64,
    },
    /// The tenant has as many functions as it may have.
    #[error("the tenant has {functions} functions, in the queue or admitted")]
    TooManyFunctions {
        /// How many.
        functions: u64,
    },
    /// The call tokens that are to be revoked open nothing any more.
    #[error("the call tokens are over already")]
    CallTokensOver,
    /// As many revocations of call tokens are in force as may be, of the tenant or of the site.
    #[error("as many revocations of call tokens are in force as may be")]
    TooManyRevocations,
    /// A newer lease was granted, or the build is finished: the caller's work is void.
    #[error("the build is no longer held with this fencing token")]
    Fenced,
    /// The role may not do this.
    #[error("the database role may not do this")]
    Denied,
    /// No connection within the time limit, the server went away, or another transaction was in the way: try again.
    #[error("the database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// The schema is not the one that this build was made for.
    #[error("the database schema is not current: {reason}")]
    Schema {
        /// What is missing.
        reason: String,
    },
    /// The address of the database is not one.
    #[error(transparent)]
    Address(#[from] DatabaseAddressError),
    /// What lets connections in is not the server that programs need.
    #[error(transparent)]
    Unusable(#[from] UnusableDatabase),
    /// Anything else that the database said.
    #[error("the database refused a statement")]
    Database(#[source] sqlx::Error),
}

/// Constraints that a caller can run into, with what it should be told.
const CONSTRAINTS: &[(&str, &str)] = &[
    ("tokens_secret_unique", "the token exists already"),
    ("nodes_certificate_unique", "the certificate belongs to another node"),
    ("aliases_version_fkey", "the function has no such version"),
    ("deployments_state_transition", "the deployment is in another state by now"),
    ("deployments_state_of_builder", "the deployment is not the builder's any more"),
    ("deployments_state_of_server", "the deployment does not wait any more"),
    ("builds_ended", "the build has ended"),
    ("builds_of_another", "another builder holds the build"),
    ("builds_not_waiting", "the build does not wait"),
    ("builds_postponed_bounded", "a build is postponed for an hour at most"),
    ("deployments_idempotency_key_length", "the idempotency key has to have 1 to 200 characters"),
    ("tokens_scopes_known", "a token needs at least one known scope"),
    ("crates_checksum_sha256", "a crate's checksum has to be 64 hexadecimal digits"),
    ("crates_decided", "nobody has decided that this crate may be used like this"),
    ("tokens_person_known", "a person's name has 1 to 200 characters of a-z, 0-9 and '._@+:/-'"),
    ("deployments_state_of_acquirer", "the deployment does not wait any more"),
    ("votes_pkey", "this person has voted already"),
    ("tokens_reviewer_is_a_person", "a token that decides about dependencies has to name its person"),
    ("tokens_of_provider_end", "a token of a person whom the provider has signed in ends within a day"),
    ("votes_by_a_person", "only a person with a token that opens reviews can speak"),
    (
        "votes_of_one_kind",
        "the other votes come from people whom another authority names, and might be the same",
    ),
    ("votes_while_open", "the review is decided and takes no more votes"),
    ("votes_not_by_requester", "the requester of a crate cannot decide about it"),
    ("spot_notes_while_open", "the review is decided and takes no more notes"),
    ("spot_notes_not_by_requester", "the requester of a crate cannot decide about it"),
    ("votes_note_length", "a vote needs a note of 1 to 4000 characters"),
    ("spot_notes_spot_length", "the name of a hotspot has to have 1 to 600 characters"),
    ("spot_notes_note_length", "a note about a hotspot has 2000 characters at most"),
    ("reviews_one_open", "another open review asks the same"),
    ("reviews_state_transition", "the review is in another state by now"),
    ("reviews_terms_stand", "another reviewer has approved other terms; approve the same, or deny"),
    ("reviews_enough_people", "the review has too few approvals"),
    ("reviews_nothing_unsound", "a hotspot is marked unsound; say why it is not before anybody approves"),
    ("reviews_denied_by_somebody", "nobody has voted against it"),
];

/// The constraint of a trigger that counts revocations of call tokens.
const REVOCATIONS_BOUNDED: &str = "call_revocations_bounded";

/// Constraints that say that something which a caller named is not there.
const REFERENCES: &[(&str, &str)] = &[
    ("deployments_tenant_fkey", "tenant"),
    ("functions_tenant_fkey", "tenant"),
    ("tokens_tenant_fkey", "tenant"),
    ("votes_review_fkey", "review"),
    ("spot_notes_review_fkey", "review"),
    ("call_tokens_tenant_fkey", "tenant"),
    ("call_revocations_tenant_fkey", "tenant"),
    ("node_reports_node_fkey", "node"),
    ("bans_node_fkey", "node"),
    ("bans_version_fkey", "version"),
    ("usage_boots_node_fkey", "node"),
    ("sessions_token_fkey", "token"),
    ("usage_hours_version_fkey", "version"),
    ("resource_grants_resource_fkey", "resource"),
    ("resource_grants_tenant_fkey", "tenant"),
];

impl From<sqlx::Error> for CatalogError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::Io(_)
            | sqlx::Error::Tls(_) => Self::Unavailable(error),
            sqlx::Error::Database(cause) => {
                let constraint = cause.constraint();
                if constraint == Some(REVOCATIONS_BOUNDED) {
                    return Self::TooManyRevocations;
                }
                if let Some((_, reason)) = CONSTRAINTS.iter().find(|(name, _)| constraint == Some(*name)) {
                    return Self::Conflict { reason: (*reason).to_owned() };
                }
                if let Some((_, what)) = REFERENCES.iter().find(|(name, _)| constraint == Some(*name)) {
                    return Self::NotFound { what };
                }
                match cause.code().as_deref() {
                    Some("42501") => Self::Denied,
                    // 57P0x: the server shuts down; 57014: it took too long; 40001 and 40P01: two transactions met; 25006: it
                    // has become a standby.
                    Some("57P01" | "57P02" | "57P03" | "57014" | "40001" | "40P01" | "25006") => {
                        Self::Unavailable(error)
                    }
                    // Connections, resources (a full disk, too many connections) and errors of the system.
                    Some(code) if ["08", "53", "58"].iter().any(|class| code.starts_with(class)) => {
                        Self::Unavailable(error)
                    }
                    _ => Self::Database(error),
                }
            }
            _ => Self::Database(error),
        }
    }
}

impl CatalogError {
    /// True when the same call may succeed later without anything being changed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// True at a program's start when the database may be on its way: it starts, another server takes over, somebody
    /// migrates it.
    pub(crate) fn is_worth_waiting_for(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unusable(UnusableDatabase::Standby) | Self::Schema { .. })
    }

    /// Whether another transaction stood in the way.
    pub(crate) fn is_contention(&self) -> bool {
        let Self::Unavailable(sqlx::Error::Database(cause)) = self else { return false };
        matches!(cause.code().as_deref(), Some("40001" | "40P01"))
    }
}
