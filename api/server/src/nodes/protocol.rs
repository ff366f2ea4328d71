//! The routes of the node protocol. Every message of a node is checked against the limits of
//! `mfaas-delivery` before it is used.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderMap, USER_AGENT};
use http::{HeaderName, HeaderValue, StatusCode};
use mfaas_attest::SHARDS_AT_ONCE_MAX;
use mfaas_catalog::{BanOutcome, Charged, Held, JoinedNode, SiteSettings};
use mfaas_delivery::{
    BanAnswer, BanNotice, IsolationReport, JoinRequest, JoinResponse, LoadReport, LogBatch, MessageError,
    RenewalRequest, Report, SERVER_PROTOCOL, SiteIsolation, UsageReport,
};
use mfaas_ident::{BuildVersion, Digest, Epoch, FunctionName, TenantName, TraceParent, VersionNumber};
use mfaas_push::PushError;
use mfaas_rules::codes;
use serde::Deserialize;

use crate::connections::Connection;
use crate::extract::{Json, JsonList, Path, Query};
use crate::issuing::stranger;
use crate::refusal::Refusal;
use crate::responses::artifacts::{
    KeyListQuery, artifact_response, asset_response, envelope_response, key_list_response,
};
use crate::state::App;
use crate::token::Secret;

use super::Peer;

impl From<PushError> for Refusal {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Message(error) => error.into(),
            PushError::Catalog(error) => error.into(),
        }
    }
}

impl From<MessageError> for Refusal {
    fn from(error: MessageError) -> Self {
        Self::invalid(error.to_string())
    }
}

/// Exchanges a join token and a certificate request for a certificate.
pub(super) async fn join(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Json(request): Json<JoinRequest>,
) -> Result<axum::Json<JoinResponse>, Refusal> {
    request.check()?;
    app.lookups.check(connection.peer())?;
    let secret = Secret::parse_bare(&request.token).ok_or_else(stranger)?;
    let issued = app.issuing.join(&app.catalog, &request.name, &secret.hash(), &request.csr_pem).await;
    if issued.as_ref().is_err_and(|refusal| refusal.problem().code == codes::MF0710.id()) {
        app.lookups.note_unknown(connection.peer());
    }
    Ok(answered(&app, issued?))
}

/// A new certificate for a node that has one.
pub(super) async fn renew(
    State(app): State<App>,
    Extension(node): Extension<JoinedNode>,
    Extension(peer): Extension<Peer>,
    Json(request): Json<RenewalRequest>,
) -> Result<axum::Json<JoinResponse>, Refusal> {
    request.check()?;
    let shown = peer.certificate.ok_or_else(|| Refusal::new(codes::MF0710, "No client certificate."))?;
    let certificate = app.issuing.renew(&app.catalog, &node.name, &shown.der, &request.csr_pem).await?;
    Ok(answered(&app, certificate))
}

fn answered(app: &App, certificate_pem: String) -> axum::Json<JoinResponse> {
    axum::Json(JoinResponse {
        protocol: SERVER_PROTOCOL,
        certificate_pem,
        ca_pem: app.issuing.ca_pem.clone(),
    })
}

/// Which set a node has, by the digest of its envelope, and how long it would wait for another one.
#[derive(Debug, Deserialize)]
pub(super) struct SetQuery {
    known: Option<Digest>,
    /// The epoch, from a node of the release before.
    after: Option<u64>,
    #[serde(default)]
    wait: u64,
}

impl SetQuery {
    fn held(&self) -> Held {
        match (self.known, self.after) {
            (Some(digest), _) => Held::Set(digest),
            (None, Some(epoch)) => Held::Epoch(Epoch(epoch)),
            (None, None) => Held::Nothing,
        }
    }
}

/// The newest serving set, as soon as it is another one than the node has; 204 when the wait is over.
pub(super) async fn serving_set(
    State(app): State<App>,
    Extension(node): Extension<JoinedNode>,
    Query(query): Query<SetQuery>,
) -> Result<Response, Refusal> {
    let wait = Duration::from_secs(query.wait);
    let found = tokio::select! {
        found = app.push.desired_for(&node.name, query.held(), wait) => found?,
        () = app.stop.cancelled() => None,
    };
    // It may have been removed, or have joined anew, while it waited.
    if found.is_some() && app.catalog.node_by_certificate(&node.certificate_sha256).await?.is_none() {
        return Err(Refusal::new(codes::MF0710, "The certificate is not the current one of any node."));
    }
    Ok(match found {
        Some(set) => envelope_response(set.envelope),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Shards by the digests of their bytes: in the order of the question, one a line, as they were stored. Their digests vouch for
/// them, up to a root that a serving set names.
pub(super) async fn shards(
    State(app): State<App>,
    JsonList(wanted): JsonList<Vec<Digest>>,
) -> Result<Response, Refusal> {
    if wanted.len() > SHARDS_AT_ONCE_MAX {
        let message =
            format!("{} shards are asked for, at most {SHARDS_AT_ONCE_MAX} are given at once.", wanted.len());
        return Err(Refusal::invalid(message));
    }
    let found = app.catalog.shards(&wanted).await?;
    let mut lines = String::new();
    for digest in &wanted {
        lines.push_str(found.get(digest).ok_or_else(|| Refusal::not_found(format!("shard {digest}")))?);
        lines.push('\n');
    }
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}

/// A list of keys: the next one after that version, 204 when there is none, or the newest one.
pub(super) async fn key_list(
    State(app): State<App>,
    Query(query): Query<KeyListQuery>,
) -> Result<Response, Refusal> {
    key_list_response(&app.catalog, query).await
}

/// The bytes of an artifact, unless it was revoked.
pub(super) async fn artifact(
    State(app): State<App>,
    Path(digest): Path<Digest>,
) -> Result<Response, Refusal> {
    if !app.catalog.is_servable(&digest).await? {
        return Err(Refusal::not_found("such artifact"));
    }
    artifact_response(&app.blobs, &digest).await
}

/// The bytes of an asset of the site.
pub(super) async fn asset(State(app): State<App>, Path(digest): Path<Digest>) -> Result<Response, Refusal> {
    let content = app.catalog.asset(&digest).await?.ok_or_else(|| Refusal::not_found("such asset"))?;
    asset_response(&app.blobs, &content).await
}

/// A statement by the digest of its envelope.
pub(super) async fn statement(
    State(app): State<App>,
    Path(digest): Path<Digest>,
    Query(query): Query<StatementQuery>,
) -> Result<Response, Refusal> {
    let found = app.catalog.statement(&digest).await?;
    let found = found.ok_or_else(|| Refusal::not_found("such statement"))?;
    let mut response = envelope_response(found.envelope);
    if let Some(place) = query.trace(&app).await
        && let Ok(place) = HeaderValue::from_str(&place.to_string())
    {
        response.headers_mut().insert(HeaderName::from_static("traceparent"), place);
    }
    Ok(response)
}

/// The version for which a node asks for a statement. It decides nothing: the answer also says where its deployment stands in
/// a trace.
#[derive(Debug, Deserialize)]
pub(super) struct StatementQuery {
    tenant: Option<TenantName>,
    function: Option<FunctionName>,
    version: Option<VersionNumber>,
}

impl StatementQuery {
    /// A node loads without it as well.
    async fn trace(&self, app: &App) -> Option<TraceParent> {
        let (tenant, function) = (self.tenant.as_ref()?, self.function.as_ref()?);
        let found = app.catalog.trace_of_version(tenant, function, self.version?).await;
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "a statement is given without its place in a trace");
            None
        })
    }
}

/// The build of the node that asks, which its `User-Agent` names: servers and nodes that do not know about builds take no
/// notice of it there. Nothing is decided by it.
fn build_of(headers: &HeaderMap) -> Option<BuildVersion> {
    let agent = headers.get(USER_AGENT)?.to_str().ok()?;
    agent.strip_prefix("mfaas-node/")?.parse().ok()
}

/// What the node has loaded. A report that is older than the last is dropped without a word: it
/// was overtaken.
pub(super) async fn report(
    State(app): State<App>,
    Extension(node): Extension<JoinedNode>,
    headers: HeaderMap,
    Json(report): Json<Report>,
) -> Result<StatusCode, Refusal> {
    app.push.record_report(&node.name, &report, build_of(&headers).as_ref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Which directives a node has, by the digest of their bytes, and how long it would wait for others.
#[derive(Debug, Deserialize)]
pub(super) struct DirectivesQuery {
    known: Option<Digest>,
    #[serde(default)]
    wait: u64,
}

/// What the node is to take and not to run, as soon as that is something else than it knows; 204 when the wait is
/// over.
pub(super) async fn directives(
    State(app): State<App>,
    Extension(node): Extension<JoinedNode>,
    Query(query): Query<DirectivesQuery>,
) -> Result<Response, Refusal> {
    let wait = Duration::from_secs(query.wait);
    let found = tokio::select! {
        found = app.push.directives_for(&node.name, query.known, wait) => found?,
        () = app.stop.cancelled() => None,
    };
    Ok(match found {
        Some(directives) => ([(CONTENT_TYPE, "application/json")], directives).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// A version that the node has banned. It holds everywhere, or the answer says that it does not.
pub(super) async fn ban(
    State(app): State<App>,
    Extension(node): Extension<JoinedNode>,
    Json(notice): Json<BanNotice>,
) -> Result<axum::Json<BanAnswer>, Refusal> {
    notice.check()?;
    let outcome = app.catalog.record_ban(&node.name, &notice).await?;
    let ban = &notice.ban;
    tracing::warn!(
        node = %node.name, tenant = %ban.tenant, function = %ban.function, version = %ban.version,
        crashes = ban.crashes, ?outcome, "a node has banned a version"
    );
    let everywhere = matches!(outcome, BanOutcome::InForce | BanOutcome::Known);
    Ok(axum::Json(BanAnswer { protocol: SERVER_PROTOCOL, everywhere }))
}

/// What calls used since the node started. What was reported before is charged once.
pub(super) async fn usage(
    State(app): State<App>,
    Extension(node): Extension<JoinedNode>,
    Json(report): Json<UsageReport>,
) -> Result<StatusCode, Refusal> {
    report.check()?;
    let charged = app.catalog.record_usage(&node.name, &report).await?;
    crate::metrics::usage_told(charged);
    match charged {
        Charged::Now | Charged::Before | Charged::Ended => Ok(StatusCode::NO_CONTENT),
        Charged::Impossible => {
            tracing::warn!(node = %node.name, "a node tells more usage than it can have had");
            Err(Refusal::invalid("The report tells more than the node can have done since the last one."))
        }
    }
}

/// How busy the node is. A node tells run times by bucket to servers that answer here: those of the release before do not.
pub(super) async fn load(
    State(app): State<App>,
    Extension(node): Extension<JoinedNode>,
    Json(load): Json<LoadReport>,
) -> Result<StatusCode, Refusal> {
    load.check()?;
    app.catalog.record_load(&node.name, &load).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How the node's machine stands; the answer is what the site wants of it. Nodes that have no controller do not ask.
pub(super) async fn isolation(
    State(app): State<App>,
    Extension(node): Extension<JoinedNode>,
    Json(report): Json<IsolationReport>,
) -> Result<axum::Json<SiteIsolation>, Refusal> {
    report.check()?;
    app.catalog.record_isolation(&node.name, &report).await?;
    Ok(axum::Json(SiteSettings::told(app.catalog.site_isolation().await?)))
}

/// Log lines of functions.
pub(super) async fn logs(
    State(app): State<App>,
    Extension(node): Extension<JoinedNode>,
    Json(batch): Json<LogBatch>,
) -> Result<StatusCode, Refusal> {
    batch.check()?;
    if batch.dropped > 0 {
        tracing::warn!(node = %node.name, dropped = batch.dropped, "a node dropped log lines of functions");
    }
    app.catalog.append_logs(&node.name, &batch).await?;
    Ok(StatusCode::NO_CONTENT)
}
