//! Signed documents, made with real keys through the same code as the signer's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use chrono::{TimeDelta, Utc};
use mfaas_attest::{
    Admission, AuditHead, BuildDefinition, BuildMetadata, Builder, CallClaims, CallKey, Declared, Fields,
    KeyList, ListedKey, PrivateKey, Provenance, Purpose, RunDetails, SandboxLevel, ServedFunction,
    ServedVersion, ServingSet, Statement, sign, sign_call, tree_of,
};
use mfaas_ident::{
    Access, AliasName, Budget, CallScope, Class, DeploymentId, Digest, Epoch, FunctionName, HandlerPath,
    Isolation, MemoryLimit, PersonName, TenantName, ToolchainId, VersionNumber,
};

use crate::server::Records;

/// Anybody may call it, and it declares nothing else.
pub const PUBLIC: Declared = Declared {
    idempotent: false,
    isolation: Isolation::Shared,
    access: Some(Access::Public),
    class: Class::Micro,
};

/// Every shard that a set of this process leads to.
static SHARDS: Mutex<BTreeMap<Digest, String>> = Mutex::new(BTreeMap::new());

/// A signer with its keys.
pub struct Signer {
    pub root: PrivateKey,
    pub online: PrivateKey,
    /// Signs call tokens. Sets without keys are published with this one.
    pub calls: PrivateKey,
}

impl Signer {
    pub fn new() -> Self {
        let [root, online, calls] = std::array::from_fn(|_| PrivateKey::generate().unwrap());
        Self { root, online, calls }
    }

    /// A call token of `acme`.
    pub fn token(&self, functions: &[&str]) -> String {
        token(&self.calls, "acme", functions, |_| ())
    }

    /// The same installation with another online key.
    pub fn with_another_key(&self) -> Self {
        let copy = |key: &PrivateKey| PrivateKey::from_pem(&key.to_pem().unwrap()).unwrap();
        Self { root: copy(&self.root), online: PrivateKey::generate().unwrap(), calls: copy(&self.calls) }
    }

    pub fn key_list(&self) -> Vec<u8> {
        self.key_list_of(1)
    }

    pub fn key_list_of(&self, version: u32) -> Vec<u8> {
        let (public, not_after) = (self.online.public(), Utc::now() + TimeDelta::hours(1));
        let row = |purpose| ListedKey { keyid: public.id(), public, purpose, not_after };
        let keys = vec![row(Purpose::Artifact), row(Purpose::ServingSet)];
        sign(&KeyList { version, issued_at: Utc::now(), expires_at: None, root: None, keys }, &[&self.root])
            .unwrap()
    }

    /// Puts artifact and statement of `acme/{name}@{version}` where the node fetches them.
    pub fn admit(
        &self,
        records: &mut Records,
        name: &str,
        version: u32,
        artifact: &[u8],
        budget_us: u64,
    ) -> ServedVersion {
        let declared = Some(PUBLIC);
        self.admit_as(records, "acme", name, declared, &served(version, artifact, budget_us))
    }

    /// The same for what `served` names, of another tenant, declaring something. Without a declaration the
    /// statement is one of the older version.
    pub fn admit_as(
        &self,
        records: &mut Records,
        tenant: &str,
        name: &str,
        declared: Option<Declared>,
        served: &(ServedVersion, Vec<u8>),
    ) -> ServedVersion {
        let (served, artifact) = served;
        let statement = Statement::new(Admission {
            tenant: TenantName::parse(tenant).unwrap(),
            declared: declared.map(|declared| Declared { access: None, class: Class::Micro, ..declared }),
            fields: declared.map(|declared| Fields::new(declared.access()).with_class(declared.class)),
            ..admission(name, served)
        });
        let statement = sign(&statement, &[&self.online]).unwrap();
        let (budget_us, memory_bytes) = ServedVersion::told(served.budget_us, served.memory_bytes);
        let statement_digest = Digest::of(&statement);
        let served = ServedVersion { statement: statement_digest, budget_us, memory_bytes, ..served.clone() };
        records.blobs.insert(served.digest, artifact.clone());
        records.blobs.insert(served.statement, statement);
        served
    }

    /// Signs a set and puts it where the node asks for it.
    pub fn publish(&self, records: &mut Records, set: &ServingSet) {
        let mut set = set.clone();
        if set.call_keys.is_empty() {
            set.call_keys = vec![listed(&self.calls)];
        }
        let shards = SHARDS.lock().unwrap();
        records.blobs.extend(shards.iter().map(|(digest, bytes)| (*digest, bytes.clone().into_bytes())));
        records.set = Some(sign(&set, &[&self.online]).unwrap());
    }
}

/// The key as a set names it.
pub fn listed(key: &PrivateKey) -> CallKey {
    let public = key.public();
    CallKey { keyid: public.id(), public, not_after: Utc::now() + TimeDelta::hours(25) }
}

/// A call token, changed by `change`.
pub fn token(
    key: &PrivateKey,
    tenant: &str,
    functions: &[&str],
    change: impl FnOnce(&mut CallClaims),
) -> String {
    let mut claims = CallClaims {
        tenant: TenantName::parse(tenant).unwrap(),
        caller: PersonName::parse("tests").unwrap(),
        functions: CallScope::parse(functions).unwrap(),
        issued_at: Utc::now(),
        expires_at: Utc::now() + TimeDelta::hours(1),
        id: "1".to_owned(),
        rate: None,
        concurrency: None,
    };
    change(&mut claims);
    sign_call(&claims, key).unwrap()
}

/// A version with these bytes, about which nothing is stated yet.
pub fn served(version: u32, artifact: &[u8], budget_us: u64) -> (ServedVersion, Vec<u8>) {
    let served = ServedVersion {
        version: VersionNumber::new(version).unwrap(),
        digest: Digest::of(artifact),
        statement: Digest::of(b""),
        budget_us: Budget::from_micros(budget_us).unwrap(),
        memory_bytes: MemoryLimit::DEFAULT,
    };
    (served, artifact.to_vec())
}

/// A set of these functions, valid for twelve hours.
pub fn set(epoch: u64, functions: &[ServedFunction]) -> ServingSet {
    let (root, shards) = tree_of(functions.to_vec()).unwrap();
    SHARDS.lock().unwrap().extend(shards);
    ServingSet {
        version: ServingSet::FORMAT,
        epoch: Epoch(epoch),
        key_list_version: 0,
        issued_at: Utc::now(),
        expires_at: Utc::now() + TimeDelta::hours(12),
        accepted_toolchains: BTreeSet::from([toolchain()]),
        abi_versions: BTreeSet::from([mfaas_abi::ABI_VERSION]),
        required_lints: mfaas_rules::profiles::lints::required().map(str::to_owned).collect(),
        functions: root,
        call_keys: Vec::new(),
        revoked_calls: None,
        audit_head: AuditHead::START,
    }
}

/// A function with these versions, `live` on `live`.
pub fn function(name: &str, versions: &[&ServedVersion], live: u32) -> ServedFunction {
    ServedFunction {
        tenant: TenantName::parse("acme").unwrap(),
        name: FunctionName::parse(name).unwrap(),
        aliases: BTreeMap::from([(AliasName::live(), VersionNumber::new(live).unwrap())]),
        versions: versions.iter().map(|version| (*version).clone()).collect(),
        revoked: BTreeSet::new(),
        resources: BTreeMap::new(),
    }
}

fn toolchain() -> ToolchainId {
    ToolchainId(Digest::of(b"toolchain"))
}

fn admission(name: &str, served: &ServedVersion) -> Admission {
    Admission {
        tenant: TenantName::parse("acme").unwrap(),
        function: FunctionName::parse(name).unwrap(),
        version: served.version,
        deployment: DeploymentId(uuid::Uuid::nil()),
        artifact: served.digest,
        artifact_bytes: 1,
        handler: HandlerPath::parse("handle").unwrap(),
        budget_us: served.budget_us,
        memory_bytes: served.memory_bytes,
        declared: None,
        fields: None,
        source_upload: Digest::of(b"upload"),
        source_tree: Digest::of(b"tree"),
        toolchain: toolchain(),
        abi_version: mfaas_abi::ABI_VERSION,
        lints: mfaas_rules::profiles::lints::required().map(str::to_owned).collect(),
        policy_version: 1,
        policy_revision: "test".to_owned(),
        decisions: Vec::new(),
        elf_facts: Digest::of(b"facts"),
        sandbox_level: SandboxLevel::Full,
        checks: Vec::new(),
        bindings: Vec::new(),
        calls: Vec::new(),
        provenance: Provenance {
            build_definition: BuildDefinition {
                build_type: Provenance::BUILD_TYPE.to_owned(),
                external_parameters: BTreeMap::new(),
                internal_parameters: BTreeMap::new(),
                resolved_dependencies: Vec::new(),
            },
            run_details: RunDetails {
                builder: Builder { id: Provenance::BUILDER_ID.to_owned() },
                metadata: BuildMetadata {
                    invocation_id: "test".to_owned(),
                    started_on: Utc::now(),
                    finished_on: Utc::now(),
                },
            },
        },
    }
}
