//! One built deployment: examined, signed and admitted in one transaction, or refused or put back in one.

use std::time::Instant;

use mfaas_attest::{
    Admission, BuildClaim, BuildDefinition, BuildMetadata, Builder, Check, Checker, Declared, Fields,
    PrivateKey, Provenance, Purpose, ResourceDescriptor, RunDetails, Statement, Trust, sign, verify,
};
use mfaas_blobs::{BlobError, Blobs};
use mfaas_delivery::{DeploymentState, Diagnostic, Event, Stage};
use mfaas_ident::{Access, DeploymentId, Digest, VersionNumber};
use mfaas_rules::limits::{ARCHIVE, BINARY};
use mfaas_rules::{POLICY_REVISION, codes};
use postgres::{Client, Transaction};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::examine::{CHECKS, Case, Examined, Refusal, examine};
use crate::ledger::{self, BuiltRow, SignedStatement};
use crate::rotation::OnlineKeys;

/// What signing needs besides the database.
pub(crate) struct Desk {
    pub(crate) blobs: Blobs,
    pub(crate) keys: OnlineKeys<PrivateKey>,
    /// Who may call a function whose manifest does not say.
    pub(crate) default_access: Access,
    /// Runs the blob store's requests; everything else here is synchronous.
    pub(crate) runtime: Runtime,
}

/// What became of a look at the queue.
#[derive(Debug)]
pub(crate) enum Looked {
    /// Nothing to do.
    Idle,
    /// A deployment ended.
    Done(DeploymentId, DeploymentState),
    /// The blob store did not answer; this one has to wait.
    Deferred(DeploymentId, BlobError),
    /// Something of ours went wrong with this one, and the connection still lives.
    Broken(DeploymentId, anyhow::Error),
}

/// Why a row is not admitted now.
enum Stop {
    Refusal(Refusal),
    /// It was built under another revision of the rules than ours.
    Rebuild,
    Later(BlobError),
    Broken(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Broken(error)
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
pub(crate) fn next(client: &mut Client, desk: &Desk, deferred: &[Uuid]) -> anyhow::Result<Looked> {
    let mut tx = client.transaction()?;
    let Some(row) = ledger::next_built(&mut tx, deferred)? else { return Ok(Looked::Idle) };
    let id = row.deployment;
    let result = end(tx, desk, &row);
    match result {
        Err(error) if !client.is_closed() && !ledger::is_contention(&error) => Ok(Looked::Broken(id, error)),
        other => other,
    }
}

/// Fails a deployment that went wrong again and again: it must end, and others must not wait for it.
pub(crate) fn give_up(client: &mut Client, id: DeploymentId) -> anyhow::Result<()> {
    let mut tx = client.transaction()?;
    if let Some(row) = ledger::built(&mut tx, id)? {
        let message = "the signer could not finish this deployment; its log tells why";
        refuse(&mut tx, &row, &Refusal::failed(codes::MF0909, message))?;
    }
    Ok(tx.commit()?)
}

fn end(mut tx: Transaction<'_>, desk: &Desk, row: &BuiltRow) -> anyhow::Result<Looked> {
    let watch = Watch::start();
    ledger::append_event(&mut tx, row.deployment, &Event::started(Stage::Sign))?;
    let state = match decide(&mut tx, desk, row, &watch) {
        Ok(()) => DeploymentState::Admitted,
        Err(Stop::Refusal(refusal)) => {
            refuse(&mut tx, row, &refusal)?;
            refusal.state
        }
        Err(Stop::Rebuild) => {
            ledger::rebuild(&mut tx, row, POLICY_REVISION)?;
            ledger::append_event(
                &mut tx,
                row.deployment,
                &Event::state(Stage::Sign, DeploymentState::Received),
            )?;
            DeploymentState::Received
        }
        Err(Stop::Later(error)) => return Ok(Looked::Deferred(row.deployment, error)),
        Err(Stop::Broken(error)) => return Err(error),
    };
    tx.commit()?;
    Ok(Looked::Done(row.deployment, state))
}

fn decide(tx: &mut Transaction<'_>, desk: &Desk, row: &BuiltRow, watch: &Watch) -> Result<(), Stop> {
    let claim = accept_claim(tx, row)?;
    // Once for each revision of ours: a builder that goes on with other rules is refused after that.
    if claim.policy_revision != POLICY_REVISION && row.rebuild_for.as_deref() != Some(POLICY_REVISION) {
        return Err(Stop::Rebuild);
    }
    let upload = fetch(desk, &row.source_digest, ARCHIVE.upload_bytes_max)?;
    let artifact = fetch(desk, &claim.artifact, BINARY.file_bytes_max)?;
    let allowlist = ledger::hold_allowlist(tx, &row.tenant, &claim.toolchain)?;
    let case = Case { upload: upload.into(), artifact: &artifact, claim: &claim, allowlist: &allowlist };
    let mut examined = examine(case)?;
    examined.declared.access.get_or_insert(desk.default_access);
    let version = ledger::next_version(tx, &row.tenant, &row.function)?;
    let admission = admission(row, &claim, examined, version, allowlist.policy_version);
    let envelope = sign_and_check(&desk.keys.statements, &admission)?;
    let digest = Digest::of(envelope.as_bytes());
    ledger::admit(tx, &SignedStatement { admission: &admission, digest, envelope: &envelope })?;
    ledger::append_event(tx, row.deployment, &watch.finished())?;
    let admitted = Event { version: Some(version), ..Event::state(Stage::Sign, DeploymentState::Admitted) };
    Ok(ledger::append_event(tx, row.deployment, &admitted)?)
}

/// The claim, if the row may be signed at all: committed under the highest token, built by an
/// accepted toolchain, not taken back.
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

fn fetch(desk: &Desk, digest: &Digest, bytes_max: u64) -> Result<bytes::Bytes, Stop> {
    desk.runtime.block_on(desk.blobs.get(digest, bytes_max)).map_err(|error| match error.code() {
        Some(code) => Refusal::failed(code, error.to_string()).into(),
        None => Stop::Later(error),
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

fn refuse(tx: &mut Transaction<'_>, row: &BuiltRow, refusal: &Refusal) -> anyhow::Result<()> {
    let diagnostics: Vec<Diagnostic> = refusal.findings.iter().map(Diagnostic::from).collect();
    ledger::refuse(tx, row, refusal.state, &diagnostics)?;
    ledger::append_event(tx, row.deployment, &Event::diagnostics(Stage::Sign, diagnostics))?;
    ledger::append_event(tx, row.deployment, &Event::state(Stage::Sign, refusal.state))
}

fn admission(
    row: &BuiltRow,
    claim: &BuildClaim,
    examined: Examined,
    version: VersionNumber,
    policy_version: i64,
) -> Admission {
    let by = |by| move |name: &str| Check { name: name.to_owned(), by };
    let signer = CHECKS.iter().copied().map(by(Checker::Signer));
    let builder = claim.checks.iter().map(String::as_str).map(by(Checker::BuilderOnly));
    let checks = signer.chain(builder).collect();
    let provenance = provenance(row, claim, &examined);
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
        declared: Some(Declared { access: None, ..examined.declared }),
        fields: Some(Fields::new(examined.declared.access())),
        source_upload: row.source_digest,
        source_tree: examined.source_tree,
        toolchain: claim.toolchain,
        abi_version: claim.abi_version,
        lints: claim.lints.clone(),
        policy_version,
        policy_revision: POLICY_REVISION.to_owned(),
        decisions: examined.decisions,
        elf_facts: examined.elf_facts,
        cage_level: claim.cage_level,
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
