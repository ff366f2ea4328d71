//! The server without the feature `oidc`: there is no provider, and a configuration that names one is refused.

use http::HeaderMap;
use mfaas_catalog::Catalog;
use mfaas_ident::{PersonName, Role, TenantName};

use mfaas_startup::VariableError;

use crate::config::ServeConfig;
use crate::refusal::Refusal;

/// The path that a provider would send browsers back to.
pub const CALLBACK_PATH: &str = "/sign-in/callback";

/// Cannot be made.
pub enum Provider {}

/// What a provider would send a browser back with.
#[derive(Debug, serde::Deserialize)]
pub struct Answer {}

/// Whom a provider would have signed in.
pub struct SignedIn {
    /// The person.
    pub person: PersonName,
    /// What their group may do.
    pub role: Role,
    /// Whose things they see.
    pub tenant: TenantName,
}

/// Cannot happen.
pub enum SignInError {}

impl From<SignInError> for Refusal {
    fn from(error: SignInError) -> Self {
        match error {}
    }
}

/// `None`, or an error when the configuration names a provider.
pub fn load(config: &ServeConfig, _public_url: &str) -> Result<Option<Provider>, VariableError> {
    match &config.oidc_file {
        None => Ok(None),
        Some(_) => Err(VariableError::Invalid {
            name: "MFAAS_OIDC_FILE",
            reason: "this server was built without the feature `oidc`".to_owned(),
        }),
    }
}

impl Provider {
    /// What the sign-in page would call it.
    pub fn name(&self) -> &str {
        match *self {}
    }

    /// How long a session would live.
    pub fn session_life(&self) -> chrono::TimeDelta {
        match *self {}
    }

    /// Whether votes would come only from people who signed in here.
    pub fn decides_alone(&self) -> bool {
        match *self {}
    }

    /// Would begin an attempt.
    pub async fn begin(&self, _secure: bool) -> Result<(String, String), SignInError> {
        match *self {}
    }

    /// Would end the attempt of a browser.
    pub fn forget(&self, _secure: bool) -> String {
        match *self {}
    }

    /// Would end an attempt.
    pub async fn finish(
        &self,
        _catalog: &Catalog,
        _headers: &HeaderMap,
        _answer: Answer,
    ) -> Result<SignedIn, SignInError> {
        match *self {}
    }
}
