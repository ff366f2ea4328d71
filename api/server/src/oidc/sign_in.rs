//! What comes of an attempt to sign in: a person with a role, or why not.

use mfaas_ident::{PersonName, Role, TenantName};
use mfaas_rules::codes;

use crate::refusal::Refusal;

/// Why somebody is not signed in. The sentence is for them, the text behind it for the operator.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SignInError {
    /// We cannot say at the moment.
    #[error("The server cannot tell whether this attempt to sign in counts.")]
    Unavailable(String),
    /// No such attempt, or not of this browser, or over.
    #[error("This attempt to sign in is not known here any more; begin again.")]
    Attempt,
    /// The provider says no.
    #[error("The identity provider did not sign you in.")]
    Declined(String),
    /// The provider does not answer as it should.
    #[error("The identity provider cannot be reached.")]
    Unreachable(String),
    /// What it answers does not hold.
    #[error("The answer of the identity provider does not hold.")]
    Invalid(String),
    /// The claims make no person.
    #[error("The identity provider does not say reliably who you are.")]
    Nobody(String),
    /// No group has a role.
    #[error("None of your groups has a role on this site.")]
    NoRole(String),
}

impl From<SignInError> for Refusal {
    fn from(error: SignInError) -> Self {
        let sentence = error.to_string();
        match error {
            SignInError::Unavailable(cause) | SignInError::Unreachable(cause) => {
                Self::unavailable(&sentence, cause)
            }
            SignInError::Attempt => Self::new(codes::MF0914, sentence),
            SignInError::Declined(cause)
            | SignInError::Invalid(cause)
            | SignInError::Nobody(cause)
            | SignInError::NoRole(cause) => Self::new(codes::MF0914, sentence).because(cause),
        }
    }
}

/// Whom the provider has signed in, and as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedIn {
    /// The person.
    pub person: PersonName,
    /// What their group may do.
    pub role: Role,
    /// Whose things they see.
    pub tenant: TenantName,
}
