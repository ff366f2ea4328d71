//! One file of a crate: numbered lines with the hotspots in their place, or what changed in it since the version that
//! was decided about before.
//!
//! The texts are blobs that the acquirer stored; nothing is unpacked here, and the path of the address is
//! compared with rows, never given to a file system. No blob is read but the one that is shown, and for a
//! comparison the other one.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use mfaas_catalog::{CatalogError, CrateFile};
use mfaas_rules::limits::CRATE_TEXT;
use mfaas_rules::review::ReviewState;
use serde::Deserialize;

use super::delta::Base;
use super::diff::{DiffPage, diff_page};
use super::frame::{Frame, html};
use super::hotspots::{HotspotRow, diff_url, file_url, seen};
use super::review::Dossier;
use super::source::{Budget, LineRow, is_rust, line_rows};
use crate::caller::Caller;
use crate::extract::{Path, Query};
use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;

#[derive(Template)]
#[template(path = "review_file.html")]
struct FilePage {
    frame: Frame,
    id: i64,
    name: String,
    version: String,
    path: String,
    bytes: Option<u64>,
    open: bool,
    back: &'static str,
    hotspots_seen: usize,
    hotspots_count: usize,
    /// The addresses of the two views; none of a view that there is not.
    source_url: Option<String>,
    diff_url: Option<String>,
    base: Option<Base>,
    view: View,
}

/// What is shown of the file.
enum View {
    Source(SourceView),
    Diff(DiffPage, DiffLinks),
    /// Why there is no comparison.
    NoDiff(String),
}

/// The text as it is.
struct SourceView {
    whole: Vec<HotspotRow>,
    lines: Vec<LineRow>,
    lines_count: usize,
    earlier: Option<String>,
    later: Option<String>,
    plain: bool,
}

/// The pages beside a page of a comparison.
struct DiffLinks {
    earlier: Option<String>,
    later: Option<String>,
}

/// Which part of the file is wanted, and how.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct FileQuery {
    line: Option<usize>,
    #[serde(default)]
    view: Wanted,
    page: Option<usize>,
}

/// The two ways to look at a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wanted {
    #[default]
    Source,
    Diff,
}

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    _caller: Caller,
    frame: Frame,
    Path((id, path)): Path<(i64, String)>,
    Query(query): Query<FileQuery>,
) -> Result<Response, Refusal> {
    // Paths are stored as people can read them; anything else names nothing.
    if mfaas_ident::sanitise_line(&path, path.len()) != path {
        return Err(Refusal::not_found("such file in the crate"));
    }
    let dossier = Dossier::read(&app, id).await?;
    let new = find(app.catalog.crate_file(&dossier.review.checksum, &path).await)?;
    let base = Base::of(dossier.delta.as_ref());
    let old = match &base {
        Some(base) => find(app.catalog.crate_file(&base.checksum, &path).await)?,
        None => None,
    };
    if new.is_none() && (old.is_none() || query.view == Wanted::Source) {
        return Err(Refusal::not_found("such file in the crate"));
    }
    let hotspots: Vec<HotspotRow> =
        dossier.hotspots.iter().filter(|hotspot| hotspot.file == path).cloned().collect();
    let (hotspots_seen, hotspots_count) = (seen(&hotspots), hotspots.len());
    let view = match (query.view, &base) {
        (Wanted::Source, _) => {
            let text = text(&app, new.as_ref()).await?;
            let shown = path.clone();
            drawing(move || View::Source(source(id, &shown, &text, hotspots, query.line.unwrap_or(1))))
                .await?
        }
        (Wanted::Diff, None) => View::NoDiff("There is no version to compare it with.".to_owned()),
        (Wanted::Diff, Some(_)) => {
            let texts = (text(&app, old.as_ref()).await?, text(&app, new.as_ref()).await?);
            let shown = path.clone();
            drawing(move || diff(id, &shown, &texts, &hotspots, &query)).await?
        }
    };
    let page = FilePage {
        frame: frame.at("reviews"),
        id,
        name: dossier.review.name.to_string(),
        version: dossier.review.version.to_string(),
        bytes: new.as_ref().map(|file| file.bytes),
        open: dossier.review.state == ReviewState::Open,
        back: if query.view == Wanted::Diff { "diff" } else { "file" },
        hotspots_seen,
        hotspots_count,
        source_url: new.as_ref().map(|_| file_url(id, &path, 0)),
        diff_url: base.as_ref().map(|_| diff_url(id, &path, 0)),
        base,
        view,
        path,
    };
    html(&page, &page.frame.nonce)
}

/// A row that may be missing.
fn find(found: Result<CrateFile, CatalogError>) -> Result<Option<CrateFile>, Refusal> {
    match found {
        Ok(file) => Ok(Some(file)),
        Err(CatalogError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The text of a file; empty for one that is not there.
async fn text(app: &App, file: Option<&CrateFile>) -> Result<String, Refusal> {
    let Some(file) = file else { return Ok(String::new()) };
    let bytes = app.blobs.get(&file.blob, CRATE_TEXT.file_bytes_max).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reading and comparing megabytes must not hold up whoever else is served.
async fn drawing<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(Refusal::internal)
}

fn source(id: i64, path: &str, text: &str, hotspots: Vec<HotspotRow>, line: usize) -> SourceView {
    let window = Window::of(text.lines().count(), line);
    let url = |line: usize| file_url(id, path, u32::try_from(line).unwrap_or(u32::MAX));
    let shown = window.first - 1..window.first - 1 + limits::CONSOLE_FILE_LINES_MAX;
    let mut budget = Budget::of_page();
    SourceView {
        lines: line_rows(text, is_rust(path), &[shown], &hotspots, false, &mut budget),
        lines_count: window.count,
        earlier: window.earlier().map(url),
        later: window.later().map(url),
        plain: budget.is_plain(),
        whole: hotspots.into_iter().filter(|hotspot| is_outside(hotspot, window.count)).collect(),
    }
}

fn diff(
    id: i64,
    path: &str,
    (old, new): &(String, String),
    hotspots: &[HotspotRow],
    query: &FileQuery,
) -> View {
    match diff_page((old, new), is_rust(path), hotspots, (query.line, query.page.unwrap_or(1))) {
        Err(why) => View::NoDiff(format!("The two texts are not shown side by side: {why}.")),
        Ok(page) => {
            let url = |page: usize| format!("{}&page={page}", diff_url(id, path, 0));
            let earlier = (page.page > 1).then(|| url(page.page - 1));
            let later = (page.page < page.pages).then(|| url(page.page + 1));
            View::Diff(page, DiffLinks { earlier, later })
        }
    }
}

/// A hotspot that no line of the file can show.
fn is_outside(hotspot: &HotspotRow, lines: usize) -> bool {
    usize::try_from(hotspot.line).is_ok_and(|line| line == 0 || line > lines)
}

/// The lines of one page.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    /// The first, from 1.
    first: usize,
    /// All lines of the file.
    count: usize,
}

impl Window {
    /// The page that holds `line`. Pages do not overlap, so a line is on exactly one.
    fn of(count: usize, line: usize) -> Self {
        let line = line.clamp(1, count.max(1));
        let first = (line - 1) / limits::CONSOLE_FILE_LINES_MAX * limits::CONSOLE_FILE_LINES_MAX + 1;
        Self { first, count }
    }

    fn earlier(&self) -> Option<usize> {
        self.first.checked_sub(limits::CONSOLE_FILE_LINES_MAX).filter(|first| *first > 0)
    }

    fn later(&self) -> Option<usize> {
        Some(self.first + limits::CONSOLE_FILE_LINES_MAX).filter(|first| *first <= self.count)
    }
}

#[cfg(test)]
mod tests;
