//! The artifact statement: in-toto Statement v1 with the predicate `admission/v4`, or one of the older three.
//!
//! One statement, one predicate, one signature: the admission decision with the SLSA provenance
//! as its field `provenance`. Versioned by the predicate type; a reader that meets a field it does
//! not know refuses, because an unknown field may be a restriction. v2 is v1 and what the function
//! declares; a statement of v1 has no such field, and its function declared nothing. v3 is v2 and who may call the function;
//! where that is not stated, its tenant may. v4 says that in `fields`, where what comes later will be, critical or optional
//! ([`Fields`]); it is the last version. What data a function may reach is among the fields; the
//! older `bindings` and `calls` must be empty.

use std::collections::BTreeMap;

use mfaas_ident::{
    Access, Assets, Bindings, Budget, Callers, Class, CrateName, DeploymentId, Digest, FunctionName,
    HandlerPath, Isolation, MemoryLimit, TenantName, ToolchainId, VersionNumber,
};

use crate::{Fields, Payload, Provenance, Purpose};

/// The predicate type of statements that are written now.
pub const ADMISSION_V4: &str = "https://mfaas.dev/attestation/admission/v4";
/// The predicate type of statements from before fields were critical or optional.
pub const ADMISSION_V3: &str = "https://mfaas.dev/attestation/admission/v3";
/// The predicate type of statements from before it was stated who may call a function.
pub const ADMISSION_V2: &str = "https://mfaas.dev/attestation/admission/v2";
/// The predicate type of statements from before functions could declare anything.
pub const ADMISSION_V1: &str = "https://mfaas.dev/attestation/admission/v1";
const STATEMENT_V1: &str = "https://in-toto.io/Statement/v1";

/// An in-toto statement about one artifact.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    /// Exactly one.
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    /// The decision.
    pub predicate: Admission,
}

/// What a statement is about.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// `tenant/function@version`.
    pub name: String,
    /// `sha256` and nothing else.
    pub digest: BTreeMap<String, Digest>,
}

/// What isolates the compiler, or a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Landlock, seccomp and limits, but no namespaces.
    Landlock,
    /// Namespaces, pivoted root, landlock, seccomp, limits.
    Full,
}

/// Why, by whom, and from what this artifact was admitted.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Owner.
    pub tenant: TenantName,
    /// Function.
    pub function: FunctionName,
    /// Version.
    pub version: VersionNumber,
    /// The upload that it came from.
    pub deployment: DeploymentId,
    /// SHA-256 of the shared object.
    pub artifact: Digest,
    /// Size of the shared object in bytes.
    pub artifact_bytes: u64,
    /// Where the handler is.
    pub handler: HandlerPath,
    /// CPU time per invocation, µs.
    pub budget_us: Budget,
    /// Arena, bytes.
    pub memory_bytes: MemoryLimit,
    /// What the function declares; absent in v1 alone, where it means the default.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub declared: Option<Declared>,
    /// What not every release knows; absent before v4.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub fields: Option<Fields>,
    /// SHA-256 of the upload as the server recorded it, before any builder saw it.
    pub source_upload: Digest,
    /// Digest over the unpacked tree, recomputed by the signer.
    pub source_tree: Digest,
    /// What compiled it.
    pub toolchain: ToolchainId,
    /// ABI of the shim inside.
    pub abi_version: u32,
    /// Lints at `forbid`.
    pub lints: Vec<String>,
    /// Version of the allowlist at the moment of signing.
    pub policy_version: i64,
    /// Revision of the rules at the moment of signing.
    pub policy_revision: String,
    /// Allowlist decisions that the artifact rests on.
    pub decisions: Vec<DecisionUsed>,
    /// Digest of the ELF facts as the signer gathered them.
    pub elf_facts: Digest,
    /// What held the compiler.
    #[serde(rename = "cage_level")]
    pub sandbox_level: SandboxLevel,
    /// Every check that passed, and who made it.
    pub checks: Vec<Check>,
    /// Empty: what data the function may reach is among the fields.
    pub bindings: Vec<serde_json::Value>,
    /// Reserved: functions that it may call. Empty.
    pub calls: Vec<serde_json::Value>,
    /// SLSA v1 provenance.
    pub provenance: Provenance,
}

/// What a function says about its calls, from its manifest. The default is what a function gets that
/// says nothing: no call runs twice, and workers are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// Running a call a second time does no harm: a node may, when the worker died with the first.
    pub idempotent: bool,
    /// Which workers may run it. A node that cannot give what is asked for does not run it.
    pub isolation: Isolation,
    /// Who may call it, the site's default filled in; in statements, present in v3 alone.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Its class; in statements among their fields alone.
    #[serde(default, skip_serializing_if = "Class::is_default")]
    pub class: Class,
}

impl Declared {
    /// Who may call it. A statement that does not say is older than the question: the tenant may.
    pub fn access(&self) -> Access {
        self.access.unwrap_or(Access::Tenant)
    }
}

/// A field that may be absent, but not empty: `null` would be a second way to write its absence.
fn present<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: serde::Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    T::deserialize(from).map(Some)
}

/// One allowlist decision, as it stood when it was used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionUsed {
    /// Crate.
    pub name: CrateName,
    /// Exact version, semver.
    pub version: String,
    /// SHA-256 of the crate file, hexadecimal.
    pub checksum: String,
    /// The principal who allowed it.
    pub decided_by: String,
}

/// A check that passed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// For example `lexer`, `elf`, `expansion`.
    pub name: String,
    /// Whose word it is.
    pub by: Checker,
}

/// Who made a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checker {
    /// The signer made or repeated it from the blobs.
    Signer,
    /// Only the builder saw it; a taken-over builder could have lied.
    BuilderOnly,
}

impl Statement {
    /// The statement about the artifact that `predicate` names.
    pub fn new(predicate: Admission) -> Self {
        Self {
            kind: STATEMENT_V1.to_owned(),
            subject: vec![predicate.subject()],
            predicate_type: predicate.predicate_type().to_owned(),
            predicate,
        }
    }
}

impl Admission {
    /// What the function declares, wherever this version of the statement says it.
    pub fn declares(&self) -> Declared {
        let declared = self.declared.unwrap_or_default();
        let access = self.fields.as_ref().and_then(Fields::access);
        let class = self.fields.as_ref().and_then(Fields::class).unwrap_or_default();
        Declared { access: access.or(declared.access), class, ..declared }
    }

    /// The other tenants whose functions may call the function.
    pub fn callers(&self) -> Callers {
        self.fields.as_ref().and_then(Fields::callers).unwrap_or_default()
    }

    /// What data the function may reach.
    pub fn bound(&self) -> Bindings {
        self.fields.as_ref().and_then(Fields::bindings).unwrap_or_default()
    }

    /// The bytes of each asset that it binds.
    pub fn assets(&self) -> Assets {
        self.fields.as_ref().and_then(Fields::assets).unwrap_or_default()
    }

    /// The type that its fields make it.
    fn predicate_type(&self) -> &'static str {
        match (&self.fields, self.declared) {
            (Some(_), _) => ADMISSION_V4,
            (None, Some(Declared { access: Some(_), .. })) => ADMISSION_V3,
            (None, Some(Declared { access: None, .. })) => ADMISSION_V2,
            (None, None) => ADMISSION_V1,
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            name: format!("{}/{}@{}", self.tenant, self.function, self.version),
            digest: BTreeMap::from([("sha256".to_owned(), self.artifact)]),
        }
    }
}

impl Payload for Statement {
    const TYPE: &'static str = "application/vnd.in-toto+json";
    const PURPOSE: Purpose = Purpose::Artifact;
    const ENVELOPE_BYTES_MAX: usize = 1 << 20;

    fn check(&self) -> Result<(), String> {
        if self.kind != STATEMENT_V1 {
            return Err("not an in-toto Statement v1".to_owned());
        }
        match self.predicate_type.as_str() {
            ADMISSION_V1 | ADMISSION_V2 | ADMISSION_V3 | ADMISSION_V4
                if self.predicate_type == self.predicate.predicate_type() => {}
            ADMISSION_V1 => return Err("admission/v1 declares nothing, and this does".to_owned()),
            ADMISSION_V2 => return Err("admission/v2 without what it declares, or with more".to_owned()),
            ADMISSION_V3 => {
                return Err("admission/v3 without who may call the function, or with more".to_owned());
            }
            ADMISSION_V4 => return Err("admission/v4 without its fields".to_owned()),
            _ => return Err("a predicate type other than admission/v1 to v4".to_owned()),
        }
        if let Some(fields) = &self.predicate.fields {
            fields.check()?;
            // Who may call is said once.
            if !matches!(self.predicate.declared, Some(Declared { access: None, .. })) {
                return Err("admission/v4 without what the function declares, or with more".to_owned());
            }
        }
        if self.predicate.declared.is_some_and(|declared| !declared.class.is_default()) {
            return Err("the class of a function is said among the fields".to_owned());
        }
        let class = self.predicate.declares().class;
        let (budget, memory) = (self.predicate.budget_us, self.predicate.memory_bytes);
        if budget > class.budget_max() || memory > class.memory_max() {
            return Err(format!("{budget} and {memory} are more than a function of class {class} may have"));
        }
        if self.subject != [self.predicate.subject()] {
            return Err("the subject is not what the predicate admits".to_owned());
        }
        if !self.predicate.bindings.is_empty() || !self.predicate.calls.is_empty() {
            return Err("bindings and calls are reserved".to_owned());
        }
        Ok(())
    }
}
