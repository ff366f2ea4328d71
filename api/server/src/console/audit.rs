//! The audit log, newest first, and whether its chain of hashes holds.
//!
//! The chain is computed for the first page only, from where it was computed before: a page must not walk the whole table. Who
//! wants that asks `mfaas audit --verify --all`, which does not take the server's word either.

use std::sync::PoisonError;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use mfaas_catalog::AuditRow;
use mfaas_ident::sanitise;
use serde::Deserialize;

use super::frame::{Frame, html};
use super::rows::{line, time};
use crate::caller::Caller;
use crate::extract::Query;
use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    /// `None` on later pages.
    chain: Option<Chain>,
    rows: Vec<EntryRow>,
    older: Option<i64>,
}

/// Whether it holds.
struct Chain {
    holds: bool,
    rows: u64,
    problem: String,
}

/// One row.
struct EntryRow {
    seq: i64,
    at: String,
    actor: String,
    role: String,
    action: String,
    tenant: String,
    subject: String,
    detail: String,
}

/// Where the page begins.
#[derive(Deserialize)]
pub(super) struct AuditQuery {
    before: Option<i64>,
}

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    _caller: Caller,
    frame: Frame,
    Query(query): Query<AuditQuery>,
) -> Result<Response, Refusal> {
    let limit = limits::CONSOLE_ROWS_MAX;
    let mut found = app.catalog.audit_before(query.before, limit + 1).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let chain = match query.before {
        None => Some(chain(&app).await?),
        Some(_) => None,
    };
    let page = AuditPage {
        frame: frame.at("audit"),
        chain,
        older: found.last().map(|row| row.seq).filter(|_| more),
        rows: found.into_iter().map(entry).collect(),
    };
    html(&page, &page.frame.nonce)
}

/// Whether what was added since the last look holds; what was looked at before is not computed again for each page.
async fn chain(app: &App) -> Result<Chain, Refusal> {
    let known = *app.audited.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match app.catalog.verify_audit(known).await? {
        Ok(head) => {
            *app.audited.lock().unwrap_or_else(PoisonError::into_inner) = head;
            Chain { holds: true, rows: head.row, problem: String::new() }
        }
        Err(error) => Chain { holds: false, rows: error.rows(), problem: error.to_string() },
    })
}

fn entry(row: AuditRow) -> EntryRow {
    EntryRow {
        seq: row.seq,
        at: time(row.at),
        actor: line(&row.actor),
        role: row.role,
        action: line(&row.action),
        tenant: row.tenant,
        subject: line(&row.subject),
        detail: sanitise(&row.detail.to_string(), limits::CONSOLE_DETAIL_BYTES_MAX),
    }
}
