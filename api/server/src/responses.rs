//! From rows of the catalog to objects of the API. Both the routes and the console show these,
//! so what is drawn or sanitised here is so everywhere.

pub(crate) mod artifacts;
pub(crate) mod crates;
pub(crate) mod isolation;
pub(crate) mod nodes;
pub(crate) mod resources;
pub(crate) mod schedules;
pub(crate) mod series;
pub(crate) mod triggers;
pub(crate) mod usage;

use chrono::Utc;
use mfaas_catalog::{
    AdvisoryMatch, AffectedVersion, Alias, AuditLink, AuditRow, BanRow, Baseline, CallToken, CrateRow,
    Deployment, Function, HotspotNote, Request, RequestMember, ReviewDelta, ReviewRow, StoredLine, Token,
    Usage, Version,
};
use mfaas_delivery as delivery;
use mfaas_ident::{AliasName, FunctionName, TenantName, ToolchainId, sanitise, sanitise_line};
use mfaas_rules::crate_facts::{CrateDelta, FileDelta, TrialBuild};
use mfaas_rules::{AllowedCrate, AllowlistSnapshot, CrateStatus as Decision, codes};
use mfaas_wire as wire;

use crate::limits;

/// The longest sentence, name or line of a diagnostic, in bytes; the builder's limits are lower.
const DIAGNOSTIC_BYTES_MAX: usize = 1_000;

/// The principal of the decisions that ship with the product.
pub(crate) const SEED: &str = "seed";

/// One deployment; `review_url` is where its dependencies are decided about.
pub(crate) fn deployment(row: Deployment, review_url: &str) -> wire::DeploymentView {
    let waits = row.state == delivery::DeploymentState::Waiting;
    let problem = problem(&row);
    wire::DeploymentView {
        id: row.id,
        tenant: row.tenant,
        function: row.function,
        state: row.state,
        created_at: row.created_at,
        updated_at: row.updated_at,
        source_digest: row.source_digest,
        source_bytes: row.source_bytes,
        attempts: row.attempt,
        version: row.version,
        diagnostics: row.diagnostics.into_iter().map(diagnostic).collect(),
        problem: problem.map(|problem| if waits { problem.with_review(None, review_url) } else { problem }),
        review_url: waits.then(|| review_url.to_owned()),
        requests: Vec::new(),
    }
}

/// What one version used in one period.
pub(crate) fn usage(row: Usage) -> wire::UsageRowView {
    let kills = row.kills.into_iter().map(|(kill, kills)| (kill.as_str().to_owned(), kills));
    wire::UsageRowView {
        from: row.from,
        tenant: row.tenant,
        function: row.function,
        version: row.version,
        calls: row.calls,
        cpu_ns: row.cpu_ns,
        run_ns: row.run_ns,
        run_ns_max: row.run_ns_max,
        queue_ns: row.queue_ns,
        memory_bytes_max: row.memory_bytes_max,
        kills: kills.collect(),
    }
}

/// One ban.
pub(crate) fn ban(row: BanRow) -> wire::BanView {
    wire::BanView {
        id: row.id,
        tenant: row.ban.tenant,
        function: row.ban.function,
        version: row.ban.version,
        digest: row.ban.digest,
        node: row.node,
        crashes: row.ban.crashes,
        since: row.ban.since,
    }
}

/// Why a deployment is no version: its first error names the code.
fn problem(row: &Deployment) -> Option<wire::Problem> {
    use delivery::DeploymentState::{Admitted, Building, Built, Failed, Received, Refused, Waiting};
    match row.state {
        Received | Building | Built | Admitted => return None,
        Refused | Waiting | Failed => {}
    }
    let first = row.diagnostics.iter().find(|diagnostic| diagnostic.level == delivery::Level::Error);
    Some(match first {
        Some(first) => wire::Problem::new(first.code, &first.message).with_hint(&first.hint),
        None => {
            wire::Problem::new(codes::MF0909, format!("The deployment is {} without a reason.", row.state))
        }
    })
}

/// One event.
pub(crate) fn event(row: delivery::Event) -> wire::Event {
    wire::Event {
        seq: i64::try_from(row.seq).unwrap_or(i64::MAX),
        // Rows of the catalog always have a time; only an event that was never stored has none.
        at: row.at.unwrap_or_else(Utc::now),
        stage: stage_word(row.stage).to_owned(),
        kind: row.kind,
        wall_ms: row.wall_ms.map(milliseconds),
        cpu_ms: row.cpu_ms.map(milliseconds),
        state: row.state,
        diagnostics: row.diagnostics.into_iter().map(diagnostic).collect(),
        version: row.version.map(u32::from),
    }
}

/// Milliseconds as JSON numbers; a time that f64 cannot count exactly is longer than the age of
/// the universe.
fn milliseconds(ms: u64) -> f64 {
    ms as f64
}

fn stage_word(stage: delivery::Stage) -> &'static str {
    use delivery::Stage;
    match stage {
        Stage::Receive => "receive",
        Stage::Claim => "claim",
        Stage::Unpack => "unpack",
        Stage::Audit => "audit",
        Stage::Dependencies => "dependencies",
        Stage::Expand => "expand",
        Stage::Compile => "compile",
        Stage::Link => "link",
        Stage::Inspect => "inspect",
        Stage::Load => "load",
        Stage::Sign => "sign",
        Stage::Publish => "publish",
    }
}

/// One diagnostic, drawn and sanitised here whatever the builder sent.
fn diagnostic(mut row: delivery::Diagnostic) -> wire::Diagnostic {
    row.message = sanitise(&row.message, DIAGNOSTIC_BYTES_MAX);
    row.hint = sanitise(&row.hint, DIAGNOSTIC_BYTES_MAX);
    if let Some(span) = &mut row.span {
        span.file = sanitise_line(&span.file, DIAGNOSTIC_BYTES_MAX);
        // A tab is drawn as a tab.
        span.text = sanitise(&span.text, DIAGNOSTIC_BYTES_MAX);
    }
    wire::Diagnostic {
        rendered: wire::render::drawn(&row),
        code: row.code.id().to_owned(),
        level: row.level,
        message: row.message,
        hint: row.hint,
        span: row.span.as_ref().map(wire::SourceSpan::from),
        layer: row.layer.as_str().to_owned(),
    }
}

/// One function.
pub(crate) fn function(row: Function) -> wire::FunctionView {
    wire::FunctionView {
        tenant: row.tenant,
        name: row.name,
        created_at: row.created_at,
        live_version: row.live_version,
        class: row.class,
        latest_version: row.last_version,
    }
}

/// One version with the aliases that name it, out of all `aliases` of its function.
pub(crate) fn version(row: Version, aliases: &[Alias]) -> wire::VersionView {
    let named = |alias: &&Alias| alias.version == row.version;
    let aliases: Vec<AliasName> = aliases.iter().filter(named).map(|alias| alias.alias.clone()).collect();
    wire::VersionView {
        version: row.version,
        deployment: row.deployment,
        artifact_digest: row.artifact,
        artifact_bytes: row.artifact_bytes,
        statement_digest: row.statement,
        source_digest: row.source_digest,
        toolchain: row.toolchain,
        created_at: row.created_at,
        budget_us: row.budget.as_micros(),
        memory_bytes: row.memory.as_bytes(),
        idempotent: row.idempotent,
        isolation: row.isolation,
        access: row.access,
        callers: row.callers,
        class: row.class,
        bindings: row.bindings,
        handler: row.handler.to_string(),
        abi_version: row.abi_version,
        policy_version: row.policy_version,
        revoked: row.revoked,
        aliases,
    }
}

/// What a node says about versions of this function that it does not serve.
pub(crate) fn node_refusals(
    report: &mfaas_delivery::Report,
    tenant: &TenantName,
    function: &FunctionName,
) -> Vec<wire::NodeRefusal> {
    let mine = report.refused.iter().filter(|row| row.tenant == *tenant && row.function == *function);
    mine.map(|row| wire::NodeRefusal {
        version: row.version,
        code: row.code.id().to_owned(),
        message: sanitise_line(&row.message, 300),
        hint: row.code.hint().to_owned(),
    })
    .collect()
}

/// One alias.
pub(crate) fn alias(row: Alias) -> wire::AliasView {
    wire::AliasView { alias: row.alias, version: row.version, updated_at: row.updated_at }
}

/// One decision about a crate.
pub(crate) fn decided_crate(row: CrateRow) -> wire::CrateView {
    let allowed = row.allowed;
    wire::CrateView {
        name: allowed.name,
        version: allowed.version.to_string(),
        features: allowed.features.iter().map(|feature| sanitise_line(feature, 100)).collect(),
        direct: allowed.direct,
        status: match allowed.status {
            Decision::Allowed => wire::CrateStatus::Allowed,
            Decision::Denied => wire::CrateStatus::Denied,
            Decision::Revoked => wire::CrateStatus::Revoked,
        },
        reviewed: mfaas_rules::is_people(&allowed.decided_by),
        decided_by: Some(sanitise_line(&allowed.decided_by, 200)),
        reason: sanitise(&allowed.reason, 1_000),
        checksum: Some(allowed.checksum),
    }
}

/// The decisions that builds of one tenant are judged by.
pub(crate) fn allowlist(toolchain: ToolchainId, snapshot: AllowlistSnapshot) -> wire::AllowlistView {
    let clean = |row: AllowedCrate| AllowedCrate {
        features: row.features.iter().map(|feature| sanitise_line(feature, 100)).collect(),
        decided_by: sanitise_line(&row.decided_by, 200),
        reason: sanitise(&row.reason, 1_000),
        ..row
    };
    wire::AllowlistView {
        toolchain,
        policy_version: snapshot.policy_version,
        crates: snapshot.crates.into_iter().map(clean).collect(),
    }
}

/// One crate that a deployment waits for. The requirement and the features are a tenant's text.
pub(crate) fn waiting_crate(row: Request) -> wire::CrateView {
    wire::CrateView {
        name: row.name,
        version: sanitise_line(&row.requirement, 100),
        features: row.features.iter().map(|feature| sanitise_line(feature, 100)).collect(),
        direct: true,
        status: wire::CrateStatus::Waiting,
        decided_by: None,
        reviewed: false,
        reason: row.code.title().to_owned(),
        checksum: None,
    }
}

/// One request, without what it comes down to.
pub(crate) fn request(row: Request) -> wire::RequestView {
    wire::RequestView {
        id: row.id,
        tenant: row.tenant,
        deployment: row.deployment,
        requested_by: row.requested_by,
        name: row.name,
        requirement: sanitise_line(&row.requirement, 100),
        features: row.features.iter().map(|feature| sanitise_line(feature, 100)).collect(),
        default_features: row.default_features,
        status: row.status.as_str().to_owned(),
        chosen: row.chosen.map(|version| version.to_string()),
        detail: sanitise(&row.detail, 4_000),
        created_at: row.created_at,
        nearest: None,
        members: Vec::new(),
    }
}

/// One request with what it comes down to, and what could be used in its place; `allowlist` is what a build of its
/// tenant is judged by.
pub(crate) fn whole_request(
    row: Request,
    members: Vec<(RequestMember, Option<ReviewDelta>)>,
    allowlist: &AllowlistSnapshot,
) -> wire::RequestView {
    let nearest = nearest(&row, allowlist);
    let members = members.into_iter().map(|(row, delta)| member(row, delta)).collect();
    wire::RequestView { nearest, members, ..request(row) }
}

fn reading(found: ReviewDelta) -> wire::ReadingView {
    let from = found.baseline.map(|base| base.version.to_string());
    let delta = found.delta.zip(from).map(|(delta, from)| wire::DeltaSizeView {
        from,
        added: delta.code.added,
        removed: delta.code.removed,
        files: delta.code.files,
    });
    wire::ReadingView {
        lines: found.volumes.map(|volumes| volumes.code.lines),
        no_delta: delta.is_none().then(|| sanitise(&found.problem, DIAGNOSTIC_BYTES_MAX)),
        delta,
    }
}

fn nearest(request: &Request, allowlist: &AllowlistSnapshot) -> Option<wire::NearestView> {
    let is_open =
        |row: &&AllowedCrate| row.name == request.name && row.status == Decision::Allowed && row.direct;
    let open: Vec<&AllowedCrate> = allowlist.crates.iter().filter(is_open).collect();
    let requirement = semver::VersionReq::parse(&request.requirement).unwrap_or(semver::VersionReq::STAR);
    let found = mfaas_rules::nearest(&requirement, open.iter().map(|row| &row.version))?;
    let row = open.iter().find(|row| row.version == *found)?;
    Some(wire::NearestView {
        version: row.version.to_string(),
        features: row.features.iter().map(|feature| sanitise_line(feature, 100)).collect(),
        decided_by: sanitise_line(&row.decided_by, 200),
    })
}

fn member(row: RequestMember, delta: Option<ReviewDelta>) -> wire::MemberView {
    wire::MemberView {
        name: row.name,
        version: row.version.to_string(),
        path: row.path.iter().map(|name| sanitise_line(name, 100)).collect(),
        review: row.review,
        state: row.state,
        reading: delta.map(reading),
    }
}

/// One review, with the notes about its hotspots where they are asked for.
pub(crate) fn review(row: ReviewRow, notes: Vec<HotspotNote>) -> wire::ReviewView {
    let vote = |vote: mfaas_catalog::Vote| wire::VoteView {
        person: vote.person,
        approve: vote.approve,
        note: sanitise(&vote.note, 16_000),
        at: vote.at,
    };
    wire::ReviewView {
        id: row.id,
        name: row.name,
        version: row.version.to_string(),
        checksum: row.checksum,
        features: row.features.iter().map(|feature| sanitise_line(feature, 100)).collect(),
        toolchain: row.toolchain.to_string(),
        people: u32::try_from(row.people.count()).unwrap_or(u32::MAX),
        rules_revision: row.rules_revision,
        judgement: serde_json::to_value(&row.judgement).unwrap_or_default(),
        trial: row.trial.map(trial),
        terms: row.terms,
        state: row.state,
        reason: sanitise(&row.reason, 16_000),
        opened_at: row.opened_at,
        closed_at: row.closed_at,
        requesters: row.requesters,
        waiting: row.waiting,
        votes: row.votes.into_iter().map(vote).collect(),
        hotspots: notes.into_iter().map(hotspot).collect(),
        delta: None,
        no_delta: None,
        whole: None,
    }
}

/// The same with what changed since the nearest version that is allowed; `None` while nobody has compared.
pub(crate) fn with_delta(view: wire::ReviewView, found: Option<ReviewDelta>) -> wire::ReviewView {
    let Some(found) = found else {
        return wire::ReviewView { no_delta: Some("nobody has compared it yet".to_owned()), ..view };
    };
    let whole = found.volumes.map(|volumes| wire::VolumeView {
        lines: volumes.code.lines,
        files: volumes.code.files,
        other_lines: volumes.other.lines,
        other_files: volumes.other.files,
        unkept_files: volumes.unkept,
    });
    let problem = sanitise_line(&found.problem, 1_000);
    let delta = found.delta.zip(found.baseline).map(|(delta, base)| delta_view(delta, base, found.stands));
    wire::ReviewView { no_delta: delta.is_none().then_some(problem), delta, whole, ..view }
}

fn delta_view(delta: CrateDelta, base: Baseline, stands: bool) -> wire::DeltaView {
    let file = |file: FileDelta| wire::FileDeltaView {
        path: sanitise_line(&file.path, 1_000),
        change: file.change.as_str().to_owned(),
        added: file.added,
        removed: file.removed,
        whole: sanitise_line(&file.whole, 300),
    };
    wire::DeltaView {
        from: base.version.to_string(),
        from_checksum: base.checksum,
        reviewed: base.is_reviewed(),
        decided_by: sanitise_line(&base.decided_by, 1_000),
        decided_at: base.decided_at,
        tenant: base.tenant,
        stands,
        added: delta.code.added,
        removed: delta.code.removed,
        files: delta.code.files,
        other_added: delta.other.added,
        other_removed: delta.other.removed,
        other_files: delta.other.files,
        unkept_files: delta.from.unkept.max(delta.to.unkept),
        changes: delta.files.into_iter().take(limits::DELTA_FILES_MAX).map(file).collect(),
        facts: serde_json::to_value(&delta.facts).unwrap_or_default(),
    }
}

/// A trial's words are the compiler's about foreign source.
fn trial(ended: TrialBuild) -> TrialBuild {
    match ended {
        TrialBuild::Compiles { needs } => TrialBuild::Compiles { needs },
        TrialBuild::Fails { reason } => TrialBuild::Fails { reason: sanitise(&reason, DIAGNOSTIC_BYTES_MAX) },
        TrialBuild::NotRun { reason } => {
            TrialBuild::NotRun { reason: sanitise(&reason, DIAGNOSTIC_BYTES_MAX) }
        }
    }
}

fn hotspot(row: HotspotNote) -> wire::HotspotView {
    wire::HotspotView {
        hotspot: sanitise_line(&row.hotspot, 1_000),
        state: row.state,
        note: sanitise(&row.note, 8_000),
        person: row.person,
        at: row.at,
    }
}

/// A version that a revocation concerns; `unloaded` when it was taken from the nodes just now.
pub(crate) fn affected(row: AffectedVersion, unloaded: bool) -> wire::AffectedView {
    wire::AffectedView {
        tenant: row.tenant,
        function: row.function,
        version: row.version,
        artifact: row.artifact,
        aliases: row.aliases,
        revoked: row.revoked || unloaded,
    }
}

/// An allowed version that an advisory matches.
pub(crate) fn advisory_match(row: AdvisoryMatch, unloaded: bool) -> wire::AdvisoryMatchView {
    wire::AdvisoryMatchView {
        advisory: sanitise_line(&row.advisory, 100),
        title: sanitise_line(&row.title, 400),
        name: row.name,
        version: row.version.to_string(),
        affected: row.affected.into_iter().map(|version| affected(version, unloaded)).collect(),
    }
}

/// One token.
pub(crate) fn token(row: Token) -> wire::TokenView {
    wire::TokenView {
        id: row.id.to_string(),
        role: row.role(),
        tenant: row.tenant,
        name: sanitise_line(&row.name, 400),
        person: row.person,
        identity_source: row.identity_source,
        made_by: sanitise_line(&row.made_by, 400),
        scopes: row.scopes,
        created_at: row.created_at,
        expires_at: row.expires_at,
        revoked_at: row.revoked_at,
    }
}

/// A call token.
pub(crate) fn call_token(row: CallToken) -> wire::CallTokenView {
    wire::CallTokenView {
        id: row.id.to_string(),
        caller: row.caller,
        functions: row.functions,
        issued_at: row.issued_at,
        expires_at: row.expires_at,
        issued_by: sanitise_line(&row.issued_by, 400),
        revoked_at: row.revoked_at,
    }
}

/// One row of the audit log.
pub(crate) fn audit(row: AuditRow) -> wire::AuditEntry {
    wire::AuditEntry {
        seq: row.seq,
        at: row.at,
        role: row.role,
        actor: sanitise_line(&row.actor, 400),
        action: row.action,
        tenant: row.tenant,
        subject: sanitise_line(&row.subject, 400),
        detail: row.detail,
        hash: row.hash,
    }
}

/// A row of the audit log as its hash covers it: a cleaned one would have another hash. Whoever shows it cleans it.
pub(crate) fn audit_link(link: AuditLink) -> wire::AuditLink {
    wire::AuditLink { row: link.row, fields: link.fields, hash: link.hash }
}

/// A line of a function's log, made harmless for whoever reads it.
fn log_text(text: &str) -> String {
    sanitise_line(text, limits::LOG_LINE_BYTES_MAX)
}

/// One line of a function's log.
pub(crate) fn log_line(row: StoredLine) -> wire::LogLine {
    wire::LogLine {
        seq: row.id,
        at: row.at,
        node: row.node,
        version: row.version,
        level: row.level.as_str().to_owned(),
        message: log_text(&row.text),
    }
}
