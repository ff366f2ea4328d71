//! The one way out: requests to origins that the operator named, small, in time, and not redirected.

use std::pin::Pin;

use openidconnect::url::{Origin, Url};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};

use crate::limits;

/// Why a request to the provider has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebError {
    /// It would leave for an origin that nobody named.
    #[error("{0} is not an address of the configured provider")]
    Foreign(String),
    /// The answer is too large.
    #[error("the answer is larger than {} bytes", limits::PROVIDER_ANSWER_BYTES_MAX)]
    Large,
    /// The provider sends us elsewhere.
    #[error("the provider redirects, which nothing of it may")]
    Redirected,
    /// It did not work.
    #[error("{0}")]
    Failed(String),
}

impl From<reqwest::Error> for WebError {
    fn from(error: reqwest::Error) -> Self {
        let source =
            std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        // Without the address, which holds nothing secret today and might tomorrow.
        Self::Failed(format!("{}{source}", error.without_url()))
    }
}

/// The client with its bounds.
pub(super) struct Web {
    client: reqwest::Client,
    origins: Vec<Origin>,
}

impl<'c> AsyncHttpClient<'c> for Web {
    type Error = WebError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, WebError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

impl Web {
    /// A client for these origins.
    pub(super) fn new(origins: Vec<Origin>) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(limits::PROVIDER_CONNECT_TIME_MAX)
            .timeout(limits::PROVIDER_TIME_MAX)
            .build()?;
        Ok(Self { client, origins })
    }

    /// Refuses an address of another origin.
    pub(super) fn check(&self, url: &Url) -> Result<(), WebError> {
        if self.origins.contains(&url.origin()) {
            return Ok(());
        }
        Err(WebError::Foreign(mfaas_ident::sanitise_line(&url.origin().ascii_serialization(), 200)))
    }

    /// Sends a request of the library.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, WebError> {
        let url =
            Url::parse(&request.uri().to_string()).map_err(|error| WebError::Failed(error.to_string()))?;
        self.check(&url)?;
        let (parts, body) = request.into_parts();
        let mut answer =
            self.client.request(parts.method, url).headers(parts.headers).body(body).send().await?;
        if answer.status().is_redirection() {
            return Err(WebError::Redirected);
        }
        let mut response = http::Response::new(Vec::new());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        while let Some(piece) = answer.chunk().await? {
            if response.body().len() + piece.len() > limits::PROVIDER_ANSWER_BYTES_MAX {
                return Err(WebError::Large);
            }
            response.body_mut().extend_from_slice(&piece);
        }
        Ok(response)
    }
}
