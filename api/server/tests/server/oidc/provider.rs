//! An OpenID provider on 127.0.0.1: the counterpart of what is tested. It signs real ID tokens, and does wrong
//! what a test tells it to.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use rsa::pkcs1v15::SigningKey;
use rsa::sha2::{Digest as _, Sha256};
use rsa::signature::{SignatureEncoding as _, Signer as _};
use rsa::traits::PublicKeyParts as _;
use serde_json::{Map, Value, json};

pub(super) const CLIENT_ID: &str = "mfaas-console";
pub(super) const CLIENT_SECRET: &str = "a secret of the client";
const KEY_BITS: usize = 2_048;

/// The provider's key, and one that nobody knows.
static RSA_KEYS: LazyLock<[SigningKey<Sha256>; 2]> = LazyLock::new(|| {
    [(), ()].map(|()| SigningKey::new(rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, KEY_BITS).unwrap()))
});

static ES_KEY: LazyLock<EcdsaKeyPair> = LazyLock::new(|| {
    let random = ring::rand::SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap()
});

/// How an ID token is signed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Signing {
    Rs256,
    Es256,
    /// With the id of the provider's key and another one.
    ForeignKey,
    /// Not at all.
    None,
    /// With the client's secret as the key.
    ClientSecret,
    /// With the public key as the secret: what is fatal where the algorithm is taken from the token.
    PublicKey,
    /// Signed, and then changed.
    Altered,
}

/// What the token endpoint does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Endpoint {
    Answers,
    Redirects,
    Floods,
    ForgetsIdToken,
    Fails,
}

/// What a browser brings from the authorisation endpoint, and what the provider will say about it.
#[derive(Clone)]
struct Grant {
    nonce: String,
    challenge: String,
    redirect_uri: String,
    signing: Signing,
    claims: Value,
}

/// A running provider.
pub(super) struct Provider {
    pub(super) issuer: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    issuer: String,
    grants: Mutex<HashMap<String, Grant>>,
    /// Over what discovery says.
    about: Mutex<Value>,
    endpoint: Mutex<Endpoint>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Provider {
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            issuer: issuer.clone(),
            grants: Mutex::default(),
            about: Mutex::new(json!({})),
            endpoint: Mutex::new(Endpoint::Answers),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(about))
            .route("/jwks", get(keys))
            .route("/token", post(token))
            .with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { issuer, shared, task }
    }

    /// What somebody gets who signs in with the provider, coming with these parameters.
    pub(super) fn authorise(
        &self,
        asked: &HashMap<String, String>,
        signing: Signing,
        claims: Value,
    ) -> String {
        let code = format!("code-{}", uuid::Uuid::new_v4().simple());
        let one = |name: &str| asked[name].clone();
        let (nonce, challenge) = (one("nonce"), one("code_challenge"));
        let grant = Grant { nonce, challenge, redirect_uri: one("redirect_uri"), signing, claims };
        self.shared.grants.lock().unwrap().insert(code.clone(), grant);
        code
    }

    /// Says something else about itself from now on.
    pub(super) fn says(&self, about: Value) {
        *self.shared.about.lock().unwrap() = about;
    }

    /// Lets the token endpoint do something else.
    pub(super) fn endpoint(&self, does: Endpoint) {
        *self.shared.endpoint.lock().unwrap() = does;
    }
}

/// `over` into `base`; what is null there is taken away.
fn merge(base: &mut Map<String, Value>, over: &Value) {
    for (name, value) in over.as_object().unwrap() {
        if value.is_null() {
            base.remove(name);
        } else {
            base.insert(name.clone(), value.clone());
        }
    }
}

async fn about(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let issuer = &shared.issuer;
    let mut document = json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/jwks"),
        "response_types_supported": ["code"], "subject_types_supported": ["public"],
        // It even claims to sign nothing, and with secrets: that must change nothing.
        "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
    });
    merge(document.as_object_mut().unwrap(), &shared.about.lock().unwrap());
    Json(document)
}

async fn keys() -> Json<Value> {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let public = RSA_KEYS[0].as_ref().to_public_key();
    let (n, e) = (encode(&public.n().to_bytes_be()), encode(&public.e().to_bytes_be()));
    let point = ES_KEY.public_key().as_ref();
    let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
    Json(json!({ "keys": [
        { "kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "n": n, "e": e },
        { "kty": "EC", "kid": "ec", "use": "sig", "alg": "ES256", "crv": "P-256", "x": x, "y": y },
    ]}))
}

async fn token(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    let endpoint = *shared.endpoint.lock().unwrap();
    match endpoint {
        Endpoint::Answers | Endpoint::ForgetsIdToken => {}
        Endpoint::Redirects => return Redirect::temporary("/elsewhere").into_response(),
        Endpoint::Floods => return "x".repeat(1 << 20).into_response(),
        Endpoint::Fails => return StatusCode::BAD_GATEWAY.into_response(),
    }
    // A code counts once.
    let grant = shared.grants.lock().unwrap().remove(&form["code"]);
    let Some(grant) = grant.filter(|grant| is_owner(grant, &headers, &form)) else {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    };
    let now = chrono::Utc::now().timestamp();
    let mut claims = json!({
        "iss": shared.issuer, "sub": "248289761001", "aud": CLIENT_ID, "nonce": grant.nonce,
        "iat": now, "exp": now + 300, "email": "Alice@Example.org", "email_verified": true, "groups": ["staff", "reviewers"],
    });
    merge(claims.as_object_mut().unwrap(), &grant.claims);
    let mut answer = json!({ "access_token": "opaque", "token_type": "Bearer", "expires_in": 300 });
    if endpoint == Endpoint::Answers {
        answer["id_token"] = signed(grant.signing, &claims).into();
    }
    Json(answer).into_response()
}

/// The client that began is the one that ends: by its secret, the PKCE verifier and the address.
fn is_owner(grant: &Grant, headers: &HeaderMap, form: &HashMap<String, String>) -> bool {
    let basic = headers["authorization"].to_str().unwrap().strip_prefix("Basic ").unwrap();
    let basic = String::from_utf8(STANDARD.decode(basic).unwrap()).unwrap();
    let secret = CLIENT_SECRET.replace(' ', "+");
    let verifier = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
    basic == format!("{CLIENT_ID}:{secret}")
        && verifier == grant.challenge
        && form["redirect_uri"] == grant.redirect_uri
        && form["grant_type"] == "authorization_code"
}

fn signed(signing: Signing, claims: &Value) -> String {
    let (algorithm, key) = match signing {
        Signing::Rs256 | Signing::ForeignKey | Signing::Altered => ("RS256", "rsa"),
        Signing::Es256 => ("ES256", "ec"),
        Signing::None => ("none", "rsa"),
        Signing::ClientSecret | Signing::PublicKey => ("HS256", "rsa"),
    };
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&json!({"alg": algorithm, "kid": key})), encode(claims));
    let hmac = |secret: &[u8]| {
        ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret), text.as_bytes())
            .as_ref()
            .to_vec()
    };
    let signature = match signing {
        Signing::Rs256 | Signing::Altered => RSA_KEYS[0].sign(text.as_bytes()).to_vec(),
        Signing::ForeignKey => RSA_KEYS[1].sign(text.as_bytes()).to_vec(),
        Signing::Es256 => {
            ES_KEY.sign(&ring::rand::SystemRandom::new(), text.as_bytes()).unwrap().as_ref().to_vec()
        }
        Signing::None => Vec::new(),
        Signing::ClientSecret => hmac(CLIENT_SECRET.as_bytes()),
        Signing::PublicKey => hmac(&RSA_KEYS[0].as_ref().to_public_key().n().to_bytes_be()),
    };
    let text = match signing {
        Signing::Altered => {
            let mut changed = claims.clone();
            changed["groups"] = json!(["admins"]);
            format!("{}.{}", text.split('.').next().unwrap(), encode(&changed))
        }
        _ => text,
    };
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}
