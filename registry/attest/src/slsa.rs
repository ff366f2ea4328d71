//! SLSA v1 provenance (<https://slsa.dev/spec/v1.0/provenance>), the fields we fill.
//!
//! It stands inside the admission predicate, field for field as the specification spells it, so
//! that a tool can lift it out; it is not a second statement, so the two can never disagree
//! about their subject or be mixed and matched.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use mfaas_ident::Digest;

/// The content of a `https://slsa.dev/provenance/v1` predicate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provenance {
    /// What was built, from what.
    pub build_definition: BuildDefinition,
    /// Who built it, when.
    pub run_details: RunDetails,
}

/// Inputs of the build.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildDefinition {
    /// [`Provenance::BUILD_TYPE`].
    pub build_type: String,
    /// What the tenant chose: tenant, function, handler.
    pub external_parameters: BTreeMap<String, String>,
    /// What we chose: policy revision, ABI version.
    pub internal_parameters: BTreeMap<String, String>,
    /// Source upload, source tree, toolchain and every crate used.
    pub resolved_dependencies: Vec<ResourceDescriptor>,
}

/// A thing with a name and a digest.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceDescriptor {
    /// For example `source-upload` or `pkg:cargo/serde@1.0.228`.
    pub uri: String,
    /// Algorithm to hexadecimal digits.
    pub digest: BTreeMap<String, String>,
}

/// The run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunDetails {
    /// Who is answerable.
    pub builder: Builder,
    /// Which run.
    pub metadata: BuildMetadata,
}

/// The platform that is answerable for the build.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Builder {
    /// [`Provenance::BUILDER_ID`].
    pub id: String,
}

/// Which run it was.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildMetadata {
    /// Deployment and fencing token, `<uuid>#<token>`.
    pub invocation_id: String,
    /// When the deployment was received.
    pub started_on: DateTime<Utc>,
    /// When the builder recorded the artifact.
    pub finished_on: DateTime<Utc>,
}

impl Provenance {
    /// The meaning of the parameters.
    pub const BUILD_TYPE: &'static str = "https://mfaas.dev/build/rustc-caged/v1";
    /// The one builder there is.
    pub const BUILDER_ID: &'static str = "https://mfaas.dev/builder/v1";
}

impl ResourceDescriptor {
    /// A thing named by its SHA-256.
    pub fn sha256(uri: impl Into<String>, digest: &Digest) -> Self {
        Self::with_checksum(uri, &digest.to_string())
    }

    /// A thing with a SHA-256 that came as text, such as a crate's checksum.
    pub fn with_checksum(uri: impl Into<String>, sha256: &str) -> Self {
        Self { uri: uri.into(), digest: BTreeMap::from([("sha256".to_owned(), sha256.to_owned())]) }
    }
}
