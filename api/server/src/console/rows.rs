//! What tables of the console show: texts that are ready to be escaped and printed.

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_catalog::{Builder, QueuePlace};
use mfaas_ident::{Budget, Class, Digest, MemoryLimit};
use mfaas_rules::crate_facts::ApiClass;
use mfaas_wire::{
    AliasView, DeploymentState, DeploymentView, Diagnostic, Event, EventKind, FunctionView, Level, LogLine,
    NodeState, NodeView, ScheduleView, TriggerView, VersionView, bindings_text,
};

use crate::limits;

/// A time for people.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// How long ago, in the largest unit that fits.
pub(super) fn age(since: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let minutes = (now - since).num_minutes().max(0);
    let (number, unit) = match minutes {
        0..120 => (minutes, "min"),
        120..2_880 => (minutes / 60, "h"),
        _ => (minutes / 1_440, "days"),
    };
    format!("{number} {unit}")
}

/// A text that somebody else wrote, on one line.
pub(super) fn line(text: &str) -> String {
    mfaas_ident::sanitise_line(text, limits::CONSOLE_TEXT_BYTES_MAX)
}

/// The same for texts of several lines.
pub(super) fn lines(text: &str) -> String {
    mfaas_ident::sanitise(text, limits::CONSOLE_TEXT_BYTES_MAX)
}

/// Words, or a dash for none.
pub(super) fn joined<T: std::fmt::Display>(parts: impl IntoIterator<Item = T>) -> String {
    let parts: Vec<String> = parts.into_iter().map(|word| line(&word.to_string())).collect();
    if parts.is_empty() { "–".to_owned() } else { parts.join(", ") }
}

fn number<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

fn digest(value: &Digest) -> String {
    value.short()
}

/// The colour of a state; the word beside it says the same.
pub(super) fn tone(state: DeploymentState) -> &'static str {
    match state {
        DeploymentState::Admitted => "good",
        DeploymentState::Refused | DeploymentState::Failed => "bad",
        DeploymentState::Waiting => "wait",
        DeploymentState::Received | DeploymentState::Building | DeploymentState::Built => "busy",
    }
}

/// What a class of interfaces of std is called.
pub(super) fn class_label(class: ApiClass) -> &'static str {
    match class {
        ApiClass::Fs => "files",
        ApiClass::Net => "network",
        ApiClass::Process => "processes",
        ApiClass::Env => "environment",
        ApiClass::Stdio => "standard input and output",
        ApiClass::Thread => "threads",
        ApiClass::Time => "clocks",
        ApiClass::GlobalState => "state that outlives a call",
    }
}

/// A place in the queue of builders, in words.
pub(super) fn place(found: QueuePlace) -> String {
    let QueuePlace { place, of, is_cut } = found;
    let ending = match (place % 10, place % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    let least = if is_cut { "at least " } else { "" };
    format!("{least}{place}{ending} of {least}{of}")
}

/// How many builders there are to take it.
pub(super) fn builders_at_work(builders: &[Builder]) -> String {
    match builders.iter().filter(|builder| builder.unwell.is_none()).count() {
        0 => "no builder takes builds".to_owned(),
        1 => "1 builder takes builds".to_owned(),
        count => format!("{count} builders take builds"),
    }
}

/// A row of a table of deployments.
pub(super) struct DeploymentRow {
    pub(super) id: String,
    pub(super) short_id: String,
    pub(super) function: String,
    pub(super) state: &'static str,
    pub(super) tone: &'static str,
    pub(super) version: String,
    pub(super) created_at: String,
    /// Its place in the queue, where it is shown and it has one.
    pub(super) place: Option<String>,
}

impl From<DeploymentView> for DeploymentRow {
    fn from(view: DeploymentView) -> Self {
        let id = view.id.to_string();
        Self {
            short_id: id.chars().take(13).collect(),
            id,
            function: view.function.to_string(),
            state: view.state.as_str(),
            tone: tone(view.state),
            version: number(view.version),
            created_at: time(view.created_at),
            place: None,
        }
    }
}

/// A row of the table of functions.
pub(super) struct FunctionRow {
    pub(super) name: String,
    pub(super) class: &'static str,
    pub(super) live: String,
    pub(super) latest: String,
    pub(super) created_at: String,
}

impl From<FunctionView> for FunctionRow {
    fn from(view: FunctionView) -> Self {
        Self {
            name: view.name.to_string(),
            class: view.class.map_or("-", Class::as_str),
            live: number(view.live_version),
            latest: view.latest_version.to_string(),
            created_at: time(view.created_at),
        }
    }
}

/// A row of the table of versions.
pub(super) struct VersionRow {
    pub(super) version: String,
    pub(super) deployment: String,
    pub(super) artifact: String,
    pub(super) source: String,
    pub(super) handler: String,
    pub(super) budget: String,
    pub(super) memory: String,
    pub(super) class: &'static str,
    pub(super) isolation: &'static str,
    pub(super) access: &'static str,
    pub(super) bindings: String,
    pub(super) idempotent: &'static str,
    pub(super) created_at: String,
    pub(super) state: String,
    pub(super) tone: &'static str,
}

impl From<VersionView> for VersionRow {
    fn from(view: VersionView) -> Self {
        let aliases: Vec<_> = view.aliases.iter().map(ToString::to_string).collect();
        let (state, tone) = match (view.revoked, aliases.is_empty()) {
            (true, _) => ("revoked".to_owned(), "bad"),
            (false, true) => ("kept".to_owned(), "off"),
            (false, false) => (aliases.join(", "), "good"),
        };
        let micros = view.budget_us;
        let bytes = view.memory_bytes;
        Self {
            version: view.version.to_string(),
            deployment: view.deployment.to_string(),
            artifact: digest(&view.artifact_digest),
            source: digest(&view.source_digest),
            handler: view.handler,
            budget: Budget::from_micros(micros)
                .map_or_else(|_| format!("{micros}us"), |budget| budget.to_string()),
            memory: MemoryLimit::from_bytes(bytes)
                .map_or_else(|_| format!("{bytes} B"), |limit| limit.to_string()),
            class: view.class.as_str(),
            isolation: view.isolation.as_str(),
            access: view.access.as_str(),
            bindings: bindings_text(&view.bindings),
            idempotent: if view.idempotent { "yes" } else { "no" },
            created_at: time(view.created_at),
            state,
            tone,
        }
    }
}

/// A row of the table of aliases.
pub(super) struct AliasRow {
    pub(super) alias: String,
    pub(super) version: String,
    pub(super) updated_at: String,
}

impl From<AliasView> for AliasRow {
    fn from(view: AliasView) -> Self {
        Self {
            alias: view.alias.to_string(),
            version: view.version.to_string(),
            updated_at: time(view.updated_at),
        }
    }
}

/// A row of the table of schedules.
pub(super) struct ScheduleRow {
    pub(super) name: String,
    pub(super) cron: String,
    pub(super) due_at: String,
    pub(super) runs: String,
    pub(super) failures: String,
    pub(super) skipped: String,
    pub(super) begun_at: String,
    /// What came of the last call, and how good that is.
    pub(super) outcome: String,
    pub(super) tone: &'static str,
}

impl From<ScheduleView> for ScheduleRow {
    fn from(view: ScheduleView) -> Self {
        let moment = |at: Option<DateTime<Utc>>| at.map_or_else(|| "–".to_owned(), time);
        let last = view.last.as_ref();
        Self {
            name: view.name.to_string(),
            cron: line(&view.cron),
            due_at: moment(view.due_at),
            runs: view.runs.to_string(),
            failures: view.failures.to_string(),
            skipped: view.skipped.to_string(),
            begun_at: moment(last.map(|last| last.begun_at)),
            outcome: last.map_or_else(|| "–".to_owned(), |last| last.words()),
            tone: match last.map(|last| last.outcome.as_str()) {
                Some("answered") => "good",
                Some("running") => "busy",
                None => "off",
                Some(_) => "bad",
            },
        }
    }
}

/// A row of the table of triggers.
pub(super) struct TriggerRow {
    pub(super) name: String,
    /// Whose changes.
    pub(super) objects: String,
    pub(super) changes: String,
    pub(super) waiting: String,
    pub(super) delivered: String,
    pub(super) failed: String,
    pub(super) dropped: String,
    /// What came of the last call, or why there is none, and how good that is.
    pub(super) outcome: String,
    pub(super) tone: &'static str,
}

impl From<TriggerView> for TriggerRow {
    fn from(view: TriggerView) -> Self {
        let (outcome, tone) = match (view.state.as_str(), &view.last) {
            ("active", None) => ("–".to_owned(), "off"),
            ("active", Some(last)) if last.outcome == "answered" => (last.words(), "good"),
            ("active", Some(last)) => (last.words(), "bad"),
            (state, _) => (state.replace('_', " "), "bad"),
        };
        Self {
            name: view.name.to_string(),
            objects: line(&format!("{}/{}*", view.resource, view.prefix)),
            changes: view.on.iter().map(|change| change.as_str()).collect::<Vec<_>>().join(", "),
            waiting: view.waiting.to_string(),
            delivered: view.delivered.to_string(),
            failed: view.failed.to_string(),
            dropped: view.dropped.to_string(),
            outcome,
            tone,
        }
    }
}

/// A line of a log.
pub(super) struct LogRow {
    pub(super) at: String,
    pub(super) node: String,
    pub(super) version: String,
    pub(super) level: String,
    pub(super) message: String,
}

impl From<LogLine> for LogRow {
    fn from(line: LogLine) -> Self {
        Self {
            at: time(line.at),
            node: line.node.to_string(),
            version: line.version.to_string(),
            level: line.level,
            message: line.message,
        }
    }
}

/// A row of the table of stages.
pub(super) struct EventRow {
    pub(super) seq: i64,
    pub(super) stage: String,
    pub(super) kind: &'static str,
    pub(super) what: String,
    pub(super) wall_ms: String,
    pub(super) cpu_ms: String,
    /// Milliseconds after the upload was received, without the waits before it.
    pub(super) begin_ms: i64,
    pub(super) end_ms: i64,
    /// How long it waited for a review from here on, in milliseconds; the scale leaves that out.
    pub(super) waited_ms: Option<i64>,
}

impl EventRow {
    fn of(event: Event, received: DateTime<Utc>) -> Self {
        let milliseconds = |value: Option<f64>| value.map(|ms| ms.to_string()).unwrap_or_default();
        let what = match (event.state, event.diagnostics.first()) {
            (Some(state), _) => state.as_str().to_owned(),
            (None, Some(diagnostic)) => diagnostic.message.clone(),
            (None, None) => event.kind.as_str().to_owned(),
        };
        let end_ms = (event.at - received).num_milliseconds().max(0);
        let took = event.wall_ms.map_or(0, |ms| ms as i64);
        Self {
            seq: event.seq,
            stage: event.stage,
            kind: event.kind.as_str(),
            what,
            wall_ms: milliseconds(event.wall_ms),
            cpu_ms: milliseconds(event.cpu_ms),
            begin_ms: (end_ms - took).max(0),
            end_ms,
            waited_ms: None,
        }
    }

    /// The length of the wait that the scale leaves out behind it.
    pub(super) fn waited(&self) -> Option<String> {
        let start = DateTime::UNIX_EPOCH;
        self.waited_ms.map(|ms| age(start, start + TimeDelta::milliseconds(ms)))
    }

    fn is_wait(&self) -> bool {
        self.kind == EventKind::State.as_str() && self.what == DeploymentState::Waiting.as_str()
    }

    /// The width of its bar; what took no time has one that can be seen.
    pub(super) fn width_ms(&self, whole_ms: &i64) -> i64 {
        (self.end_ms - self.begin_ms).max(whole_ms / 200).max(1)
    }

    /// Where its bar begins, so that the narrowest at the end of the scale is seen, too.
    pub(super) fn left_ms(&self, whole_ms: &i64) -> i64 {
        self.begin_ms.min(whole_ms - self.width_ms(whole_ms)).max(0)
    }

    /// When, for those who do not see the bar.
    pub(super) fn when(&self) -> String {
        let seconds = |ms: i64| format!("{}.{:02}", ms / 1_000, ms % 1_000 / 10);
        format!("from {} to {} s on the timeline", seconds(self.begin_ms), seconds(self.end_ms))
    }
}

/// The rows of the events of what was `received` then; a stage that has ended takes the place of its beginning. While the
/// deployment runs, at `now`, the stage that has not ended goes on until then.
pub(super) fn event_rows(
    events: Vec<Event>,
    received: DateTime<Utc>,
    now: Option<DateTime<Utc>>,
) -> Vec<EventRow> {
    let mut rows: Vec<EventRow> = Vec::with_capacity(events.len());
    for event in events {
        let ends = event.kind == EventKind::Finished;
        let row = EventRow::of(event, received);
        let begun =
            rows.iter_mut().rev().find(|begun| ends && begun.kind == "started" && begun.stage == row.stage);
        match begun {
            Some(begun) => *begun = row,
            None => rows.push(row),
        }
    }
    // Only the last stage can still run: an earlier one was given up.
    let last = rows.iter_mut().rev().find(|row| ["started", "finished"].contains(&row.kind));
    if let (Some(now), Some(running)) = (now, last.filter(|row| row.kind == "started")) {
        running.end_ms = (now - received).num_milliseconds().max(running.begin_ms);
    }
    leave_out_waits(&mut rows);
    rows
}

/// People take days and machines seconds: a wait for a review that is over would leave no stage a bar that can be read.
fn leave_out_waits(rows: &mut [EventRow]) {
    let mut waits: Vec<(i64, i64)> = Vec::new();
    for index in 1..rows.len() {
        let (begin, end) = (rows[index - 1].end_ms, rows[index].begin_ms);
        if rows[index - 1].is_wait() && begin < end {
            rows[index - 1].waited_ms = Some(end - begin);
            waits.push((begin, end));
        }
    }
    let without = |at: i64| at - waits.iter().map(|&(begin, end)| (at.min(end) - begin).max(0)).sum::<i64>();
    for row in rows {
        (row.begin_ms, row.end_ms) = (without(row.begin_ms), without(row.end_ms));
    }
}

/// How long it waited for reviews that are over.
pub(super) fn waited_ms(rows: &[EventRow]) -> i64 {
    rows.iter().filter_map(|row| row.waited_ms).sum()
}

/// How long everything took until the last event, waits left out, at least a moment.
pub(super) fn whole_ms(rows: &[EventRow]) -> i64 {
    rows.iter().map(|row| row.end_ms).max().unwrap_or(0).max(1)
}

/// A drawn diagnostic.
pub(super) struct DiagnosticRow {
    pub(super) rendered: String,
    pub(super) tone: &'static str,
}

impl From<Diagnostic> for DiagnosticRow {
    fn from(diagnostic: Diagnostic) -> Self {
        let tone = match diagnostic.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        Self { rendered: diagnostic.rendered, tone }
    }
}

/// A node that does not serve a version.
pub(super) struct RefusalRow {
    pub(super) node: String,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) hint: String,
}

/// A row of the table of nodes.
pub(super) struct NodeRow {
    pub(super) name: String,
    pub(super) state: &'static str,
    pub(super) tone: &'static str,
    pub(super) desired: u64,
    pub(super) reported: String,
    pub(super) loaded: u32,
    pub(super) reported_at: String,
    pub(super) protection: String,
    pub(super) problems: String,
}

impl From<NodeView> for NodeRow {
    fn from(view: NodeView) -> Self {
        let tone = match view.state {
            NodeState::Ready => "good",
            NodeState::Behind => "busy",
            NodeState::Silent => "bad",
            NodeState::Joined => "off",
        };
        Self {
            name: view.name.to_string(),
            state: view.state.as_str(),
            tone,
            desired: view.desired_epoch,
            reported: number(view.reported_epoch),
            loaded: view.loaded,
            reported_at: view.reported_at.map_or_else(|| "never".to_owned(), time),
            protection: view.protection.unwrap_or_default(),
            problems: view.problems.join("; "),
        }
    }
}

#[cfg(test)]
mod tests;
