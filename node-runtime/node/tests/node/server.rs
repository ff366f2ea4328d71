//! The server's side of the node protocol over real mutual TLS, with the answers of a test.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use mfaas_delivery::{
    BanAnswer, BanNotice, Directives, IsolationReport, JoinRequest, JoinResponse, LoadReport, LogBatch,
    LogLine, RenewalRequest, Report, SERVER_PROTOCOL, SiteIsolation, UsageReport,
};
use mfaas_ident::Digest;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

pub const TOKEN: &str = "join-me";

/// What the server gives and what it received.
#[derive(Default)]
pub struct Records {
    pub key_list: Vec<u8>,
    /// Epoch and envelope.
    pub set: Option<Vec<u8>>,
    pub blobs: HashMap<Digest, Vec<u8>>,
    pub reports: Vec<Report>,
    pub lines: Vec<LogLine>,
    /// What the node is to take and not to run; without any the server is one of the release before.
    pub directives: Option<Directives>,
    pub bans: Vec<BanNotice>,
    pub usage: Vec<UsageReport>,
    /// Whether it takes reports of load; one of the release before does not know them.
    pub takes_load: bool,
    pub load: Vec<LoadReport>,
    /// What the site wants of isolation controllers; without it the server is one of the release before.
    pub isolation: Option<SiteIsolation>,
    pub isolated: Vec<IsolationReport>,
    /// Whether those who join get a certificate of which two thirds of its life are gone.
    pub gives_old_certificates: bool,
    pub renewals: usize,
}

#[derive(Clone)]
struct Shared {
    records: Arc<Mutex<Records>>,
    issuer: Arc<CertifiedIssuer<'static, KeyPair>>,
}

pub struct Server {
    shared: Shared,
    tls: Arc<ServerConfig>,
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Server {
    pub async fn start() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let shared = Shared { records: Arc::default(), issuer: Arc::new(issuer) };
        let tls = Arc::new(tls_config(&shared.issuer));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&tls), routes(shared.clone())));
        Self { shared, tls, address, accepting }
    }

    /// Closes the listener: connections are refused from now on.
    pub async fn down(&mut self) {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
    }

    /// Listens again on the same address.
    pub async fn up(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accepting = tokio::spawn(accept(listener, Arc::clone(&self.tls), routes(self.shared.clone())));
    }

    pub fn records(&self) -> MutexGuard<'_, Records> {
        self.shared.records.lock().unwrap()
    }

    pub fn ca_pem(&self) -> String {
        self.shared.issuer.pem()
    }

    /// Waits until the newest report fulfils `request`.
    pub async fn reported(&self, what: &str, request: impl Fn(&Report) -> bool) -> Report {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let last = self.records().reports.last().cloned();
            if let Some(report) = last.clone().filter(&request) {
                return report;
            }
            assert!(Instant::now() < deadline, "never reported: {what}; last: {last:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn tls_config(issuer: &CertifiedIssuer<'static, KeyPair>) -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.signed_by(&key, issuer).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build().unwrap();
    ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap()
}

async fn accept(listener: TcpListener, tls: Arc<ServerConfig>, router: Router) {
    let acceptor = TlsAcceptor::from(tls);
    // Dropped with this task, so that a stopped server breaks its connections.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, router) = (acceptor.clone(), router.clone());
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let known = stream.get_ref().1.peer_certificates().is_some();
            let router = router.layer(axum::Extension(Known(known)));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            let _ = connection.await;
        });
    }
}

/// Whether the connection showed a certificate of our authority.
#[derive(Clone, Copy)]
struct Known(bool);

fn routes(shared: Shared) -> Router {
    let known = axum::middleware::from_fn(only_known);
    Router::new()
        .route("/node/v1/serving-set", get(serving_set))
        .route(
            "/node/v1/key-list",
            get(async |State(s): State<Shared>| s.records.lock().unwrap().key_list.clone()),
        )
        .route("/node/v1/artifacts/{digest}", get(blob))
        .route("/node/v1/statements/{digest}", get(blob))
        .route("/node/v1/shards", post(shards))
        .route("/node/v1/report", post(report))
        .route("/node/v1/logs", post(logs))
        .route("/node/v1/orders", get(directives))
        .route("/node/v1/bans", post(ban))
        .route("/node/v1/usage", post(usage))
        .route("/node/v1/load", post(load))
        .route("/node/v1/isolation", post(isolation))
        .route("/node/v1/certificate", post(renew))
        .route_layer(known)
        .route("/node/v1/join", post(join))
        .with_state(shared)
}

async fn only_known(
    axum::Extension(known): axum::Extension<Known>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Result<axum::response::Response, StatusCode> {
    if known.0 { Ok(next.run(request).await) } else { Err(StatusCode::UNAUTHORIZED) }
}

async fn join(
    State(shared): State<Shared>,
    Json(request): Json<JoinRequest>,
) -> Result<Json<JoinResponse>, StatusCode> {
    if request.token != TOKEN || request.check().is_err() {
        return Err(StatusCode::FORBIDDEN);
    }
    let is_old = shared.records.lock().unwrap().gives_old_certificates;
    let years = if is_old { [1970, 2040] } else { [2026, 2050] };
    Ok(certificate(&shared, &request.csr_pem, years))
}

async fn renew(State(shared): State<Shared>, Json(request): Json<RenewalRequest>) -> Json<JoinResponse> {
    request.check().unwrap();
    shared.records.lock().unwrap().renewals += 1;
    certificate(&shared, &request.csr_pem, [2026, 2051])
}

/// A certificate from one year on until another.
fn certificate(shared: &Shared, csr_pem: &str, [begin, end]: [i32; 2]) -> Json<JoinResponse> {
    let mut csr = CertificateSigningRequestParams::from_pem(csr_pem).unwrap();
    csr.params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    (csr.params.not_before, csr.params.not_after) = (date_time_ymd(begin, 1, 1), date_time_ymd(end, 1, 1));
    let certificate_pem = csr.signed_by(&shared.issuer).unwrap().pem();
    Json(JoinResponse { protocol: SERVER_PROTOCOL, certificate_pem, ca_pem: shared.issuer.pem() })
}

async fn serving_set(
    State(shared): State<Shared>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Vec<u8>, StatusCode> {
    let deadline = Instant::now() + Duration::from_secs(query["wait"].parse::<u64>().unwrap().min(5));
    while Instant::now() < deadline {
        if let Some(envelope) = &shared.records.lock().unwrap().set
            && query.get("known") != Some(&Digest::of(envelope).to_string())
        {
            return Ok(envelope.clone());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(StatusCode::NO_CONTENT)
}

async fn blob(State(shared): State<Shared>, Path(digest): Path<Digest>) -> Result<Vec<u8>, StatusCode> {
    shared.records.lock().unwrap().blobs.get(&digest).cloned().ok_or(StatusCode::NOT_FOUND)
}

async fn shards(
    State(shared): State<Shared>,
    Json(digests): Json<Vec<Digest>>,
) -> Result<Vec<u8>, StatusCode> {
    let records = shared.records.lock().unwrap();
    let mut lines = Vec::new();
    for digest in digests {
        lines.extend_from_slice(records.blobs.get(&digest).ok_or(StatusCode::NOT_FOUND)?);
        lines.push(b'\n');
    }
    Ok(lines)
}

async fn report(State(shared): State<Shared>, Json(report): Json<Report>) {
    report.check().unwrap();
    shared.records.lock().unwrap().reports.push(report);
}

async fn directives(
    State(shared): State<Shared>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Vec<u8>, StatusCode> {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        let directives = shared.records.lock().unwrap().directives.clone().ok_or(StatusCode::NOT_FOUND)?;
        let bytes = serde_json::to_vec(&directives).unwrap();
        if query.get("known") != Some(&Digest::of(&bytes).to_string()) {
            return Ok(bytes);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(StatusCode::NO_CONTENT)
}

async fn ban(State(shared): State<Shared>, Json(notice): Json<BanNotice>) -> Json<BanAnswer> {
    notice.check().unwrap();
    let mut records = shared.records.lock().unwrap();
    let is_known = records.bans.iter().any(|known| known.notice_id == notice.notice_id);
    if let Some(directives) = records.directives.as_mut().filter(|_| !is_known) {
        directives.bans.push(notice.ban.clone());
    }
    if !is_known {
        records.bans.push(notice);
    }
    Json(BanAnswer { protocol: SERVER_PROTOCOL, everywhere: true })
}

async fn usage(State(shared): State<Shared>, Json(report): Json<UsageReport>) {
    report.check().unwrap();
    shared.records.lock().unwrap().usage.push(report);
}

async fn load(State(shared): State<Shared>, Json(report): Json<LoadReport>) -> StatusCode {
    report.check().unwrap();
    let mut records = shared.records.lock().unwrap();
    if !records.takes_load {
        return StatusCode::NOT_FOUND;
    }
    records.load.push(report);
    StatusCode::NO_CONTENT
}

async fn isolation(
    State(shared): State<Shared>,
    Json(report): Json<IsolationReport>,
) -> Result<Json<SiteIsolation>, StatusCode> {
    report.check().unwrap();
    let mut records = shared.records.lock().unwrap();
    let site = records.isolation.clone().ok_or(StatusCode::NOT_FOUND)?;
    records.isolated.push(report);
    Ok(Json(site))
}

async fn logs(State(shared): State<Shared>, Json(batch): Json<LogBatch>) {
    batch.check().unwrap();
    shared.records.lock().unwrap().lines.extend(batch.lines);
}
