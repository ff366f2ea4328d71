//! Documents for tests, signed with real keys through the same code as the signer's.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{
    Admission, AuditHead, BuildDefinition, BuildMetadata, Builder, Declared, Fields, KeyList, ListedKey,
    PrivateKey, Provenance, Purpose, RootKeys, RunDetails, SandboxLevel, ServedFunction, ServedVersion,
    ServingSet, Statement, TrustedRoot, sign, tree_of,
};
use mfaas_ident::{
    AliasName, Budget, DeploymentId, Digest, Epoch, FunctionName, HandlerPath, MemoryLimit, TenantName,
    ToolchainId, VersionNumber,
};

use crate::image::ImageKey;

/// A root and an online key.
pub(crate) struct Keys {
    pub(crate) root: PrivateKey,
    pub(crate) online: PrivateKey,
}

impl Keys {
    pub(crate) fn generate() -> Self {
        Self { root: PrivateKey::generate().unwrap(), online: PrivateKey::generate().unwrap() }
    }

    /// The signed list that trusts the online key for an hour.
    pub(crate) fn list(&self, version: u32) -> Vec<u8> {
        self.list_until(version, now() + TimeDelta::hours(1))
    }

    pub(crate) fn list_until(&self, version: u32, not_after: DateTime<Utc>) -> Vec<u8> {
        sign(&self.unsigned(version, None, not_after), &[&self.root]).unwrap()
    }

    /// A list that names its root, signed by these.
    pub(crate) fn list_of(&self, version: u32, root: RootKeys, by: &[&PrivateKey]) -> Vec<u8> {
        sign(&self.unsigned(version, Some(root), now() + TimeDelta::hours(1)), by).unwrap()
    }

    fn unsigned(&self, version: u32, root: Option<RootKeys>, not_after: DateTime<Utc>) -> KeyList {
        let public = self.online.public();
        let row = |purpose| ListedKey { keyid: public.id(), public, purpose, not_after };
        let keys = vec![row(Purpose::Artifact), row(Purpose::ServingSet)];
        KeyList { version, issued_at: now(), expires_at: None, root, keys }
    }

    /// What a node pins.
    pub(crate) fn pin(&self) -> TrustedRoot {
        TrustedRoot::of_key(self.root.public())
    }

    pub(crate) fn sign(&self, set: &ServingSet) -> Vec<u8> {
        sign(set, &[&self.online]).unwrap()
    }
}

/// The moment of every test.
pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

pub(crate) fn toolchain() -> ToolchainId {
    ToolchainId(Digest::of(b"toolchain"))
}

pub(crate) fn number(version: u32) -> VersionNumber {
    VersionNumber::new(version).unwrap()
}

/// An empty set of that epoch, issued now, valid for twelve hours.
pub(crate) fn set(epoch: u64) -> ServingSet {
    ServingSet {
        version: ServingSet::FORMAT,
        epoch: Epoch(epoch),
        key_list_version: 0,
        issued_at: now(),
        expires_at: now() + TimeDelta::hours(12),
        accepted_toolchains: BTreeSet::from([toolchain()]),
        abi_versions: BTreeSet::from([mfaas_abi::ABI_VERSION]),
        required_lints: mfaas_rules::profiles::lints::required().map(str::to_owned).collect(),
        functions: tree_of([]).unwrap().0,
        call_keys: Vec::new(),
        revoked_calls: None,
        audit_head: AuditHead::START,
    }
}

/// `acme/{name}@{version}` with an artifact that nobody has.
pub(crate) fn key(name: &str, version: u32) -> ImageKey {
    ImageKey {
        tenant: TenantName::parse("acme").unwrap(),
        function: FunctionName::parse(name).unwrap(),
        version: number(version),
        digest: Digest::of(format!("{name} {version}").as_bytes()),
        statement: Digest::of(b"no statement"),
        budget: Budget::DEFAULT,
        memory: MemoryLimit::DEFAULT,
    }
}

/// The function of a set with these versions, `live` on the last.
pub(crate) fn served(keys: &[&ImageKey]) -> ServedFunction {
    let versions = keys.iter().map(|key| ServedVersion {
        version: key.version,
        digest: key.digest,
        statement: key.statement,
        budget_us: key.budget,
        memory_bytes: key.memory,
    });
    let last = keys.last().unwrap();
    ServedFunction {
        tenant: last.tenant.clone(),
        name: last.function.clone(),
        aliases: BTreeMap::from([(AliasName::live(), last.version)]),
        versions: versions.collect(),
        revoked: BTreeSet::new(),
        resources: BTreeMap::new(),
    }
}

/// The admission that fits `key`.
pub(crate) fn admission(key: &ImageKey) -> Admission {
    Admission {
        tenant: key.tenant.clone(),
        function: key.function.clone(),
        version: key.version,
        deployment: DeploymentId(uuid::Uuid::nil()),
        artifact: key.digest,
        artifact_bytes: 1,
        handler: HandlerPath::parse("handle").unwrap(),
        budget_us: key.budget,
        memory_bytes: key.memory,
        declared: Some(Declared::default()),
        fields: Some(Fields::new(mfaas_ident::Access::Public)),
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
        provenance: provenance(),
    }
}

fn provenance() -> Provenance {
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
                invocation_id: "test".to_owned(),
                started_on: now(),
                finished_on: now(),
            },
        },
    }
}

/// A signed statement, and `key` naming it.
pub(crate) fn state(mut key: ImageKey, admission: Admission, signer: &PrivateKey) -> (ImageKey, Vec<u8>) {
    let envelope = sign(&Statement::new(admission), &[signer]).unwrap();
    key.statement = Digest::of(&envelope);
    (key, envelope)
}
