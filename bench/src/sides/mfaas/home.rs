//! What a node that knew a server has on its disk: a pinned root, a list of keys, a serving set,
//! statements and artifacts, all signed with keys of this run alone.
//!
//! The node verifies every piece of it as it verifies what a server gives, so nothing is loaded that
//! was not signed, inspected and of the right interface. Its server is an address at which nobody
//! listens: a node serves what it has while its server is away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{
    Admission, AuditHead, BuildDefinition, BuildMetadata, Builder, CallKey, Declared, Fields, KeyList,
    ListedKey, PrivateKey, Provenance, Purpose, RunDetails, SandboxLevel, ServedFunction, ServedVersion,
    ServingSet, ShardRef, Statement, sign, tree_of,
};
use mfaas_ident::{
    Access, AliasName, Binding, Bindings, Budget, Class, DataAccess, DeploymentId, Digest, Epoch,
    FunctionName, HandlerPath, MemoryLimit, ResourceName, TenantName, ToolchainId, VersionNumber,
};
use mfaas_rules::profiles::lints;

/// How long the keys and the serving set are valid: longer than any run.
const VALID: TimeDelta = TimeDelta::hours(12);
/// What a tenant calls its function that has one alone.
const FUNCTION: &str = "function";
/// What the artifact calls its compiler. The set accepts this one alone.
const TOOLCHAIN: &[u8] = b"the compiler of the benchmark's checkout";

/// A function of a tenant.
#[derive(Debug, Clone)]
pub(super) struct Deployed {
    /// Whose it is.
    pub(super) tenant: String,
    /// What it is called.
    pub(super) function: String,
    /// Its image.
    pub(super) image: Vec<u8>,
    /// CPU time of one call.
    pub(super) budget: Budget,
    /// Memory of one call.
    pub(super) memory: MemoryLimit,
    /// Which workers run it.
    pub(super) class: Class,
    /// What it reaches, and its tenant is granted.
    pub(super) bindings: Bindings,
}

impl Deployed {
    /// The one function of a tenant.
    pub(super) fn only(
        tenant: &str,
        image: Vec<u8>,
        class: Class,
        (budget, memory): (Budget, MemoryLimit),
    ) -> Self {
        let (tenant, function) = (tenant.to_owned(), FUNCTION.to_owned());
        Self { tenant, function, image, budget, memory, class, bindings: Bindings::new() }
    }

    /// One that answers in microseconds.
    pub(super) fn micro(tenant: &str, image: Vec<u8>, budget_us: u64) -> anyhow::Result<Self> {
        let limits = (Budget::from_micros(budget_us)?, MemoryLimit::DEFAULT);
        Ok(Self::only(tenant, image, Class::Micro, limits))
    }

    /// Where HTTP callers find it.
    pub(super) fn path(&self) -> String {
        format!("/f/{}/{}", self.tenant, self.function)
    }
}

/// A node's home with a function of each of some tenants. Removed with this value.
#[derive(Debug)]
pub(super) struct Home {
    directory: tempfile::TempDir,
    call_key: PrivateKey,
}

impl Home {
    /// Writes a home whose only functions are these.
    pub(super) fn with(deployed: &[Deployed]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("a directory for the node")?;
        let home = Self { directory, call_key: PrivateKey::generate()? };
        fs::create_dir_all(home.path("state/blobs")).context("make the node's state directory")?;
        home.write_identity()?;
        home.write_documents(deployed)?;
        Ok(home)
    }

    /// The key whose call tokens the node takes.
    pub(super) fn call_key(&self) -> &PrivateKey {
        &self.call_key
    }

    /// A file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The variables that every node reads. How many workers it has, and which, is left to whoever starts it.
    pub(super) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("MFAAS_NODE_NAME", "bench".into()),
            // The port that no program listens at (RFC 6335): connections are refused at once.
            ("MFAAS_SERVER", "https://127.0.0.1:1".into()),
            ("MFAAS_CA_FILE", self.path("ca.pem")),
            ("MFAAS_STATE_DIR", self.path("state")),
            ("MFAAS_INGRESS_LISTEN", "127.0.0.1:0".into()),
            ("MFAAS_ROOT_KEY_FILE", self.path("root.pub")),
            ("MFAAS_READY_FILE", self.path("ready.json")),
            ("MFAAS_LOG", "warn".into()),
        ]
    }

    /// A certificate of the node's own, which is the authority too: nobody is there to ask for it.
    fn write_identity(&self) -> anyhow::Result<()> {
        let own = rcgen::generate_simple_self_signed(Vec::new()).context("make a certificate")?;
        self.write("state/node.key", own.signing_key.serialize_pem().as_bytes())?;
        self.write("state/node.pem", own.cert.pem().as_bytes())?;
        self.write("ca.pem", own.cert.pem().as_bytes())
    }

    fn write_documents(&self, deployed: &[Deployed]) -> anyhow::Result<()> {
        let (root, online) = (PrivateKey::generate()?, PrivateKey::generate()?);
        let now = Utc::now();
        let mut functions = deployed
            .iter()
            .map(|deployed| self.write_function(deployed, &online, now))
            .collect::<anyhow::Result<Vec<_>>>()?;
        functions.sort_by(|one, other| (&one.tenant, &one.name).cmp(&(&other.tenant, &other.name)));
        self.write("root.pub", root.public().to_pem()?.as_bytes())?;
        self.write("state/key-list.dsse", &sign(&key_list(&online, now), &[&root])?)?;
        let (root, shards) = tree_of(functions)?;
        shards.values().try_for_each(|shard| self.write_blob(shard.as_bytes()))?;
        self.write("state/serving-set.dsse", &sign(&serving_set(root, &self.call_key, now), &[&online])?)
    }

    /// Writes a function's statement and artifact, and gives its entry of the serving set.
    fn write_function(
        &self,
        deployed: &Deployed,
        online: &PrivateKey,
        now: DateTime<Utc>,
    ) -> anyhow::Result<ServedFunction> {
        let tenant = TenantName::parse(&deployed.tenant)?;
        let mut served = version(deployed)?;
        let admission = admission(&tenant, &served, deployed, now)?;
        let statement = sign(&Statement::new(admission), &[online])?;
        served.statement = Digest::of(&statement);
        self.write_blob(&statement)?;
        self.write_blob(&deployed.image)?;
        Ok(ServedFunction {
            tenant,
            name: FunctionName::parse(&deployed.function)?,
            aliases: BTreeMap::from([(AliasName::live(), served.version)]),
            versions: vec![served],
            revoked: BTreeSet::new(),
            resources: granted(&deployed.bindings),
        })
    }

    fn write_blob(&self, bytes: &[u8]) -> anyhow::Result<()> {
        self.write(&format!("state/blobs/{}", Digest::of(bytes)), bytes)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        write(&self.path(name), bytes)
    }
}

/// What a tenant has to be granted for its function to reach what it binds.
fn granted(bindings: &Bindings) -> BTreeMap<ResourceName, DataAccess> {
    let resources = bindings.values().filter_map(Binding::resource);
    resources.map(|binding| (binding.resource.clone(), binding.access)).collect()
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}

/// The version without its statement, which names it and comes after it.
fn version(deployed: &Deployed) -> anyhow::Result<ServedVersion> {
    Ok(ServedVersion {
        version: VersionNumber::new(1).context("a version")?,
        digest: Digest::of(&deployed.image),
        statement: Digest::of(b""),
        // What a call gets is in the statement; a set says what every release can read.
        budget_us: deployed.budget.min(Budget::MICRO_MAX),
        memory_bytes: deployed.memory.min(MemoryLimit::MICRO_MAX),
    })
}

/// One key for statements and sets, as a site without a second one has.
fn key_list(online: &PrivateKey, now: DateTime<Utc>) -> KeyList {
    let public = online.public();
    let row = |purpose| ListedKey { keyid: public.id(), public, purpose, not_after: now + VALID };
    KeyList {
        version: 1,
        issued_at: now,
        expires_at: None,
        root: None,
        keys: vec![row(Purpose::Artifact), row(Purpose::ServingSet)],
    }
}

fn serving_set(functions: ShardRef, call_key: &PrivateKey, now: DateTime<Utc>) -> ServingSet {
    let public = call_key.public();
    ServingSet {
        version: ServingSet::FORMAT,
        epoch: Epoch(1),
        key_list_version: 0,
        issued_at: now,
        expires_at: now + VALID,
        accepted_toolchains: BTreeSet::from([toolchain()]),
        abi_versions: BTreeSet::from([mfaas_abi::ABI_VERSION]),
        required_lints: lints::required().map(str::to_owned).collect(),
        functions,
        call_keys: vec![CallKey { keyid: public.id(), public, not_after: now + VALID }],
        revoked_calls: None,
        audit_head: AuditHead::START,
    }
}

fn toolchain() -> ToolchainId {
    ToolchainId(Digest::of(TOOLCHAIN))
}

/// What a signer would state about the image. No upload was ever admitted here, so the digests of
/// source and facts are those of nothing.
fn admission(
    tenant: &TenantName,
    served: &ServedVersion,
    deployed: &Deployed,
    now: DateTime<Utc>,
) -> anyhow::Result<Admission> {
    let nothing = Digest::of(b"");
    Ok(Admission {
        tenant: tenant.clone(),
        function: FunctionName::parse(&deployed.function)?,
        version: served.version,
        deployment: DeploymentId(uuid::Uuid::nil()),
        artifact: served.digest,
        artifact_bytes: deployed.image.len() as u64,
        handler: HandlerPath::parse("handle")?,
        budget_us: deployed.budget,
        memory_bytes: deployed.memory,
        // Calls without a token and calls with one are of the same function.
        declared: Some(Declared::default()),
        fields: Some(
            Fields::new(Access::Public).with_class(deployed.class).with_bindings(&deployed.bindings),
        ),
        source_upload: nothing,
        source_tree: nothing,
        toolchain: toolchain(),
        abi_version: mfaas_abi::ABI_VERSION,
        lints: lints::required().map(str::to_owned).collect(),
        policy_version: 1,
        policy_revision: "benchmark".to_owned(),
        decisions: Vec::new(),
        elf_facts: nothing,
        sandbox_level: SandboxLevel::Full,
        checks: Vec::new(),
        bindings: Vec::new(),
        calls: Vec::new(),
        provenance: provenance(now),
    })
}

fn provenance(now: DateTime<Utc>) -> Provenance {
    Provenance {
        build_definition: BuildDefinition {
            build_type: Provenance::BUILD_TYPE.to_owned(),
            external_parameters: BTreeMap::new(),
            internal_parameters: BTreeMap::new(),
            resolved_dependencies: Vec::new(),
        },
        run_details: RunDetails {
            builder: Builder { id: Provenance::BUILDER_ID.to_owned() },
            metadata: BuildMetadata {
                invocation_id: "benchmark".to_owned(),
                started_on: now,
                finished_on: now,
            },
        },
    }
}
