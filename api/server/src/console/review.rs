//! The page of one review: everything that a decision rests on, the hotspots, the files, and the decision.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};
use mfaas_catalog::{Asker, CrateFile, HotspotNote, ReviewDelta, ReviewRow, UNREADABLE, Vote};
use mfaas_ident::PersonName;
use mfaas_rules::crate_facts::{CrateReport, Published, TrialBuild};
use mfaas_rules::profiles::std_items::Capability;
use mfaas_rules::review::{HotspotState, ReviewState, Terms};

use super::delta::{Base, ChangeRow, Reading, capabilities, dependencies, reading};
use super::frame::{Frame, html};
use super::hotspots::{HotspotRow, hotspots, seen};
use super::report::{
    CountRow, FileRow, HintRow, RiskRow, TouchRow, counts, files, hints, risks, suggestion, touches, unread,
};
use super::rows::{joined, line, lines, time};
use crate::caller::Caller;
use crate::extract::Path;
use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;

/// Everything that is kept about one review.
pub(super) struct Dossier {
    pub(super) review: ReviewRow,
    /// `None` when the stored facts are of a revision that this release does not read.
    pub(super) report: Option<CrateReport>,
    pub(super) hotspots: Vec<HotspotRow>,
    /// What changed since the nearest version that is allowed; `None` while nobody has compared.
    pub(super) delta: Option<ReviewDelta>,
    notes: Vec<HotspotNote>,
}

impl Dossier {
    /// Reads it.
    pub(super) async fn read(app: &App, id: i64) -> Result<Self, Refusal> {
        let review = app.catalog.review(id).await?;
        let report = app.catalog.crate_report(&review.report).await?;
        let report: Option<CrateReport> = serde_json::from_value(report).ok();
        let notes = app.catalog.hotspot_notes(id).await?;
        let hotspots = report.as_ref().map(|report| hotspots(id, report, &notes)).unwrap_or_default();
        let delta = app.catalog.delta_of_review(id).await?;
        Ok(Self { review, report, hotspots, delta, notes })
    }

    /// Why nobody can approve, whoever it is.
    pub(super) fn only_no(&self) -> Option<&'static str> {
        if self.report.is_none() {
            return Some(UNREADABLE);
        }
        if matches!(self.review.trial, Some(TrialBuild::Fails { .. })) {
            return Some("It does not compile here: nobody can approve what cannot be built.");
        }
        // At a hotspot of this report or of an older one.
        let unsound = self.notes.iter().any(|note| note.state == HotspotState::Unsound);
        unsound.then_some("A hotspot is marked unsound: nobody can approve while it is.")
    }
}

#[derive(Template)]
#[template(path = "review.html")]
struct ReviewPage {
    frame: Frame,
    id: i64,
    name: String,
    version: String,
    about: About,
    suggestion: String,
    tone: &'static str,
    /// How compiling it as it would be offered ended.
    trial: Option<String>,
    /// The most severe reasons, in a line each.
    most_severe: Vec<String>,
    reading: Reading,
    base: Option<Base>,
    /// What differs from the version before; none without a comparison.
    changes: Option<Changes>,
    risks: Vec<RiskRow>,
    risks_more: usize,
    report: Option<Facts>,
    hints: Vec<HintRow>,
    hints_more: usize,
    askers: Vec<AskerRow>,
    votes: Vec<VoteRow>,
    terms: TermsRow,
    back: &'static str,
    open: bool,
    hotspots: Vec<HotspotRow>,
    hotspots_seen: usize,
    hotspots_count: usize,
    files: Vec<FileRow>,
    files_more: usize,
    decision: Decision,
}

/// What the review is about and where it stands.
struct About {
    state: &'static str,
    tone: &'static str,
    checksum: String,
    features: String,
    toolchain: String,
    rules: String,
    people: usize,
    yes: usize,
    opened_at: String,
    closed_at: String,
    reason: String,
}

/// What two reports say differently.
struct Changes {
    capabilities: Vec<ChangeRow>,
    dependencies: Vec<ChangeRow>,
}

/// What the report says beyond its hotspots and files.
struct Facts {
    counts: Vec<CountRow>,
    touches: Vec<TouchRow>,
    unread: Vec<String>,
    licence: String,
    licence_risks: Vec<String>,
    needs: Vec<(String, String)>,
    kinds: String,
    /// Since when its registry has it.
    published: String,
    archive: String,
}

/// Somebody who asked.
struct AskerRow {
    request: i64,
    who: String,
    tenant: String,
    wanted: String,
    path: String,
    waits: String,
}

/// A vote.
pub(super) struct VoteRow {
    pub(super) person: String,
    pub(super) word: &'static str,
    pub(super) tone: &'static str,
    pub(super) note: String,
    pub(super) at: String,
}

/// The terms of a yes.
pub(super) struct TermsRow {
    pub(super) tenant: String,
    pub(super) grants: String,
    pub(super) until: String,
}

/// What the reader may decide.
struct Decision {
    /// Why they may not, one sentence; `None` when they may.
    why_not: Option<String>,
    /// Why they may only say no.
    only_no: Option<&'static str>,
    /// Somebody has voted: the terms stand.
    terms_stand: bool,
    grants: Vec<GrantRow>,
    days_max: i64,
    note_chars_max: usize,
}

/// Something that can be granted.
struct GrantRow {
    word: String,
    /// It did not compile without.
    needed: bool,
}

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
    Path(id): Path<i64>,
) -> Result<Response, Refusal> {
    let dossier = Dossier::read(&app, id).await?;
    let askers = app.catalog.askers(id, limits::CONSOLE_ROWS_MAX).await?;
    let files = app.catalog.crate_files(&dossier.review.checksum).await?;
    let page = page(frame.at("reviews"), &dossier, &files, askers, &caller.token.person);
    html(&page, &page.frame.nonce)
}

fn page(
    frame: Frame,
    dossier: &Dossier,
    stored: &[CrateFile],
    askers: Vec<Asker>,
    reader: &PersonName,
) -> ReviewPage {
    let Dossier { review, report, hotspots, .. } = dossier;
    let delta = dossier.delta.as_ref().and_then(|found| found.delta.as_ref());
    let (suggestion, tone) = suggestion(&review.judgement);
    let (risks, risks_more) = risks(review.id, &review.judgement, hotspots);
    let mut files = files(review.id, report.as_ref(), stored, hotspots, delta);
    let files_more = files.len().saturating_sub(limits::CONSOLE_FILES_MAX);
    files.truncate(limits::CONSOLE_FILES_MAX);
    ReviewPage {
        frame,
        id: review.id,
        name: review.name.to_string(),
        version: review.version.to_string(),
        about: about(review),
        suggestion,
        tone,
        trial: review.trial.as_ref().map(|trial| lines(&trial.sentence())),
        most_severe: most_severe(review),
        reading: reading(dossier.delta.as_ref()),
        base: Base::of(dossier.delta.as_ref()),
        changes: delta.map(|delta| Changes {
            capabilities: capabilities(&delta.facts),
            dependencies: dependencies(&delta.facts),
        }),
        report: report.as_ref().map(|report| facts(review, report)),
        hints: hints(&review.judgement),
        hints_more: review.judgement.hints.len().saturating_sub(limits::CONSOLE_HINTS_MAX),
        askers: askers.into_iter().map(asker).collect(),
        votes: review.votes.iter().map(vote).collect(),
        terms: terms(&review.terms),
        back: "review",
        open: review.state == ReviewState::Open,
        hotspots_seen: seen(hotspots),
        hotspots_count: hotspots.len(),
        hotspots: hotspots.iter().take(limits::CONSOLE_HOTSPOTS_MAX).cloned().collect(),
        decision: decision(dossier, reader),
        risks,
        risks_more,
        files,
        files_more,
    }
}

fn most_severe(review: &ReviewRow) -> Vec<String> {
    let reasons = review.judgement.reasons.iter().take(limits::CONSOLE_MOST_SEVERE_MAX);
    reasons.map(|reason| format!("{}: {}", reason.risk.label(), line(&reason.text))).collect()
}

/// The colour of a state; the word beside it says the same.
pub(super) fn tone(state: ReviewState) -> &'static str {
    match state {
        ReviewState::Open => "wait",
        ReviewState::Approved => "good",
        ReviewState::Denied | ReviewState::Revoked => "bad",
        ReviewState::Withdrawn => "off",
    }
}

/// A state at the beginning of a line.
fn title(state: ReviewState) -> &'static str {
    match state {
        ReviewState::Open => "Open",
        ReviewState::Approved => "Approved",
        ReviewState::Denied => "Denied",
        ReviewState::Revoked => "Revoked",
        ReviewState::Withdrawn => "Withdrawn",
    }
}

fn about(review: &ReviewRow) -> About {
    About {
        state: title(review.state),
        tone: tone(review.state),
        checksum: review.checksum.to_string(),
        features: joined(&review.features),
        toolchain: review.toolchain.to_string(),
        rules: line(&review.rules_revision),
        people: review.people.count(),
        yes: review.votes.iter().filter(|vote| vote.approve).count(),
        opened_at: time(review.opened_at),
        closed_at: review.closed_at.map(time).unwrap_or_default(),
        reason: lines(&review.reason),
    }
}

fn facts(review: &ReviewRow, report: &CrateReport) -> Facts {
    let world =
        |word: &str| word.starts_with("advisor") || word.starts_with("licence") || word.starts_with("yanked");
    let about_world = review.judgement.reasons.iter().filter(|reason| world(reason.risk.word()));
    let licence = &report.licence;
    Facts {
        counts: counts(report),
        touches: touches(review.id, report),
        unread: unread(report),
        licence: line(licence.expression.as_deref().or(licence.file.as_deref()).unwrap_or("none given")),
        licence_risks: about_world
            .take(limits::CONSOLE_PLACES_MAX)
            .map(|reason| format!("{}: {}", reason.risk.label(), line(&reason.text)))
            .collect(),
        needs: report.needs.iter().map(|need| (need.name.to_string(), need.version.to_string())).collect(),
        kinds: kinds(report),
        published: published(report),
        archive: format!(
            "{} bytes, {} files, {} bytes unpacked, {} binary, {} for other compilers",
            report.archive.bytes,
            report.archive.files,
            report.archive.unpacked_bytes,
            report.archive.binaries.len(),
            report.archive.native_sources.len()
        ),
    }
}

fn kinds(report: &CrateReport) -> String {
    let kind = &report.kind;
    let mut parts = Vec::new();
    if kind.proc_macro {
        parts.push("procedural macro".to_owned());
    }
    if kind.build_script {
        parts.push("has a build script".to_owned());
    }
    if let Some(links) = &kind.links {
        parts.push(format!("links {}", line(links)));
    }
    parts.push(format!("edition {}", line(kind.edition.as_deref().unwrap_or("2015"))));
    parts.join(", ")
}

fn published(report: &CrateReport) -> String {
    let Some(Published { at, by }) = &report.published else {
        return "Published: nobody says when".to_owned();
    };
    let at = at.as_deref().unwrap_or("nobody says when");
    match by {
        Some(by) => format!("Published: {} by {}", line(at), line(by)),
        None => format!("Published: {}, the index does not say by whom", line(at)),
    }
}

fn asker(asker: Asker) -> AskerRow {
    let waits = match (&asker.deployment, asker.waits) {
        (Some((id, function)), true) => format!("{function}, deployment {id}, waits"),
        (Some((id, function)), false) => format!("{function}, deployment {id}, waits no longer"),
        (None, _) => "no deployment".to_owned(),
    };
    AskerRow {
        request: asker.request,
        who: asker.person.map_or_else(|| "unknown".to_owned(), |person| person.to_string()),
        tenant: asker.tenant.to_string(),
        wanted: format!("{} {}", asker.name, line(&asker.requirement)),
        path: asker.path.iter().map(|name| line(name)).collect::<Vec<_>>().join(" → "),
        waits,
    }
}

/// A vote as a row.
pub(super) fn vote(vote: &Vote) -> VoteRow {
    let (word, tone) = if vote.approve { ("yes", "good") } else { ("no", "bad") };
    VoteRow { person: vote.person.to_string(), word, tone, note: lines(&vote.note), at: time(vote.at) }
}

/// Terms in parts.
pub(super) fn terms(terms: &Terms) -> TermsRow {
    let until = terms.expires_at.and_then(|at| DateTime::<Utc>::from_timestamp(at, 0));
    TermsRow {
        tenant: terms.tenant.as_ref().map_or_else(|| "every tenant".to_owned(), ToString::to_string),
        grants: joined(terms.grants.iter().map(|grant| grant_word(*grant))),
        until: until.map_or_else(|| "for good".to_owned(), time),
    }
}

/// A capability's word, as on the wire.
pub(super) fn grant_word(grant: Capability) -> String {
    grant.name().replace('_', "-")
}

/// Everything that can be granted.
pub(super) const GRANTS: [Capability; 8] = [
    Capability::Abort,
    Capability::Allocator,
    Capability::Backtrace,
    Capability::BuildInput,
    Capability::MachineCode,
    Capability::Threads,
    Capability::Unwind,
    Capability::Real,
];

/// What the reader may do. The rules decide again when they do it; this is so that nobody fills in a form for
/// nothing.
fn decision(dossier: &Dossier, reader: &PersonName) -> Decision {
    let review = &dossier.review;
    let needs = review.trial.as_ref().map(|trial| trial.missing(&BTreeSet::new())).unwrap_or_default();
    let why_not = if review.state != ReviewState::Open {
        Some(format!("This review is {} and takes no more votes.", review.state.as_str()))
    } else if review.requesters.contains(reader) {
        Some(format!("You are {reader}, and the requester of a crate cannot vote on it."))
    } else if review.votes.iter().any(|vote| vote.person == *reader) {
        Some(format!("You are {reader} and have voted; another reviewer has to vote now."))
    } else {
        None
    };
    Decision {
        why_not,
        only_no: dossier.only_no(),
        terms_stand: !review.votes.is_empty(),
        grants: GRANTS
            .into_iter()
            .map(|grant| GrantRow { word: grant_word(grant), needed: needs.contains(&grant) })
            .collect(),
        days_max: limits::TERMS_DAYS_MAX,
        note_chars_max: limits::NOTE_CHARS_MAX,
    }
}
