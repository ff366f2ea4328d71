//! A node's machine: which cores calls and builds use, and how they are kept apart.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::NodeName;
use mfaas_wire::{ControllerView, IsolationView, SiteIsolationView};

use super::chart::{Axis, span_text};
use super::charts::figure::{self, Figure, Minute, bytes_text};
use super::frame::{Frame, html};
use super::rows::time;
use crate::caller::Caller;
use crate::extract::Path;
use crate::refusal::Refusal;
use crate::responses::isolation::{isolation_view, site_isolation_view};
use crate::state::App;

/// Minutes of the chart, and how long one is.
const MINUTES: i64 = 60;
const MINUTE_S: u32 = 60;
/// What nobody set, or said.
const NOTHING: &str = "–";

#[derive(Template)]
#[template(path = "node.html")]
struct NodePage {
    frame: Frame,
    name: String,
    facts: Vec<Fact>,
    /// Why the machine does not have what the site wants; empty if it does.
    refused: String,
    span: String,
    figures: Vec<Figure>,
}

/// A row: what holds on the machine, and what the site says of it.
struct Fact {
    name: &'static str,
    here: String,
    site: String,
}

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    _caller: Caller,
    frame: Frame,
    Path(name): Path<NodeName>,
) -> Result<Response, Refusal> {
    let samples = app.catalog.isolation_samples(&name).await?;
    let samples: Vec<_> = samples.into_iter().map(|(at, report)| isolation_view(at, report)).collect();
    let site = site_isolation_view(app.catalog.site_isolation().await?);
    let last = samples.last();
    let axis = axis(Utc::now());
    let minutes = minutes(&axis, &samples);
    let is_known = minutes.iter().any(|minute| minute.primary_cores.is_some());
    let refusal = last.and_then(|last| last.refused.as_ref());
    let page = NodePage {
        frame: frame.at("nodes"),
        name: name.to_string(),
        facts: facts(last, &site),
        refused: refusal.map_or(String::new(), |refused| {
            format!("revision {}: {} {}", refused.revision, refused.code, refused.message)
        }),
        span: span_text(&axis.at, axis.step_s),
        figures: if is_known { vec![figure::of_isolation(&minutes, &axis)] } else { Vec::new() },
    };
    html(&page, &page.frame.nonce)
}

/// The last hour; the minute that is not over is the last.
fn axis(now: DateTime<Utc>) -> Axis {
    let minute = minute_of(now);
    let at = (0..MINUTES).rev().filter_map(|ago| DateTime::from_timestamp((minute - ago) * 60, 0));
    Axis { at: at.collect(), step_s: MINUTE_S }
}

fn minute_of(at: DateTime<Utc>) -> i64 {
    at.timestamp().div_euclid(TimeDelta::minutes(1).num_seconds())
}

/// Means of what was reported in each minute.
fn minutes(axis: &Axis, samples: &[IsolationView]) -> Vec<Minute> {
    let mut heard = BTreeMap::<i64, (f64, f64, f64)>::new();
    for sample in samples {
        let controller = sample.controller.as_ref();
        let used = controller.and_then(|said| said.primary_used_cores.zip(said.secondary_used_cores));
        if let Some((primary, secondary)) = used {
            let sums = heard.entry(minute_of(sample.at)).or_default();
            *sums = (sums.0 + 1.0, sums.1 + primary, sums.2 + secondary);
        }
    }
    let mean = |at: &DateTime<Utc>| match heard.get(&minute_of(*at)) {
        Some((reports, primary, secondary)) => {
            Minute { primary_cores: Some(primary / reports), secondary_cores: Some(secondary / reports) }
        }
        None => Minute::default(),
    };
    axis.at.iter().map(mean).collect()
}

fn facts(last: Option<&IsolationView>, site: &SiteIsolationView) -> Vec<Fact> {
    let here = |of: fn(&ControllerView) -> String| match last.and_then(|last| last.controller.as_ref()) {
        Some(controller) => of(controller),
        None => NOTHING.to_owned(),
    };
    let nothing = || NOTHING.to_owned();
    let or_nothing = |text: Option<String>| text.unwrap_or_else(nothing);
    let settings = &site.settings;
    let fact = |name, here, site| Fact { name, here, site };
    let heard = match last {
        None => "no controller was heard within the last hour".to_owned(),
        Some(last) if last.controller.is_none() => {
            format!("at {}, and the controller is silent", time(last.at))
        }
        Some(last) => format!("at {}", time(last.at)),
    };
    let memory = |bytes: u64| match bytes {
        0 => "no limit".to_owned(),
        bytes => format!("at most {}", bytes_text(bytes)),
    };
    let revision = if site.revision == 0 { nothing() } else { site.revision.to_string() };
    vec![
        fact("Heard", heard, or_nothing(site.set_at.map(|at| format!("set at {}", time(at))))),
        fact("Mode", here(|said| said.mode.clone()), or_nothing(settings.mode.map(|mode| mode.to_string()))),
        fact(
            "Kill switch",
            here(|said| pulled(said.off).to_owned()),
            or_nothing(settings.off.map(|off| pulled(off).to_owned())),
        ),
        fact("Cores of the machine", here(|said| said.cores.to_string()), nothing()),
        fact(
            "Buffer cores",
            here(|said| said.buffer_cores.to_string()),
            or_nothing(settings.buffer_cores.map(|cores| cores.to_string())),
        ),
        fact(
            "Idle cores",
            here(|said| said.idle_cores.map_or(NOTHING.to_owned(), |idle| idle.to_string())),
            nothing(),
        ),
        fact("Cores of the secondary", here(|said| secondary(said.secondary_cores)), nothing()),
        fact(
            "Memory of the secondary",
            here(|said| said.memory_bytes.map_or(NOTHING.to_owned(), bytes_text)),
            or_nothing(settings.memory_bytes.map(memory)),
        ),
        fact("Ended for want of memory", here(|said| said.killed.to_string()), nothing()),
        fact(
            "Revision of the site's settings",
            here(|said| said.revision.map_or(NOTHING.to_owned(), |revision| revision.to_string())),
            revision,
        ),
    ]
}

fn pulled(off: bool) -> &'static str {
    if off { "pulled: nothing is limited" } else { "not pulled" }
}

fn secondary(cores: u32) -> String {
    if cores == 0 { "none: it stands still".to_owned() } else { cores.to_string() }
}

#[cfg(test)]
mod tests;
