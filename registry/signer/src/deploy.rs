//! One built deployment: examined, signed and admitted in one transaction, or refused or put back in one.

use std::collections::BTreeSet;
use std::time::{Instant, SystemTime};

use mfaas_attest::{
    Admission, BuildClaim, BuildDefinition, BuildMetadata, Builder, Check, Checker, Declared, Fields,
    PrivateKey, Provenance, Purpose, ResourceDescriptor, RunDetails, SandboxLevel, Statement, Trust, sign,
    verify,
};
use mfaas_blobs::Blobs;
use mfaas_delivery::{DeploymentState, Diagnostic, Event, Level, Stage};
use mfaas_ident::{Access, Binding, Class, DeploymentId, Digest, TraceParent, VersionNumber};
use mfaas_rules::limits::{AGREEMENT_ROUNDS_MAX, ARCHIVE, BINARY};
use mfaas_rules::profiles::lints;
use mfaas_rules::{Finding, Layer, POLICY_REVISION, codes};
use mfaas_trace::Work;
use postgres::{Client, Transaction};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::agreement::{Agreement, GivenClaim, weigh};
use crate::examine::{CHECKS, Case, Examined, Objection, Refusal, examine};
use crate::ledger::{self, BuiltRow, SignedStatement, calls, claims, resources};
use crate::meters;
use crate::rotation::OnlineKeys;

/// What signing needs besides the database.
pub(crate) struct SigningContext {
    pub(crate) blobs: Blobs,
    pub(crate) keys: OnlineKeys<PrivateKey>,
    /// Who may call a function whose manifest does not say.
    pub(crate) default_access: Access,
    /// The weakest sandbox that a build may have had.
    pub(crate) sandbox_minimum: SandboxLevel,
    /// How many builders have to make the same from a source.
    pub(crate) builds_agreement: usize,
    /// Runs the blob store's requests; everything else here is synchronous.
    pub(crate) runtime: Runtime,
}

/// A deployment that the signer has ended, or put back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) deployment: DeploymentId,
    pub(crate) state: DeploymentState,
    /// Where it stands in a trace.
    pub(crate) trace_parent: Option<TraceParent>,
}

/// What became of a look at the queue.
#[derive(Debug)]
pub(crate) enum PollOutcome {
    /// Nothing to do.
    Idle,
    /// Another builder is to make the same.
    Asked(DeploymentId),
    /// A deployment ended.
    Done(Ended),
    /// Something that it needs is not there: the blob store, or a record of ours. This one has to wait.
    Deferred(DeploymentId, String),
    /// Something of ours went wrong with this one, and the connection still lives.
    Broken(DeploymentId, anyhow::Error),
}

impl PollOutcome {
    /// As metrics have it; nothing where there was nothing to do.
    pub(crate) fn as_str(&self) -> Option<&'static str> {
        match self {
            Self::Idle => None,
            Self::Asked(_) => Some("another_builder"),
            Self::Done(Ended { state: DeploymentState::Received, .. }) => Some("rebuild"),
            Self::Done(ended) => Some(ended.state.as_str()),
            Self::Deferred(_, _) => Some("deferred"),
            Self::Broken(_, _) => Some("broken"),
        }
    }
}

/// Why a row is not admitted now.
enum Stop {
    Refusal(Refusal),
    /// It was built under another revision of the rules than ours.
    Rebuild,
    /// Another builder has to make the same; the claims that were kept are of no use beside this one if `anew`.
    Another {
        anew: bool,
    },
    /// Builders that have to agree do not.
    Disagreement(Vec<GivenClaim>, &'static str),
    Later(String),
    Broken(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Broken(error)
    }
}

impl From<Objection> for Stop {
    fn from(objection: Objection) -> Self {
        match objection {
            Objection::Refusal(refusal) => Self::Refusal(refusal),
            Objection::Later(cause) => Self::Later(cause),
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

/// Takes the next built row, if there is one, and ends it.
///
/// # Errors
/// Those of the connection; the transaction is gone and the row is where it was.
pub(crate) fn next(
    client: &mut Client,
    context: &SigningContext,
    deferred: &[Uuid],
) -> anyhow::Result<PollOutcome> {
    let mut tx = client.transaction()?;
    let Some((id, row)) = ledger::next_built(&mut tx, deferred)? else { return Ok(PollOutcome::Idle) };
    let result = row.and_then(|row| end(tx, context, &row));
    match result {
        Err(error) if !client.is_closed() && !ledger::is_contention(&error) => {
            Ok(PollOutcome::Broken(id, error))
        }
        other => other,
    }
}

/// Takes up a deployment that waits for another builder though enough have made the same by now: fewer have to agree than when
/// it was put back. It is weighed like one that was built just now.
pub(crate) fn take_up(client: &mut Client, context: &SigningContext) -> anyhow::Result<Option<DeploymentId>> {
    let mut tx = client.transaction()?;
    let Some(id) = claims::take_up(&mut tx, i64::try_from(context.builds_agreement)?)? else {
        return Ok(None);
    };
    ledger::append_event(&mut tx, id, &Event::state(Stage::Sign, DeploymentState::Built))?;
    tx.commit()?;
    Ok(Some(id))
}

/// Fails a deployment that went wrong again and again: it must end, and others must not wait for it.
pub(crate) fn give_up(client: &mut Client, id: DeploymentId) -> anyhow::Result<()> {
    let mut tx = client.transaction()?;
    if let Some(tenant) = ledger::tenant_of_built(&mut tx, id)? {
        let message = "the signer could not finish this deployment; its log tells why";
        refuse(&mut tx, id, &tenant, &Refusal::failed(codes::MF0909, message))?;
    }
    Ok(tx.commit()?)
}

fn end(mut tx: Transaction<'_>, context: &SigningContext, row: &BuiltRow) -> anyhow::Result<PollOutcome> {
    let (watch, began) = (Watch::start(), SystemTime::now());
    meters::taken_up(row.built_at);
    ledger::append_event(&mut tx, row.deployment, &Event::started(Stage::Sign))?;
    let state = match decide(&mut tx, context, row, &watch) {
        Ok(()) => DeploymentState::Admitted,
        Err(Stop::Refusal(refusal)) => {
            if refusal.state == DeploymentState::Failed {
                let reasons: Vec<&str> = refusal.findings.iter().map(|f| f.message.as_str()).collect();
                let (deployment, builder) = (row.deployment, row.builder());
                tracing::error!(%deployment, builder, reasons = reasons.join("; "), "a build is not signed: something of ours is wrong");
            }
            refuse(&mut tx, row.deployment, row.tenant.as_str(), &refusal)?;
            refusal.state
        }
        Err(Stop::Rebuild) => {
            claims::rebuild(&mut tx, row, POLICY_REVISION)?;
            ledger::append_event(
                &mut tx,
                row.deployment,
                &Event::state(Stage::Sign, DeploymentState::Received),
            )?;
            DeploymentState::Received
        }
        Err(Stop::Another { anew }) => {
            ask_another(&mut tx, context, row, anew)?;
            tx.commit()?;
            return Ok(PollOutcome::Asked(row.deployment));
        }
        Err(Stop::Disagreement(claims, message)) => {
            disagree(&mut tx, row, &claims, message)?;
            DeploymentState::Failed
        }
        Err(Stop::Later(cause)) => return Ok(PollOutcome::Deferred(row.deployment, cause)),
        Err(Stop::Broken(error)) => return Err(error),
    };
    tx.commit()?;
    let (deployment, trace_parent) = (row.deployment, row.trace_parent);
    if let Some(place) = &trace_parent {
        let attributes =
            [("mfaas.deployment", deployment.to_string()), ("mfaas.outcome", state.as_str().to_owned())];
        let (ended, attributes) = (SystemTime::now(), attributes.as_slice());
        mfaas_trace::record(place, Work { name: "sign", began, ended, attributes });
    }
    Ok(PollOutcome::Done(Ended { deployment, state, trace_parent }))
}

fn decide(
    tx: &mut Transaction<'_>,
    context: &SigningContext,
    row: &BuiltRow,
    watch: &Watch,
) -> Result<(), Stop> {
    let claim = accept_claim(tx, row)?;
    // Once for each revision of ours: a builder that goes on with other rules is refused after that.
    if claim.policy_revision != POLICY_REVISION && row.rebuild_for.as_deref() != Some(POLICY_REVISION) {
        return Err(Stop::Rebuild);
    }
    let kept = claims::kept(tx, row)?;
    let upload = fetch(context, &row.source_digest, ARCHIVE.upload_bytes_max)?;
    let artifact = fetch(context, &claim.artifact, BINARY.file_bytes_max)?;
    let allowlist = ledger::hold_allowlist(tx, &row.tenant, &claim.toolchain)?;
    let names: Vec<_> = claim.decisions.iter().map(|used| &used.name).collect();
    let caches = claims::cached_crates(tx, &claim.toolchain, row.queued_at, &names)?;
    let bound = claim.bindings.values().filter_map(Binding::resource);
    let bound: Vec<_> = bound.map(|binding| binding.resource.as_str()).collect();
    let granted = resources::granted(tx, &row.tenant, &bound)?;
    let closed = calls::closed(tx, &row.tenant, &claim.bindings)?;
    let cycle = calls::cycle(tx, (&row.tenant, &row.function), &claim.bindings)?;
    let mut examined = examine(Case {
        upload: upload.into(),
        artifact: &artifact,
        claim: &claim,
        allowlist: &allowlist,
        caches: &caches,
        granted: &granted,
        closed: &closed,
        cycle: cycle.as_deref(),
        sandbox_minimum: context.sandbox_minimum,
    })?;
    examined.declared.access.get_or_insert(context.default_access);
    let agreed = agree(context, row, claim.clone(), kept)?;
    let version = ledger::next_version(tx, &row.tenant, &row.function)?;
    let admission = admission(row, &claim, examined, &agreed, version, allowlist.policy_version);
    let envelope = sign_and_check(&context.keys.statements, &admission)?;
    let digest = Digest::of(envelope.as_bytes());
    ledger::admit(tx, &SignedStatement { admission: &admission, digest, envelope: &envelope })?;
    resources::record_bindings(tx, &admission)?;
    calls::record_calls(tx, &admission)?;
    ledger::append_event(tx, row.deployment, &watch.finished())?;
    let admitted = Event { version: Some(version), ..Event::state(Stage::Sign, DeploymentState::Admitted) };
    Ok(ledger::append_event(tx, row.deployment, &admitted)?)
}

/// What enough builders stand for.
struct Agreed {
    builders: BTreeSet<String>,
    sandbox_level: SandboxLevel,
}

impl Agreed {
    /// One builder stands for itself; several are named.
    fn named(&self, fields: Fields) -> Fields {
        if self.builders.len() > 1 { fields.with_builders(&self.builders) } else { fields }
    }
}

/// Whether the claim, which was examined, and those that were kept are enough.
fn agree(
    context: &SigningContext,
    row: &BuiltRow,
    claim: BuildClaim,
    kept: Vec<GivenClaim>,
) -> Result<Agreed, Stop> {
    let newest = GivenClaim { role: row.builder().to_owned(), claim };
    let may_ask = row.rounds < i16::from(AGREEMENT_ROUNDS_MAX);
    let message = match weigh(&newest, &kept, context.builds_agreement) {
        Agreement::Reached { builders, sandbox_level } => return Ok(Agreed { builders, sandbox_level }),
        Agreement::Short if may_ask => return Err(Stop::Another { anew: false }),
        Agreement::OtherInputs if may_ask => return Err(Stop::Another { anew: true }),
        Agreement::Short | Agreement::OtherInputs => {
            "builders worked with different toolchains or versions of crates, again and again"
        }
        Agreement::Broken => "builders made different artifacts from the same source, toolchain and crates",
    };
    Err(Stop::Disagreement(kept.into_iter().chain([newest]).collect(), message))
}

fn ask_another(
    tx: &mut Transaction<'_>,
    context: &SigningContext,
    row: &BuiltRow,
    anew: bool,
) -> anyhow::Result<()> {
    if anew {
        claims::forget(tx, row)?;
    }
    let mut message = format!(
        "{} builders have to make the same from the source, each on its own.",
        context.builds_agreement
    );
    if !claims::is_another_builder_there(tx, row)? {
        message.push_str(" No other builder is there at the moment.");
    }
    let finding = Finding::new(codes::MF0609, Layer::Signer, message);
    let diagnostic = Diagnostic { level: Level::Warning, ..Diagnostic::from(&finding) };
    claims::ask_another(tx, row, &diagnostic)?;
    ledger::append_event(tx, row.deployment, &Event::diagnostics(Stage::Sign, vec![diagnostic]))?;
    ledger::append_event(tx, row.deployment, &Event::state(Stage::Sign, DeploymentState::Received))
}

/// Ends a deployment about which builders disagree. Its owner learns that, operators who made what.
fn disagree(
    tx: &mut Transaction<'_>,
    row: &BuiltRow,
    given: &[GivenClaim],
    message: &str,
) -> anyhow::Result<()> {
    for GivenClaim { role, claim } in given {
        let (deployment, artifact, toolchain) = (row.deployment, claim.artifact, claim.toolchain.0);
        tracing::error!(%deployment, builder = role, %artifact, %toolchain, "builders that have to agree do not; this is what one of them says");
    }
    claims::record_disagreement(tx, row, given)?;
    refuse(tx, row.deployment, row.tenant.as_str(), &Refusal::failed(codes::MF0608, message))
}

/// The claim, if the row may be signed at all: committed under the highest token, built by an
/// accepted toolchain, not revoked.
fn accept_claim(tx: &mut Transaction<'_>, row: &BuiltRow) -> Result<BuildClaim, Stop> {
    if row.committed_token.is_none() || row.committed_token != row.fencing_token {
        let message =
            format!("committed under token {:?}, granted {:?}", row.committed_token, row.fencing_token);
        return Err(Refusal::failed(codes::MF0605, message).into());
    }
    let claim: BuildClaim = serde_json::from_value(row.claim.clone())
        .map_err(|e| Refusal::failed(codes::MF0603, format!("the builder's claim cannot be read: {e}")))?;
    if !ledger::is_accepted(tx, &claim.toolchain)? {
        let message = format!("toolchain {} is not accepted", claim.toolchain.0.short());
        return Err(Refusal::failed(codes::MF0603, message).into());
    }
    if ledger::is_revoked(tx, &claim.artifact)? {
        let message = "the build gives an artifact that has been revoked";
        return Err(Refusal::failed(codes::MF0706, message).into());
    }
    Ok(claim)
}

fn fetch(context: &SigningContext, digest: &Digest, bytes_max: u64) -> Result<bytes::Bytes, Stop> {
    context.runtime.block_on(context.blobs.get(digest, bytes_max)).map_err(|error| match error.code() {
        Some(code) => Refusal::failed(code, error.to_string()).into(),
        None => Stop::Later(error.to_string()),
    })
}

/// Signs, and reads its own signature back the way a node would.
fn sign_and_check(key: &PrivateKey, admission: &Admission) -> Result<String, Stop> {
    let trust = Trust::of_key(Purpose::Artifact, key.public());
    let envelope = sign(&Statement::new(admission.clone()), &[key])
        .and_then(|envelope| verify::<Statement>(&envelope, &trust).map(|_| envelope))
        .map_err(|e| Refusal::failed(codes::MF0606, e.to_string()))?;
    String::from_utf8(envelope).map_err(|e| Refusal::failed(codes::MF0606, e.to_string()).into())
}

fn refuse(tx: &mut Transaction<'_>, id: DeploymentId, tenant: &str, refusal: &Refusal) -> anyhow::Result<()> {
    let diagnostics: Vec<Diagnostic> = refusal.findings.iter().map(Diagnostic::from).collect();
    ledger::refuse(tx, id, tenant, refusal.state, &diagnostics)?;
    ledger::append_event(tx, id, &Event::diagnostics(Stage::Sign, diagnostics))?;
    ledger::append_event(tx, id, &Event::state(Stage::Sign, refusal.state))
}

fn admission(
    row: &BuiltRow,
    claim: &BuildClaim,
    examined: Examined,
    agreed: &Agreed,
    version: VersionNumber,
    policy_version: i64,
) -> Admission {
    let by = |by| move |name: &str| Check { name: name.to_owned(), by };
    let signer = CHECKS.iter().copied().map(by(Checker::Signer));
    let builder = BuildClaim::CHECKS.into_iter().map(by(Checker::BuilderOnly));
    let checks = signer.chain(builder).collect();
    let provenance = provenance(row, claim, &examined);
    let fields = Fields::new(examined.declared.access())
        .with_class(examined.declared.class)
        .with_callers(&examined.callers)
        .with_bindings(&examined.bindings)
        .with_assets(&examined.assets);
    Admission {
        tenant: row.tenant.clone(),
        function: row.function.clone(),
        version,
        deployment: row.deployment,
        artifact: claim.artifact,
        artifact_bytes: claim.artifact_bytes,
        handler: examined.handler,
        budget_us: examined.budget,
        memory_bytes: examined.memory,
        declared: Some(Declared { access: None, class: Class::default(), ..examined.declared }),
        fields: Some(agreed.named(fields)),
        source_upload: row.source_digest,
        source_tree: examined.source_tree,
        toolchain: claim.toolchain,
        abi_version: claim.abi_version,
        lints: lints::required().map(str::to_owned).collect(),
        policy_version,
        policy_revision: POLICY_REVISION.to_owned(),
        decisions: examined.decisions,
        elf_facts: examined.elf_facts,
        sandbox_level: agreed.sandbox_level,
        checks,
        bindings: Vec::new(),
        calls: Vec::new(),
        provenance,
    }
}

fn provenance(row: &BuiltRow, claim: &BuildClaim, examined: &Examined) -> Provenance {
    let pairs = |list: &[(&str, String)]| list.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    let mut materials = vec![
        ResourceDescriptor::sha256("mfaas:source-upload", &row.source_digest),
        ResourceDescriptor::sha256("mfaas:source-tree", &examined.source_tree),
        ResourceDescriptor::sha256("mfaas:toolchain", &claim.toolchain.0),
    ];
    materials.extend(examined.decisions.iter().map(|used| {
        ResourceDescriptor::with_checksum(format!("pkg:cargo/{}@{}", used.name, used.version), &used.checksum)
    }));
    Provenance {
        build_definition: BuildDefinition {
            build_type: Provenance::BUILD_TYPE.to_owned(),
            external_parameters: pairs(&[
                ("tenant", row.tenant.to_string()),
                ("function", row.function.to_string()),
                ("handler", examined.handler.to_string()),
            ]),
            internal_parameters: pairs(&[
                ("policyRevision", claim.policy_revision.clone()),
                ("policyVersion", claim.policy_version.to_string()),
                ("abiVersion", claim.abi_version.to_string()),
            ]),
            resolved_dependencies: materials,
        },
        run_details: RunDetails {
            builder: Builder { id: Provenance::BUILDER_ID.to_owned() },
            metadata: BuildMetadata {
                invocation_id: format!("{}#{}", row.deployment, row.fencing_token.unwrap_or_default()),
                started_on: row.received_at,
                finished_on: row.built_at,
            },
        },
    }
}

/// Wall and CPU time of the stage.
struct Watch {
    wall: Instant,
    cpu_ms: u64,
}

impl Watch {
    fn start() -> Self {
        Self { wall: Instant::now(), cpu_ms: cpu_ms() }
    }

    fn finished(&self) -> Event {
        let wall_ms = u64::try_from(self.wall.elapsed().as_millis()).unwrap_or(u64::MAX);
        Event::finished(Stage::Sign, wall_ms, cpu_ms().saturating_sub(self.cpu_ms))
    }
}

fn cpu_ms() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let ms = used.tv_sec.saturating_mul(1_000).saturating_add(used.tv_nsec / 1_000_000);
    u64::try_from(ms).unwrap_or(0)
}
