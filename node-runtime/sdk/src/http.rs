//! Servers that are asked over HTTP, and secrets that a request to them carries.

use std::fmt;
use std::marker::PhantomData;

use mfaas_abi::frame::{RequestFrame, encode_request};
use mfaas_abi::limits::{HTTP_BODY_BYTES_MAX, HTTP_PIECE_BYTES_MAX};
use mfaas_abi::{HttpReply, HttpRequest as Operation};

use crate::binding::{
    Access, Binding, DataError, Declared, Manifest, Read, Write, ask, ask_together, new_number, place_of,
    split_last,
};
use crate::input::FromRequest;
use crate::{Error, Response};

/// A server of the site's choice that the function asks over HTTP: a parameter of a handler.
///
/// ```
/// use mfaas::{Binding, Error, Http, Secret, Write};
///
/// struct Payments;
///
/// impl Binding for Payments {
///     const NAME: &'static str = "payments";
///     type Value = ();
/// }
///
/// struct PaymentsKey;
///
/// impl Binding for PaymentsKey {
///     const NAME: &'static str = "payments-key";
///     type Value = ();
/// }
///
/// pub async fn handle(order: String, payments: Http<Payments, Write>, key: Secret<PaymentsKey>) -> Result<String, Error> {
///     let answer = payments.post("/v1/charges").secret(&key).json(&order).send().await?;
///     if !answer.is_success() {
///         return Err(Error::new(format!("the charge was refused: {}", answer.status())));
///     }
///     answer.json()
/// }
/// # let payments = mfaas::testing::http(|request: mfaas::Request| {
/// #     mfaas::Response::json(&format!("paid by {}", request.header("authorization").unwrap_or_default()))
/// # });
/// # let answer = mfaas::testing::block_on(handle("a".to_owned(), payments, mfaas::testing::secret()));
/// # assert_eq!(answer.unwrap(), "paid by Bearer secret:payments-key");
/// ```
///
/// With Cargo.toml:
/// ```toml
/// [package.metadata.mfaas.bindings.payments]
/// kind = "http"
/// access = "write"
///
/// [package.metadata.mfaas.bindings.payments-key]
/// kind = "secret"
/// ```
///
/// The site says which server that is; the function chooses method, path, headers and body. With access to read it asks with `GET` and
/// `HEAD` alone. A redirect is an answer. Nothing is sent twice: a call that has sent anything else than `GET` and `HEAD` is never run
/// again by its node, and a request without an answer may have arrived.
pub struct Http<B, A = Read> {
    place: u32,
    marker: PhantomData<fn() -> (B, A)>,
}

/// A value of the site that a request to a server carries, which the function itself never sees: a parameter of a handler. The site says to
/// which servers it may be sent, and which header carries it.
pub struct Secret<B> {
    place: u32,
    marker: PhantomData<fn() -> B>,
}

/// A request that is being put together.
#[derive(Debug)]
#[must_use = "it is sent by `send`"]
pub struct HttpRequest {
    place: u32,
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    secrets: Vec<u32>,
    body: Vec<u8>,
    /// Why it cannot be sent.
    wrong: Option<DataError>,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl<B, A> Http<B, A> {
    pub(crate) fn at(place: u32) -> Self {
        Self { place, marker: PhantomData }
    }

    fn request(&self, method: &'static str, path: impl Into<String>) -> HttpRequest {
        let (headers, secrets, body, wrong) = Default::default();
        HttpRequest { place: self.place, method, path: path.into(), headers, secrets, body, wrong }
    }
}

impl<B> Secret<B> {
    pub(crate) fn at(place: u32) -> Self {
        Self { place, marker: PhantomData }
    }
}

impl<B: Binding, A> fmt::Debug for Http<B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Http").field(&B::NAME).finish()
    }
}

impl<B: Binding> fmt::Debug for Secret<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secret").field(&B::NAME).finish()
    }
}

/// Takes nothing of the request.
impl<B: Binding, A: Access> FromRequest for Http<B, A> {
    const BINDING: Option<Declared> = Some(Declared { name: B::NAME, kind: "http", access: A::WORD });

    fn from_request<M: Manifest>(_: &RequestFrame<'_>) -> Result<Self, Response> {
        let place =
            const { place_of(&Declared { name: B::NAME, kind: "http", access: A::WORD }, M::BINDINGS) };
        Ok(Self::at(place))
    }
}

/// Takes nothing of the request.
impl<B: Binding> FromRequest for Secret<B> {
    const BINDING: Option<Declared> = Some(Declared { name: B::NAME, kind: "secret", access: Read::WORD });

    fn from_request<M: Manifest>(_: &RequestFrame<'_>) -> Result<Self, Response> {
        let place =
            const { place_of(&Declared { name: B::NAME, kind: "secret", access: Read::WORD }, M::BINDINGS) };
        Ok(Self::at(place))
    }
}

impl<B: Binding, A: Access> Http<B, A> {
    /// Asks for what is at a path, which begins with `/` and may end with a query.
    pub fn get(&self, path: impl Into<String>) -> HttpRequest {
        self.request("GET", path)
    }

    /// Asks for its headers alone.
    pub fn head(&self, path: impl Into<String>) -> HttpRequest {
        self.request("HEAD", path)
    }
}

impl<B: Binding> Http<B, Write> {
    /// Gives something to what is at a path.
    pub fn post(&self, path: impl Into<String>) -> HttpRequest {
        self.request("POST", path)
    }

    /// Puts something at a path.
    pub fn put(&self, path: impl Into<String>) -> HttpRequest {
        self.request("PUT", path)
    }

    /// Changes what is at a path.
    pub fn patch(&self, path: impl Into<String>) -> HttpRequest {
        self.request("PATCH", path)
    }

    /// Removes what is at a path.
    pub fn delete(&self, path: impl Into<String>) -> HttpRequest {
        self.request("DELETE", path)
    }
}

impl HttpRequest {
    /// With one more parameter of its query, encoded as it has to be.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.path.push(if self.path.contains('?') { '&' } else { '?' });
        push_encoded(&mut self.path, name);
        self.path.push('=');
        push_encoded(&mut self.path, value);
        self
    }

    /// With one more header. How a request is sent is not for a function to say: `host`, `content-length` and the like are refused.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// With a secret, in the header that the site has for it, often `authorization`.
    pub fn secret<B: Binding>(mut self, secret: &Secret<B>) -> Self {
        self.secrets.push(secret.place);
        self
    }

    /// With this body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// With this value as its body, as JSON.
    pub fn json<T: serde::Serialize + ?Sized>(mut self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => self.body = body,
            Err(error) => {
                self.wrong = Some(DataError::here(format!("the value cannot be written as JSON: {error}")));
            }
        }
        if self.headers.iter().any(|(name, _)| name == "content-type") {
            self
        } else {
            self.header("content-type", "application/json")
        }
    }

    /// Sends it, and waits for the whole answer, up to 30 s and of up to 1 MiB. An answer of any status is one.
    pub async fn send(self) -> Result<HttpResponse, DataError> {
        let Self { place, method, path, headers, secrets, body, wrong } = self;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        if body.len() > HTTP_BODY_BYTES_MAX {
            return Err(DataError::of_node(1_202, b"a request has 1 MiB at most"));
        }
        let exchange = new_number();
        let (before, last) = split_last(&body, HTTP_PIECE_BYTES_MAX);
        let mut frame = Vec::new();
        let headers = headers.iter().map(|(name, value)| (&**name, &**value));
        encode_request(&mut frame, method, &path, headers, last)
            .map_err(|error| DataError::of_node(1_214, error.to_string().as_bytes()))?;
        let pieces = before.chunks(HTTP_PIECE_BYTES_MAX);
        let appends = pieces.map(|bytes| Operation::Append { upload: exchange, bytes }.encode(place));
        ask_together(appends, |_| Ok(())).await?;
        let upload = (!before.is_empty()).then_some(exchange);
        let request = Operation::Send { exchange, upload, secrets, frame: &frame };
        let answered = ask(request.encode(place)).await?;
        let Some(HttpReply::Answer { bytes, frame }) = HttpReply::decode(&answered, &request) else {
            return Err(DataError::not_understood());
        };
        let headers = frame.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (status, headers, mut body) = (frame.status, headers.collect(), frame.body.to_vec());
        let rest = (body.len() as u32..bytes).step_by(HTTP_PIECE_BYTES_MAX);
        let requests = rest.map(|offset| Operation::Rest { exchange, offset }.encode(place));
        ask_together(requests, |piece| {
            body.extend_from_slice(&piece);
            Ok(())
        })
        .await?;
        if body.len() != bytes as usize {
            return Err(DataError::not_understood());
        }
        Ok(HttpResponse { status, headers, body })
    }
}

impl HttpResponse {
    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is one of 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of that name, which is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Names (in lower case) and values, in the order sent.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body, without a copy.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// The body as text; an error if it is not UTF-8.
    pub fn text(&self) -> Result<&str, Error> {
        Ok(std::str::from_utf8(&self.body)?)
    }

    /// The body as JSON.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

/// Percent-encoded, but for what RFC 3986 calls unreserved.
fn push_encoded(to: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => to.push(byte.into()),
            _ => to.push_str(&format!("%{byte:02X}")),
        }
    }
}
