//! Signing in with an OpenID provider: authorisation code flow with PKCE, state and nonce.
//!
//! The library talks the protocol and verifies ID tokens; ours is what surrounds it: whom we talk to, how much
//! we read, what an attempt is bound to, and which person and role the claims make. It fails closed: what is
//! missing, unknown, unverified or late signs nobody in. It never talks to another origin than those that the
//! operator named, follows no redirect, and hands no token of the provider to anybody.

mod attempts;
mod claims;
mod settings;
mod sign_in;
#[cfg(test)]
mod tests;
mod web;

use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClientAuthMethod, CoreErrorResponseType,
    CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
    CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse,
    CoreTokenType,
};
use openidconnect::{
    AccessTokenHash, AuthType, AuthorizationCode, Client, ClientId, ClientSecret, EmptyExtraTokenFields,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenFields, IssuerUrl, OAuth2TokenResponse as _,
    PkceCodeChallenge, RedirectUrl, RequestTokenError, Scope, StandardErrorResponse, StandardTokenResponse,
    TokenResponse as _,
};
use tokio::sync::Mutex;

use self::attempts::{Attempt, Attempts};
use self::claims::{Extra, VerifiedClaims};
pub(crate) use self::settings::Settings;
pub(crate) use self::sign_in::{SignInError, SignedIn};
use self::web::Web;
use mfaas_catalog::Catalog;
use mfaas_startup::VariableError;

use crate::config::ServeConfig;
use crate::limits;

/// The path that the provider sends browsers back to.
pub(crate) const CALLBACK_PATH: &str = "/sign-in/callback";

/// Why nothing can begin on a machine that is broken in this way.
const NO_RANDOMNESS: &str = "the machine gives no random bytes";

/// The algorithms whose signatures count. None that uses the client's secret as a key, which more people know
/// than may sign somebody in, and of course not none.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 8] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
];

type Tokens = StandardTokenResponse<
    IdTokenFields<
        Extra,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

type OurClient = Client<
    Extra,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// What the provider sends a browser back with.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Answer {
    state: String,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

/// The provider of this site.
pub(crate) struct Provider {
    settings: Settings,
    redirect: RedirectUrl,
    web: Web,
    attempts: Attempts,
    known: Mutex<Option<Known>>,
}

/// What discovery said last, or that it failed.
struct Known {
    at: Instant,
    metadata: Result<Arc<CoreProviderMetadata>, SignInError>,
}

/// The provider that the configuration names, for a console at `public_url`; `None` when it names none.
pub(crate) fn load(config: &ServeConfig, public_url: &str) -> Result<Option<Provider>, VariableError> {
    config.oidc_file.as_deref().map(|file| Provider::of(file, public_url)).transpose()
}

/// By the machine's clock, which all servers of a site have to set alike.
fn since_1970() -> Result<std::time::Duration, SignInError> {
    SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| SignInError::Unavailable(error.to_string()))
}

impl Provider {
    fn of(file: &Path, public_url: &str) -> Result<Self, VariableError> {
        let settings = Settings::read(file)?;
        settings::check_public(public_url)?;
        let invalid = |reason: String| VariableError::Invalid { name: settings::VARIABLE, reason };
        let redirect =
            RedirectUrl::new(format!("{public_url}{CALLBACK_PATH}")).map_err(|e| invalid(e.to_string()))?;
        let site = format!("{}\n{}\n{}", settings.issuer, settings.client_id, redirect.as_str());
        let web = Web::new(settings.origins.clone()).map_err(|e| invalid(e.to_string()))?;
        Ok(Self {
            settings,
            redirect,
            web,
            attempts: Attempts::new(site, limits::SIGN_IN_ATTEMPT_LIFE, limits::SERVER_CLOCKS_APART_MAX),
            known: Mutex::new(None),
        })
    }

    /// What the sign-in page calls it: the host of the issuer.
    pub(crate) fn name(&self) -> &str {
        &self.settings.host
    }

    /// How long a session lives at most.
    pub(crate) fn session_life(&self) -> chrono::TimeDelta {
        self.settings.session_life
    }

    /// True when votes in reviews come only from people who signed in here.
    pub(crate) fn decides_alone(&self) -> bool {
        self.settings.only_signed_in_people_decide
    }

    /// Begins an attempt: where the browser goes, and the cookie that binds the attempt to it.
    pub(crate) async fn begin(&self, secure: bool) -> Result<(String, String), SignInError> {
        let client = self.client(&*self.metadata().await?);
        let (attempt, cookie) = self
            .attempts
            .begin(since_1970()?, secure)
            .map_err(|_| SignInError::Unavailable(NO_RANDOMNESS.to_owned()))?;
        let Attempt { id: _, state, nonce, verifier } = attempt;
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&verifier);
        let scopes = self.settings.scopes.iter().cloned().map(Scope::new);
        let (url, _, _) = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, || state, || nonce)
            .add_scopes(scopes)
            .set_pkce_challenge(challenge)
            .url();
        self.web.check(&url).map_err(|error| SignInError::Invalid(error.to_string()))?;
        Ok((url.to_string(), cookie))
    }

    /// The cookie that ends the attempt of a browser.
    pub(crate) fn forget(&self, secure: bool) -> String {
        attempts::cookie("", 0, secure)
    }

    /// Ends an attempt, which counts once at all servers of the site: who it is.
    pub(crate) async fn finish(
        &self,
        catalog: &Catalog,
        headers: &HeaderMap,
        answer: Answer,
    ) -> Result<SignedIn, SignInError> {
        let attempt = self.attempts.shown(since_1970()?, headers).ok_or(SignInError::Attempt)?;
        // Before anything is compared: a wrong answer ends the attempt, too.
        let is_first = catalog
            .take_sign_in_answer(&attempt.id)
            .await
            .map_err(|error| SignInError::Unavailable(error.to_string()))?;
        if !is_first || !attempt.has_state(&answer.state) {
            return Err(SignInError::Attempt);
        }
        // RFC 9207: an answer that names its issuer has to name ours.
        if answer.iss.is_some_and(|issuer| issuer != self.settings.issuer) {
            return Err(SignInError::Invalid("the answer names another issuer".to_owned()));
        }
        if let Some(error) = answer.error {
            return Err(SignInError::Declined(mfaas_ident::sanitise_line(&error, 200)));
        }
        let code = answer.code.ok_or_else(|| SignInError::Declined("no code".to_owned()))?;
        let metadata = self.metadata().await?;
        let outcome = self.exchange(&self.client(&metadata), code, attempt).await;
        if matches!(outcome, Err(SignInError::Invalid(_))) {
            // Perhaps its keys are new: the next attempt asks for them.
            *self.known.lock().await = None;
        }
        outcome
    }

    async fn exchange(
        &self,
        client: &OurClient,
        code: String,
        attempt: Attempt,
    ) -> Result<SignedIn, SignInError> {
        let invalid = |error: &dyn std::fmt::Display| {
            SignInError::Invalid(mfaas_ident::sanitise_line(&error.to_string(), 300))
        };
        let tokens = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|error| invalid(&error))?
            .set_pkce_verifier(attempt.verifier)
            .request_async(&self.web)
            .await
            .map_err(|error| match error {
                RequestTokenError::Request(error) => SignInError::Unreachable(error.to_string()),
                other => invalid(&other),
            })?;
        let id_token = tokens.id_token().ok_or_else(|| invalid(&"there is no ID token"))?;
        let verifier =
            client.id_token_verifier().set_allowed_algs(ALGORITHMS).set_issue_time_verifier_fn(|issued| {
                let ahead = issued.signed_duration_since(chrono::Utc::now());
                if ahead <= limits::PROVIDER_CLOCK_AHEAD_MAX {
                    Ok(())
                } else {
                    Err("issued in the future".to_owned())
                }
            });
        let claims = id_token.claims(&verifier, &attempt.nonce).map_err(|error| invalid(&error))?;
        if let Some(expected) = claims.access_token_hash() {
            let algorithm = id_token.signing_alg().map_err(|error| invalid(&error))?;
            let key = id_token.signing_key(&verifier).map_err(|error| invalid(&error))?;
            let found = AccessTokenHash::from_token(tokens.access_token(), algorithm, key);
            if found.map_err(|error| invalid(&error))? != *expected {
                return Err(invalid(&"the access token is not the one of the ID token"));
            }
        }
        claims::admit(
            &self.settings,
            &VerifiedClaims {
                subject: claims.subject().as_str(),
                email: claims.email().map(|email| email.as_str()),
                email_verified: claims.email_verified(),
                groups: claims.additional_claims().get(&self.settings.groups_claim),
            },
        )
    }

    fn client(&self, metadata: &CoreProviderMetadata) -> OurClient {
        let client = OurClient::from_provider_metadata(
            metadata.clone(),
            ClientId::new(self.settings.client_id.clone()),
            Some(ClientSecret::new(self.settings.client_secret.clone())),
        );
        let by_header = metadata
            .token_endpoint_auth_methods_supported()
            .is_none_or(|methods| methods.contains(&CoreClientAuthMethod::ClientSecretBasic));
        let auth_type = if by_header { AuthType::BasicAuth } else { AuthType::RequestBody };
        client.set_redirect_uri(self.redirect.clone()).set_auth_type(auth_type)
    }

    /// What the provider says about itself, asked again now and then. A failure is remembered for a moment, so
    /// that people who try again do not wait for each other.
    async fn metadata(&self) -> Result<Arc<CoreProviderMetadata>, SignInError> {
        let mut known = self.known.lock().await;
        if let Some(Known { at, metadata }) = known.as_ref() {
            let life =
                if metadata.is_ok() { limits::PROVIDER_KNOWN_LIFE } else { limits::PROVIDER_FAILED_LIFE };
            if at.elapsed() < life {
                return metadata.clone();
            }
        }
        let metadata = self.discover().await.map(Arc::new);
        *known = Some(Known { at: Instant::now(), metadata: metadata.clone() });
        metadata
    }

    async fn discover(&self) -> Result<CoreProviderMetadata, SignInError> {
        let issuer = IssuerUrl::new(self.settings.issuer.clone())
            .map_err(|error| SignInError::Unreachable(error.to_string()))?;
        // The library refuses a document that names another issuer than the one that was asked.
        CoreProviderMetadata::discover_async(issuer, &self.web).await.map_err(|error| {
            let source =
                std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
            SignInError::Unreachable(mfaas_ident::sanitise_line(&format!("{error}{source}"), 300))
        })
    }
}
