//! What was ever decided about one crate, and taking a decision back.
//!
//! Taking back goes over a page of its own that shows what it concerns. The form names what was shown: if that
//! has changed since, nothing is done and the page is shown again.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use chrono::Utc;
use mfaas_catalog::{AffectedVersion, CrateRow, Revocation, Severity};
use mfaas_ident::{CrateName, Digest, Scope};
use mfaas_rules::{CrateStatus, codes};

use super::allowlist::status;
use super::closure::{self, Closure};
use super::form::SignedForm;
use super::frame::{Frame, html, show as show_refusal};
use super::queue::{self, QueueRow};
use super::review::{VoteRow, vote};
use super::rows::{joined, line, lines, time};
use crate::caller::Caller;
use crate::extract::Path;
use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;
use crate::votes;

#[derive(Template)]
#[template(path = "crate.html")]
struct CratePage {
    frame: Frame,
    name: String,
    decisions: Vec<DecisionRow>,
    /// What each version needs.
    closures: Vec<Closure>,
    /// `None` for those who do not review.
    reviews: Option<Vec<(QueueRow, Vec<VoteRow>)>>,
}

/// A row of the allowlist.
struct DecisionRow {
    version: String,
    status: &'static str,
    tone: &'static str,
    features: String,
    tenant: String,
    decided_by: String,
    decided_at: String,
    until: String,
    reason: String,
    checksum: String,
    /// Where it can be revoked.
    revocation: Option<String>,
}

/// The page of a crate.
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
    Path(name): Path<CrateName>,
) -> Result<Response, Refusal> {
    let reviewer = caller.token.holds(Scope::Review);
    let decisions = app.catalog.crates_of(&name, caller.decisions_of()).await?;
    let reviews = if reviewer { app.catalog.reviews_of(&name).await? } else { Vec::new() };
    if decisions.is_empty() && reviews.is_empty() {
        return Err(Refusal::not_found(format!("decision about a crate `{name}`")));
    }
    let closures = closure::shown(&app, &name, &decisions).await?;
    let now = Utc::now();
    let with_votes = |review| (queue::row(review, now), review.votes.iter().map(vote).collect());
    let page = CratePage {
        frame: frame.at("crates"),
        name: name.to_string(),
        closures,
        decisions: decisions.into_iter().map(|row| decision(row, reviewer)).collect(),
        reviews: reviewer.then(|| reviews.iter().map(with_votes).collect()),
    };
    html(&page, &page.frame.nonce)
}

fn decision(row: CrateRow, reviewer: bool) -> DecisionRow {
    let allowed = row.allowed;
    let (status, tone) = status(allowed.status);
    let may_revoke = reviewer && allowed.status == CrateStatus::Allowed;
    DecisionRow {
        revocation: may_revoke.then(|| revocation_url(&allowed.name, &allowed.version)),
        version: allowed.version.to_string(),
        status,
        tone,
        features: joined(&allowed.features),
        tenant: row.tenant.map_or_else(|| "every tenant".to_owned(), |tenant| tenant.to_string()),
        decided_by: line(&allowed.decided_by),
        decided_at: time(row.decided_at),
        until: row.expires_at.map_or_else(|| "for good".to_owned(), time),
        reason: lines(&allowed.reason),
        checksum: allowed.checksum.to_string(),
    }
}

/// A version may hold a `+`, which an address takes as it is.
fn revocation_url(name: &CrateName, version: &semver::Version) -> String {
    format!("/crates/{name}/{version}/revocation")
}

#[derive(Template)]
#[template(path = "revocation.html")]
struct RevocationPage {
    frame: Frame,
    name: String,
    version: String,
    url: String,
    problem: Option<String>,
    affected: Vec<AffectedRow>,
    affected_digest: String,
    note_chars_max: usize,
}

/// A version of a function that was built with the crate.
struct AffectedRow {
    tenant: String,
    function: String,
    version: String,
    aliases: String,
    revoked: bool,
}

/// What a revocation affects, and the form.
pub(super) async fn ask(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
    Path((name, version)): Path<(CrateName, semver::Version)>,
) -> Result<Response, Refusal> {
    let rows = app.catalog.crates_of(&name, caller.decisions_of()).await?;
    let is_it = |row: &CrateRow| row.allowed.version == version && row.allowed.status == CrateStatus::Allowed;
    if !rows.iter().any(is_it) {
        return Err(Refusal::not_found(format!("allowed version {version} of `{name}`")));
    }
    let affected = app.catalog.built_with(&name, &version).await?;
    let page = revocation_page(frame, &name, &version, &affected, None);
    html(&page, &page.frame.nonce)
}

/// Revokes the version.
pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
    Path((name, version)): Path<(CrateName, semver::Version)>,
    form: SignedForm,
) -> Result<Response, Refusal> {
    let reason = form.text("reason")?;
    votes::check_note(&reason)?;
    let severity = match form.one("severity")? {
        "block" => Severity::Block,
        "unload" => Severity::Unload,
        _ => return Err(Refusal::invalid("A severity is `block` or `unload`.")),
    };
    let affected = app.catalog.built_with(&name, &version).await?;
    if form.renamed("affected", "concerned")? != digest(&affected) {
        let problem = "What it affects has changed since the page was made. Nothing was done: look again.";
        let page = revocation_page(frame, &name, &version, &affected, Some(problem));
        let refusal = Refusal::new(codes::MF0908, problem);
        return Ok(show_refusal(html(&page, &page.frame.nonce)?, refusal));
    }
    let revocation = Revocation {
        name: &name,
        version: &version,
        person: &caller.token.person,
        actor: &caller.actor(),
        severity,
        reason: &reason,
    };
    app.catalog.revoke_crate(&revocation).await?;
    Ok(Redirect::to(&format!("/crates/{name}")).into_response())
}

fn revocation_page(
    frame: Frame,
    name: &CrateName,
    version: &semver::Version,
    affected: &[AffectedVersion],
    problem: Option<&str>,
) -> RevocationPage {
    let row = |version: &AffectedVersion| AffectedRow {
        tenant: version.tenant.to_string(),
        function: version.function.to_string(),
        version: version.version.to_string(),
        aliases: joined(&version.aliases),
        revoked: version.revoked,
    };
    RevocationPage {
        frame: frame.at("crates"),
        name: name.to_string(),
        version: version.to_string(),
        url: revocation_url(name, version),
        problem: problem.map(str::to_owned),
        affected: affected.iter().map(row).collect(),
        affected_digest: digest(affected),
        note_chars_max: limits::NOTE_CHARS_MAX,
    }
}

/// Names what was shown.
fn digest(affected: &[AffectedVersion]) -> String {
    let text: String = affected
        .iter()
        .map(|row| format!("{}/{}@{} {}\n", row.tenant, row.function, row.version, joined(&row.aliases)))
        .collect();
    Digest::of(text.as_bytes()).to_string()
}
