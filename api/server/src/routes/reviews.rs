//! Dependencies: requests, reviews, revocations. What a vote leads to is said by the rules and done by the
//! catalog; here bodies become types and rows become views.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mfaas_catalog::{AdvisoryImport, NewRequest, Request, RequestMember, Revocation, Severity};
use mfaas_ident::{CrateName, Scope};
use mfaas_rules::crate_facts::AuditSet;
use mfaas_rules::review::{ReviewState, Terms};
use mfaas_wire::schema;
use mfaas_wire::{
    AuditsImported, CastVote, ImportAdvisories, ImportView, MarkHotspot, Page, RequestCrate, RequestView,
    ReviewView, RevocationSeverity, RevocationView, RevokeCrate,
};
use serde::Deserialize;

use super::paging::{cursor, page, rows};
use crate::caller::Caller;
use crate::extract::{Json, Path, Query};
use crate::refusal::Refusal;
use crate::state::App;
use crate::{limits, responses, votes};

/// Asks for a crate. The same request again answers with the first one until that is answered.
#[utoipa::path(
    post, path = "/v1/requests", tag = "dependencies", operation_id = "request_crate",
    request_body = RequestCrate,
    responses((status = 202, body = RequestView))
)]
pub(super) async fn request(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<RequestCrate>,
) -> Result<Response, Refusal> {
    let requirement = semver::VersionReq::parse(&body.requirement)
        .map_err(|error| Refusal::invalid(format!("`requirement`: {error}")))?;
    check_features(&body.features)?;
    let mut features = body.features;
    features.sort();
    features.dedup();
    let new = NewRequest {
        tenant: &caller.tenant,
        person: &caller.token.person,
        name: &body.name,
        requirement: &requirement,
        features: &features,
        default_features: body.default_features,
        overrides: body.overrides,
    };
    let found = app.catalog.request_crate(&caller.actor(), &new).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(responses::request(found))).into_response())
}

fn check_features(features: &[String]) -> Result<(), Refusal> {
    let fits = |feature: &String| {
        (1..=limits::FEATURE_BYTES_MAX).contains(&feature.len())
            && feature.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+./?:".contains(&b))
    };
    if features.len() > limits::FEATURES_MAX || !features.iter().all(fits) {
        let detail = format!(
            "`features` has at most {} names of 1 to {} characters each.",
            limits::FEATURES_MAX,
            limits::FEATURE_BYTES_MAX
        );
        return Err(Refusal::invalid(detail));
    }
    Ok(())
}

/// Requests that are not answered: the caller's own, or everybody's for a reviewer.
#[utoipa::path(
    get, path = "/v1/requests", tag = "dependencies", operation_id = "list_requests",
    responses((status = 200, body = Page<RequestView>))
)]
pub(super) async fn requests(
    State(app): State<App>,
    caller: Caller,
) -> Result<axum::Json<Page<RequestView>>, Refusal> {
    let of = if caller.token.holds(Scope::Review) { None } else { Some(&caller.tenant) };
    let found = app.catalog.unanswered_requests(of, limits::PAGE_ROWS_MAX).await?;
    let items = found.into_iter().map(responses::request).collect();
    Ok(axum::Json(Page { items, next: None }))
}

/// One request with the crates that it comes down to.
#[utoipa::path(
    get, path = "/v1/requests/{id}", tag = "dependencies", operation_id = "show_request",
    params(("id" = inline(schema::RowId), Path, description = "The request")),
    responses((status = 200, body = RequestView))
)]
pub(super) async fn show_request(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<i64>,
) -> Result<axum::Json<RequestView>, Refusal> {
    let of = if caller.token.holds(Scope::Review) { None } else { Some(&caller.tenant) };
    let (found, members) = app.catalog.request(of, id).await?;
    Ok(axum::Json(whole(&app, found, members).await?))
}

/// A request as its own page shows it.
pub(super) async fn whole(
    app: &App,
    request: Request,
    members: Vec<RequestMember>,
) -> Result<RequestView, Refusal> {
    let allowlist = app.catalog.allowlist_of(&request.tenant, None).await?;
    let allowlist = allowlist.map(|(_, snapshot)| snapshot).unwrap_or_default();
    let mut read = Vec::with_capacity(members.len());
    for member in members {
        let delta = match member.review {
            Some(review) => app.catalog.delta_of_review(review).await?,
            None => None,
        };
        read.push((member, delta));
    }
    Ok(responses::whole_request(request, read, &allowlist))
}

/// Which reviews are wanted.
#[derive(Debug, Deserialize)]
pub(super) struct ReviewQuery {
    state: Option<ReviewState>,
    after: Option<i64>,
    limit: Option<u32>,
}

/// Reviews, oldest first.
#[utoipa::path(
    get, path = "/v1/reviews", tag = "dependencies", operation_id = "list_reviews",
    params(
        ("state" = inline(Option<schema::ReviewState>), Query, description = "`open`, `approved`, `denied`, `revoked` or `withdrawn`"),
        ("after" = inline(Option<schema::RowCursor>), Query, description = "`next` of the page before"),
        ("limit" = inline(Option<schema::PageRows>), Query, description = "How many rows at most"),
    ),
    responses((status = 200, body = Page<ReviewView>))
)]
pub(super) async fn reviews(
    State(app): State<App>,
    _caller: Caller,
    Query(query): Query<ReviewQuery>,
) -> Result<axum::Json<Page<ReviewView>>, Refusal> {
    let limit = rows(query.limit)?;
    let found = app.catalog.reviews(query.state, cursor(query.after)?, limit + 1).await?;
    let items = found.into_iter().map(|row| responses::review(row, Vec::new())).collect();
    Ok(axum::Json(page(items, limit, |view: &ReviewView| view.id.to_string())))
}

/// One review with everything that was said in it.
#[utoipa::path(
    get, path = "/v1/reviews/{id}", tag = "dependencies", operation_id = "show_review",
    params(("id" = inline(schema::RowId), Path, description = "The review")),
    responses((status = 200, body = ReviewView))
)]
pub(super) async fn show(
    State(app): State<App>,
    _caller: Caller,
    Path(id): Path<i64>,
) -> Result<axum::Json<ReviewView>, Refusal> {
    Ok(axum::Json(view(&app, id).await?))
}

async fn view(app: &App, id: i64) -> Result<ReviewView, Refusal> {
    let review = app.catalog.review(id).await?;
    let notes = app.catalog.hotspot_notes(id).await?;
    let delta = app.catalog.delta_of_review(id).await?;
    Ok(responses::with_delta(responses::review(review, notes), delta))
}

/// The facts that a review rests on.
#[utoipa::path(
    get, path = "/v1/reviews/{id}/report", tag = "dependencies", operation_id = "show_report",
    params(("id" = inline(schema::RowId), Path, description = "The review")),
    responses((status = 200, description = "Everything that is known about the crate version", body = serde_json::Value))
)]
pub(super) async fn report(
    State(app): State<App>,
    _caller: Caller,
    Path(id): Path<i64>,
) -> Result<axum::Json<serde_json::Value>, Refusal> {
    let review = app.catalog.review(id).await?;
    Ok(axum::Json(app.catalog.crate_report(&review.report).await?))
}

/// Casts a vote for or against the crate. Its requester cannot vote, and nobody can vote twice.
#[utoipa::path(
    post, path = "/v1/reviews/{id}/votes", tag = "dependencies", operation_id = "cast_vote",
    params(("id" = inline(schema::RowId), Path, description = "The review")),
    request_body = CastVote,
    responses((status = 200, body = ReviewView))
)]
pub(super) async fn vote(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<i64>,
    Json(body): Json<CastVote>,
) -> Result<axum::Json<ReviewView>, Refusal> {
    votes::check_note(&body.note)?;
    let standing = app.catalog.review(id).await?.terms;
    let terms: Terms = body.terms.unwrap_or(standing);
    let approve = body.approve.then_some(&terms);
    votes::cast(&app, &caller.token, id, approve, &body.note).await?;
    Ok(axum::Json(view(&app, id).await?))
}

/// Records what a reviewer found at a hotspot.
#[utoipa::path(
    put, path = "/v1/reviews/{id}/hotspots", tag = "dependencies", operation_id = "mark_hotspot",
    params(("id" = inline(schema::RowId), Path, description = "The review")),
    request_body = MarkHotspot,
    responses((status = 200, body = ReviewView))
)]
pub(super) async fn mark(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<i64>,
    Json(body): Json<MarkHotspot>,
) -> Result<axum::Json<ReviewView>, Refusal> {
    if !body.note.is_empty() {
        votes::check_note(&body.note)?;
    }
    votes::check_note(&body.hotspot)?;
    let found = (body.state, body.note.as_str());
    app.catalog.mark_hotspot(&caller.actor(), &caller.token.person, id, &body.hotspot, found).await?;
    Ok(axum::Json(view(&app, id).await?))
}

/// Revokes an allowed version, or answers with what a revocation affects.
#[utoipa::path(
    post, path = "/v1/crates/{name}/{version}/revocation", tag = "dependencies", operation_id = "revoke_crate",
    params(
        ("name" = inline(schema::CrateName), Path, description = "The crate"),
        ("version" = String, Path, description = "Its version"),
    ),
    request_body = RevokeCrate,
    responses((status = 200, body = RevocationView))
)]
pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path((name, version)): Path<(CrateName, semver::Version)>,
    Json(body): Json<RevokeCrate>,
) -> Result<axum::Json<RevocationView>, Refusal> {
    votes::check_note(&body.reason)?;
    let affected = if body.dry_run {
        app.catalog.built_with(&name, &version).await?
    } else {
        let revocation = Revocation {
            name: &name,
            version: &version,
            person: &caller.token.person,
            actor: &caller.actor(),
            severity: severity(body.severity),
            reason: &body.reason,
        };
        app.catalog.revoke_crate(&revocation).await?
    };
    let unloaded = !body.dry_run && body.severity == RevocationSeverity::Unload;
    Ok(axum::Json(RevocationView {
        name,
        version: version.to_string(),
        done: !body.dry_run,
        affected: affected.into_iter().map(|row| responses::affected(row, unloaded)).collect(),
    }))
}

/// Imports advisories and revokes every allowed version that one of them matches, or answers with the matches alone.
#[utoipa::path(
    put, path = "/v1/imports/advisories", tag = "dependencies", operation_id = "import_advisories",
    request_body = ImportAdvisories,
    responses((status = 200, body = ImportView))
)]
pub(super) async fn import_advisories(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<ImportAdvisories>,
) -> Result<axum::Json<ImportView>, Refusal> {
    let matches = if body.dry_run {
        app.catalog.advisory_matches(&body.set).await?
    } else {
        let import = AdvisoryImport {
            set: &body.set,
            severity: severity(body.severity),
            person: &caller.token.person,
            actor: &caller.actor(),
        };
        app.catalog.import_advisories(&import).await?
    };
    let unloaded = !body.dry_run && body.severity == RevocationSeverity::Unload;
    Ok(axum::Json(ImportView {
        done: !body.dry_run,
        advisories: body.set.advisories.len(),
        unread: body.set.unread.len(),
        matches: matches.into_iter().map(|found| responses::advisory_match(found, unloaded)).collect(),
    }))
}

/// Imports other people's audits: hints for reviewers, and refusals where they found a violation.
#[utoipa::path(
    put, path = "/v1/imports/audits", tag = "dependencies", operation_id = "import_audits",
    request_body = inline(schema::OpaqueObject),
    responses((status = 200, body = AuditsImported))
)]
pub(super) async fn import_audits(
    State(app): State<App>,
    caller: Caller,
    Json(set): Json<AuditSet>,
) -> Result<axum::Json<AuditsImported>, Refusal> {
    app.catalog.import_audits(&caller.actor(), &set).await?;
    Ok(axum::Json(AuditsImported { audits: set.audits.len(), unread: set.unread.len() }))
}

fn severity(wire: RevocationSeverity) -> Severity {
    match wire {
        RevocationSeverity::Block => Severity::Block,
        RevocationSeverity::Unload => Severity::Unload,
    }
}
