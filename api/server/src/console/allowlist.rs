//! The allowlist: every decision with what is known about the crate, to be searched, filtered and sorted.
//!
//! The address of the page says what is shown, so it can be shared. All decisions are read for each page: a site has
//! hundreds, and an import may bring thousands, not more.

use std::cmp::Reverse;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};
use mfaas_catalog::{CrateRow, CrateUsers, KnownFacts};
use mfaas_rules::crate_facts::{CompilerVerdict, UnsafeCode};
use mfaas_rules::{CrateStatus, is_people};
use mfaas_wire::CrateView;
use serde::Deserialize;

use super::frame::{Frame, html};
use super::rows::{joined, line, lines, time};
use crate::caller::Caller;
use crate::extract::Query;
use crate::limits;
use crate::refusal::Refusal;
use crate::responses::crates::waiting_crates;
use crate::state::App;

/// What the address asks for. A form sends a field that nobody filled in as an empty text.
#[derive(Debug, Default, Deserialize)]
pub(super) struct AllowlistQuery {
    #[serde(default)]
    q: String,
    #[serde(default)]
    only: String,
    #[serde(default)]
    sort: String,
    page: Option<usize>,
}

/// Which decisions are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    All,
    Allowed,
    Denied,
    Revoked,
    Unreviewed,
    Unsafe,
    NotExamined,
    ProcMacro,
    BuildScript,
    Expiring,
}

impl Only {
    const CHOICES: [Choice<Self>; 10] = [
        Choice { value: "", label: "all decisions", means: Self::All },
        Choice { value: "allowed", label: "allowed", means: Self::Allowed },
        Choice { value: "denied", label: "denied", means: Self::Denied },
        Choice { value: "revoked", label: "revoked", means: Self::Revoked },
        Choice { value: "unreviewed", label: "not reviewed at this site", means: Self::Unreviewed },
        Choice { value: "unsafe", label: "with unsafe code", means: Self::Unsafe },
        Choice { value: "not-examined", label: "not examined", means: Self::NotExamined },
        Choice { value: "proc-macro", label: "procedural macros", means: Self::ProcMacro },
        Choice { value: "build-script", label: "with a build script", means: Self::BuildScript },
        Choice { value: "expiring", label: "expiring", means: Self::Expiring },
    ];

    fn shows(self, entry: &Entry) -> bool {
        let status = entry.row.allowed.status;
        let facts = entry.facts.as_ref();
        match self {
            Self::All => true,
            Self::Allowed => status == CrateStatus::Allowed,
            Self::Denied => status == CrateStatus::Denied,
            Self::Revoked => status == CrateStatus::Revoked,
            Self::Unreviewed => !is_people(&entry.row.allowed.decided_by),
            // What is unknown may be anything.
            Self::Unsafe => facts.is_some_and(|facts| facts.unsafe_code != UnsafeCode::None),
            Self::NotExamined => facts.is_none(),
            Self::ProcMacro => facts.is_some_and(|facts| facts.kind.proc_macro),
            Self::BuildScript => facts.is_some_and(|facts| facts.kind.build_script),
            Self::Expiring => entry.row.expires_at.is_some(),
        }
    }
}

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Name,
    Decided,
    Unsafe,
    Functions,
    Expires,
}

impl Sort {
    const CHOICES: [Choice<Self>; 5] = [
        Choice { value: "", label: "name", means: Self::Name },
        Choice { value: "decided", label: "last decided", means: Self::Decided },
        Choice { value: "unsafe", label: "most unsafe items", means: Self::Unsafe },
        Choice { value: "functions", label: "most functions", means: Self::Functions },
        Choice { value: "expires", label: "first to expire", means: Self::Expires },
    ];

    /// Stable, so that equal ones stay by name.
    fn apply(self, entries: &mut [Entry]) {
        match self {
            Self::Name => {}
            Self::Decided => entries.sort_by_key(|entry| Reverse(entry.row.decided_at)),
            Self::Unsafe => entries.sort_by_key(|entry| Reverse(entry.unsafe_items())),
            Self::Functions => entries.sort_by_key(|entry| Reverse(entry.users.functions)),
            Self::Expires => {
                entries.sort_by_key(|entry| entry.row.expires_at.unwrap_or(DateTime::<Utc>::MAX_UTC));
            }
        }
    }
}

/// One entry of a list to choose from.
#[derive(Debug, Clone, Copy)]
struct Choice<T> {
    value: &'static str,
    label: &'static str,
    means: T,
}

fn chosen<T: Copy>(choices: &[Choice<T>], name: &str, value: &str) -> Result<Choice<T>, Refusal> {
    let found = choices.iter().find(|choice| choice.value == value).copied();
    found.ok_or_else(|| {
        let known: Vec<&str> =
            choices.iter().map(|choice| choice.value).filter(|it| !it.is_empty()).collect();
        Refusal::invalid(format!("`{name}` is one of {}, or nothing.", known.join(", ")))
    })
}

/// A decision with what is known about its crate.
#[derive(Debug)]
struct Entry {
    row: CrateRow,
    facts: Option<KnownFacts>,
    users: CrateUsers,
}

impl Entry {
    fn unsafe_items(&self) -> u64 {
        self.facts.as_ref().map_or(0, |facts| facts.geiger.unsafe_total())
    }
}

#[derive(Template)]
#[template(path = "crates.html")]
struct AllowlistPage {
    frame: Frame,
    waiting: Vec<CrateView>,
    rows: Vec<AllowlistRow>,
    /// Decisions that fit, on all pages.
    found: usize,
    all: usize,
    unreviewed: usize,
    /// Whose functions are counted.
    counted: &'static str,
    q: String,
    only: &'static str,
    sort: &'static str,
    only_choices: [Choice<Only>; 10],
    sort_choices: [Choice<Sort>; 5],
    page: usize,
    pages: usize,
}

/// A decision as a row.
struct AllowlistRow {
    name: String,
    version: String,
    features: String,
    status: &'static str,
    tone: &'static str,
    tenant: Option<String>,
    chips: Vec<Chip>,
    functions: u32,
    tenants: u32,
    decided_by: String,
    decided_at: String,
    reviewed: bool,
    expires_at: Option<String>,
    reason: String,
}

/// One fact in a word or two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chip {
    pub(super) text: String,
    pub(super) tone: &'static str,
}

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
    Query(query): Query<AllowlistQuery>,
) -> Result<Response, Refusal> {
    let only = chosen(&Only::CHOICES, "only", &query.only)?;
    let sort = chosen(&Sort::CHOICES, "sort", &query.sort)?;
    let mut entries = entries(&app, &caller).await?;
    let all = entries.len();
    let unreviewed = entries.iter().filter(|entry| Only::Unreviewed.shows(entry)).count();
    let name = query.q.trim().to_ascii_lowercase();
    entries.retain(|entry| entry.row.allowed.name.as_str().to_ascii_lowercase().contains(&name));
    entries.retain(|entry| only.means.shows(entry));
    sort.means.apply(&mut entries);
    let pages = entries.len().div_ceil(limits::CONSOLE_ROWS_MAX as usize).max(1);
    let page = query.page.unwrap_or(1).clamp(1, pages);
    let found = entries.len();
    let shown = entries.into_iter().skip((page - 1) * limits::CONSOLE_ROWS_MAX as usize);
    let page = AllowlistPage {
        frame: frame.at("crates"),
        waiting: waiting_crates(&app.catalog, &caller).await?,
        rows: shown.take(limits::CONSOLE_ROWS_MAX as usize).map(row).collect(),
        found,
        all,
        unreviewed,
        counted: if caller.decisions_of().is_none() { "of the site" } else { "of yours" },
        q: line(query.q.trim()),
        only: only.value,
        sort: sort.value,
        only_choices: Only::CHOICES,
        sort_choices: Sort::CHOICES,
        page,
        pages,
    };
    html(&page, &page.frame.nonce)
}

/// Every decision that the caller may see, by name.
async fn entries(app: &App, caller: &Caller) -> Result<Vec<Entry>, Refusal> {
    let decided = app.catalog.crates(caller.decisions_of()).await?;
    let checksums: Vec<String> = decided.iter().map(|row| row.allowed.checksum.clone()).collect();
    let known = app.catalog.crate_facts(&checksums).await?;
    let users = match caller.decisions_of() {
        None => app.site_use.count(&app.catalog, limits::SITE_USE_LIFE).await?,
        of => Arc::new(app.catalog.crate_users(of).await?),
    };
    let entry = |row: CrateRow| {
        let users = users.get(&(row.allowed.name.clone(), row.allowed.version.clone())).copied();
        let facts = known.get(&row.allowed.checksum).cloned();
        Entry { facts, users: users.unwrap_or_default(), row }
    };
    Ok(decided.into_iter().map(entry).collect())
}

fn row(entry: Entry) -> AllowlistRow {
    let Entry { row, facts, users } = entry;
    let allowed = row.allowed;
    let (status, tone) = status(allowed.status);
    AllowlistRow {
        name: allowed.name.to_string(),
        version: allowed.version.to_string(),
        features: joined(&allowed.features),
        status,
        tone,
        tenant: row.tenant.map(|tenant| tenant.to_string()),
        chips: chips(facts.as_ref()),
        functions: users.functions,
        tenants: users.tenants,
        decided_by: line(&allowed.decided_by),
        decided_at: time(row.decided_at),
        reviewed: is_people(&allowed.decided_by),
        expires_at: row.expires_at.map(time),
        reason: lines(&allowed.reason),
    }
}

/// A decision in a word, and its colour.
pub(super) fn status(status: CrateStatus) -> (&'static str, &'static str) {
    match status {
        CrateStatus::Allowed => ("allowed", "good"),
        CrateStatus::Denied => ("denied", "bad"),
        CrateStatus::Revoked => ("revoked", "bad"),
    }
}

/// The facts in words. What is unknown never looks like nothing.
pub(super) fn chips(facts: Option<&KnownFacts>) -> Vec<Chip> {
    let chip = |text: &str, tone| Chip { text: text.to_owned(), tone };
    let Some(facts) = facts else { return vec![chip("not examined", "off")] };
    let items = facts.geiger.unsafe_total();
    let counted = match (items, facts.unsafe_code) {
        (_, UnsafeCode::None) => chip("no unsafe code", "good"),
        (0, UnsafeCode::Unknown) => chip("unsafe code unknown", "wait"),
        (_, UnsafeCode::Unknown) => chip(&format!("{items} unsafe items or more"), "bad"),
        (_, UnsafeCode::Counted) => chip(&format!("{items} unsafe items"), "bad"),
    };
    let compiler = match &facts.compiler {
        CompilerVerdict::Clean => Some(chip("compiler: none", "good")),
        CompilerVerdict::Unsafe { errors, .. } => Some(chip(&format!("compiler: {errors}"), "bad")),
        CompilerVerdict::Failed { .. } | CompilerVerdict::NotRun { .. } => {
            Some(chip("compiler: unknown", "wait"))
        }
    };
    let kind = &facts.kind;
    let powers = [
        kind.proc_macro.then(|| chip("procedural macro", "bad")),
        kind.build_script.then(|| chip("build script", "bad")),
        kind.links.as_ref().map(|_| chip("native library", "bad")),
    ];
    [Some(counted), compiler].into_iter().chain(powers).flatten().collect()
}

#[cfg(test)]
mod tests;
