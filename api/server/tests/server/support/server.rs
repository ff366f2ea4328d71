//! A server in this process, on ports of its own, over a database and a directory of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use mfaas_catalog::{Actor, Catalog, NewToken};
use mfaas_ident::{PersonName, Role, Scope, TenantName};
use mfaas_server::Running;
use mfaas_server::config::ServeConfig;
use mfaas_server::token::Secret;
use serde_json::Value;
use tempfile::TempDir;

use super::{Database, admitted_version};

/// A server that answers.
pub(crate) struct Server {
    pub(crate) db: Database,
    pub(crate) catalog: Catalog,
    running: Option<Running>,
    dir: Arc<TempDir>,
    client: reqwest::Client,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a problem document, whose shape is checked on the way.
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem: mfaas_wire::Problem = serde_json::from_str(&self.body).unwrap();
        assert_eq!(problem.status, self.status, "{self:?}");
        assert_eq!(problem.request_id.as_deref(), Some(self.header("x-request-id")), "{self:?}");
        assert!(problem.kind.ends_with(&problem.code) && !problem.hint.is_empty(), "{self:?}");
        problem.code
    }

    /// A header, empty when absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

impl Server {
    /// Starts one.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts one with further variables.
    pub(crate) async fn start_with(more: &[(&str, &str)]) -> Self {
        Self::start_as(more, |_| {}).await
    }

    /// Starts one with further variables and a changed configuration.
    pub(crate) async fn start_as(more: &[(&str, &str)], change: impl FnOnce(&mut ServeConfig)) -> Self {
        // Only the first test of the process installs it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let db = tokio::task::spawn_blocking(Database::new).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("blobs")).unwrap();
        let tls = dir.path().join("tls");
        mfaas_authority::init(&tls).unwrap();
        mfaas_authority::certify_server(&tls, &tls, &BTreeSet::new()).unwrap();
        let mut config = config(&db, dir.path(), more);
        change(&mut config);
        Self::run(db, Arc::new(dir), config).await
    }

    /// Another server of the same site: one database, one blob store, one authority.
    pub(crate) async fn beside(&self, more: &[(&str, &str)]) -> Self {
        let config = config(&self.db, self.dir.path(), more);
        Self::run(self.db.clone(), Arc::clone(&self.dir), config).await
    }

    async fn run(db: Database, dir: Arc<TempDir>, config: ServeConfig) -> Self {
        let running = mfaas_server::start(config).await.unwrap();
        let catalog = Catalog::connect(&db.url("mfaas_server"), 2).await.unwrap();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { db, catalog, running: Some(running), dir, client }
    }

    /// Stops it in order.
    pub(crate) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server was stopped")
    }

    /// A URL on the HTTP listener.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running().http)
    }

    /// A URL on the node listener.
    pub(crate) fn node_url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.running().nodes.port())
    }

    /// Asks the listener of the numbers under a name, in the address's place if there is one.
    pub(crate) async fn numbers(&self, path: &str, host: Option<&str>) -> Answer {
        let address = self.running().metrics.expect("the numbers have a listener");
        let request = self.client.get(format!("http://{address}{path}"));
        self.send(host.into_iter().fold(request, |request, host| request.header("host", host))).await
    }

    /// The ports of HTTP and of nodes.
    pub(crate) fn ports(&self) -> (u16, u16) {
        (self.running().http.port(), self.running().nodes.port())
    }

    /// Where readiness is on its own.
    pub(crate) fn health(&self) -> std::net::SocketAddr {
        self.running().health.expect("readiness has a listener")
    }

    /// Its blob store.
    pub(crate) fn blobs(&self) -> mfaas_blobs::Blobs {
        mfaas_blobs::Blobs::open(&format!("file://{}", self.dir.path().join("blobs").display())).unwrap()
    }

    /// Its files.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A token with the scopes of a role, of the person `tenant/role`.
    pub(crate) async fn token_of(&self, tenant: &str, role: Role) -> String {
        let person = PersonName::parse(&format!("{tenant}/{role}")).unwrap();
        self.make_token(tenant, role.scopes(), Some(&person)).await
    }

    /// A new token; of the person `tenant/test` where it has to be a person's.
    pub(crate) async fn token(&self, tenant: &str, scopes: &[Scope]) -> String {
        let person = PersonName::parse(&format!("{tenant}/test")).unwrap();
        let person = scopes.iter().any(|scope| scope.may_vote()).then_some(&person);
        self.make_token(tenant, scopes, person).await
    }

    async fn make_token(&self, tenant: &str, scopes: &[Scope], person: Option<&PersonName>) -> String {
        let secret = Secret::generate().unwrap();
        let tenant = TenantName::parse(tenant).unwrap();
        let new = NewToken {
            tenant: &tenant,
            name: "test",
            person,
            scopes,
            secret_sha256: secret.hash(),
            expires_at: None,
        };
        let token = self.catalog.create_token(&Actor::program("test"), &new).await.unwrap();
        secret.reveal_with(token.id)
    }

    /// A request to be filled in.
    pub(crate) fn request(&self, method: &str, path: &str, token: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method.parse().unwrap(), self.url(path));
        if token.is_empty() { request } else { request.bearer_auth(token) }
    }

    /// Sends a request and reads the answer.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, body: response.text().await.unwrap() }
    }

    /// Sends a request whose token may be unknown; waits when too many of those came from this address.
    pub(crate) async fn send_stranger(&self, request: reqwest::RequestBuilder) -> Answer {
        loop {
            let answer = self.send(request.try_clone().expect("the body is in memory")).await;
            if answer.status != 429 || !answer.body.contains("tokens that are not known") {
                return answer;
            }
            tokio::time::sleep(mfaas_server::limits::UNKNOWN_PERIOD).await;
        }
    }

    /// `GET` with a token.
    pub(crate) async fn get(&self, path: &str, token: &str) -> Answer {
        self.send(self.request("GET", path, token)).await
    }

    /// Uploads bytes for a function.
    pub(crate) async fn upload(&self, function: &str, token: &str, bytes: Vec<u8>) -> Answer {
        let path = format!("/v1/functions/{function}/deployments");
        self.send(self.request("POST", &path, token).body(bytes)).await
    }

    /// Uploads a function of a tenant, whose version 1 is live then. Answers the deployment's id.
    pub(crate) async fn admitted(&self, tenant: &str, function: &str, token: &str) -> String {
        let created = self.upload(function, token, vec![1]).await.json();
        let deployment = created["deployment"]["id"].as_str().unwrap();
        admitted_version(&self.db, tenant, function, deployment, &"a".repeat(64));
        deployment.to_owned()
    }
}

/// The configuration of a server over `db` with its files in `dir`.
fn config(db: &Database, dir: &Path, more: &[(&str, &str)]) -> ServeConfig {
    let variables = [
        ("MFAAS_DATABASE_URL", db.url("mfaas_server")),
        ("MFAAS_BLOBS_URL", format!("file://{}", dir.join("blobs").display())),
        ("MFAAS_TLS_DIR", dir.join("tls").display().to_string()),
        ("MFAAS_LISTEN", "127.0.0.1:0".to_owned()),
        ("MFAAS_NODE_LISTEN", "127.0.0.1:0".to_owned()),
    ];
    let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
    ServeConfig::read(&variables.into_iter().chain(more).collect()).unwrap()
}
