//! Requests for crates, reviews, votes, and what a revocation concerns.

use chrono::{DateTime, Utc};
use mfaas_ident::{
    AliasName, CrateName, DeploymentId, Digest, FunctionName, PersonName, TenantName, ToolchainId,
    VersionNumber,
};
use mfaas_rules::AllowedCrate;
use mfaas_rules::crate_facts::{AdvisorySet, TrialBuild};
use mfaas_rules::review::{HotspotState, ReviewState, Terms};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Body of a request for a crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestCrate {
    /// The crate.
    #[schema(value_type = schema::CrateName)]
    pub name: CrateName,
    /// Which versions would do, as in a manifest.
    #[schema(min_length = 1)]
    pub requirement: String,
    /// Features beside the default ones.
    #[serde(default)]
    #[schema(value_type = Vec<schema::FeatureName>, max_items = 64)]
    pub features: Vec<String>,
    /// Whether the default features are wanted.
    #[serde(default = "yes")]
    pub default_features: bool,
    /// People are to decide even about what ships with the product, or what the rules have admitted.
    #[serde(default, rename = "override", alias = "takeover")]
    pub overrides: bool,
}

fn yes() -> bool {
    true
}

/// The decisions that builds of one tenant are judged by, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AllowlistView {
    /// The compiler that they are for.
    #[schema(value_type = schema::Digest)]
    pub toolchain: ToolchainId,
    /// Grows with every decision.
    pub policy_version: i64,
    /// One row for each crate version that was decided about; texts are sanitised.
    #[schema(value_type = Vec<Object>)]
    pub crates: Vec<AllowedCrate>,
}

/// A request for a crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RequestView {
    /// Its number.
    pub id: i64,
    /// Whose function needs it.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// The deployment that waits for it; absent when a person asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub deployment: Option<DeploymentId>,
    /// Who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::PersonName>)]
    pub requested_by: Option<PersonName>,
    /// The crate.
    #[schema(value_type = schema::CrateName)]
    pub name: CrateName,
    /// The requirement as written, sanitised.
    pub requirement: String,
    /// Features asked for, sanitised.
    pub features: Vec<String>,
    /// Whether the default features are asked for, too.
    pub default_features: bool,
    /// `open`, `reviewing`, `building`, `ready`, `denied`, `failed` or `withdrawn`.
    pub status: String,
    /// The version that it came down to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Why it ended without a yes, sanitised.
    #[serde(default)]
    pub detail: String,
    /// Since when.
    pub created_at: DateTime<Utc>,
    /// The allowed version that is nearest to what is asked for; absent when none is allowed, and in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestView>,
    /// The crates that it comes down to; only in the answer about one request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberView>,
}

/// A version that could be used today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NearestView {
    /// The version.
    pub version: String,
    /// Its features, sanitised.
    pub features: Vec<String>,
    /// Who decided, sanitised; `seed` for what ships.
    pub decided_by: String,
}

/// One crate of what a request comes down to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// The crate.
    #[schema(value_type = schema::CrateName)]
    pub name: CrateName,
    /// Its version.
    pub version: String,
    /// From the crate that was asked for to this one.
    pub path: Vec<String>,
    /// The review that has to say yes; absent for what was allowed already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<i64>,
    /// Where that review stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ReviewState>)]
    pub state: Option<ReviewState>,
    /// How much that review has to read; absent until it was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<ReadingView>,
}

/// How much there is to read for a decision, in lines of what users compile, what the build machine runs, and the
/// manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadingView {
    /// Lines of the whole version; absent when its texts are not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// What changed since the nearest allowed version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<DeltaSizeView>,
    /// Why there is no delta, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_delta: Option<String>,
}

/// The size of a delta.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeltaSizeView {
    /// The version that it begins at.
    pub from: String,
    /// Lines that came.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// Files that differ.
    pub files: u64,
}

/// A review with what was said in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewView {
    /// Its number.
    pub id: i64,
    /// The crate.
    #[schema(value_type = schema::CrateName)]
    pub name: CrateName,
    /// Its version.
    pub version: String,
    /// SHA-256 of the `.crate` file.
    #[schema(value_type = schema::Digest)]
    pub checksum: Digest,
    /// Features that it is to be compiled with.
    pub features: Vec<String>,
    /// The compiler that it is for.
    pub toolchain: String,
    /// How many votes it takes.
    pub people: u32,
    /// The rules that made the suggestion.
    pub rules_revision: String,
    /// The suggestion with its reasons, as the rules made it.
    #[schema(value_type = Object)]
    pub judgement: serde_json::Value,
    /// How compiling it as it would be offered ended; absent for a review from before there were trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub trial: Option<TrialBuild>,
    /// The terms of the first yes.
    #[schema(value_type = Object)]
    pub terms: Terms,
    /// Where it stands.
    #[schema(value_type = schema::ReviewState)]
    pub state: ReviewState,
    /// The note that ended it, sanitised.
    #[serde(default)]
    pub reason: String,
    /// Since when.
    pub opened_at: DateTime<Utc>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<DateTime<Utc>>,
    /// Who asked.
    #[schema(value_type = Vec<schema::PersonName>)]
    pub requesters: Vec<PersonName>,
    /// Deployments that wait for it.
    pub waiting: u32,
    /// Who said what, oldest first.
    pub votes: Vec<VoteView>,
    /// What was found at its hotspots; only in the answer about one review.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hotspots: Vec<HotspotView>,
    /// What changed since the nearest version that is allowed; `null` without one, and in lists.
    #[serde(default)]
    pub delta: Option<DeltaView>,
    /// Why `delta` is `null`, one sentence; only in the answer about one review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_delta: Option<String>,
    /// How much there is to read without a delta; only in the answer about one review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<VolumeView>,
}

/// How much there is to read of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeView {
    /// Lines that users compile, that the build machine runs, and of the manifest.
    pub lines: u64,
    /// Files of them.
    pub files: u64,
    /// Lines of all other texts.
    pub other_lines: u64,
    /// Files of them.
    pub other_files: u64,
    /// Files that are no text or were not kept.
    pub unkept_files: u64,
}

/// What changed since a version that was decided about before. A file that could not be compared counts as gone
/// and come again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeltaView {
    /// That version.
    pub from: String,
    /// SHA-256 of its `.crate` file.
    #[schema(value_type = schema::Digest)]
    pub from_checksum: Digest,
    /// Who decided about it: people, `rules` and their revision, or `seed` for what ships.
    pub decided_by: String,
    /// When.
    pub decided_at: DateTime<Utc>,
    /// The tenant that it is allowed for; everybody when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TenantName>)]
    pub tenant: Option<TenantName>,
    /// A person or the rules of this site have looked at it: it does not merely ship.
    pub reviewed: bool,
    /// It is allowed to this moment. A revoked version is nothing to build on.
    pub stands: bool,
    /// Lines that came, of what users compile, what the build machine runs, and the manifest.
    pub added: u64,
    /// Lines of them that went.
    pub removed: u64,
    /// Files of them that differ.
    pub files: u64,
    /// Lines that came, of all other texts.
    pub other_added: u64,
    /// Lines of them that went.
    pub other_removed: u64,
    /// Files of them that differ.
    pub other_files: u64,
    /// Files of either version that are no text or were not kept, and so were not compared: the larger number.
    pub unkept_files: u64,
    /// The files that differ, the first by path.
    pub changes: Vec<FileDeltaView>,
    /// What the facts about both versions say differently: capabilities and dependencies.
    #[schema(value_type = Object)]
    pub facts: serde_json::Value,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileDeltaView {
    /// Path within the crate, sanitised.
    pub path: String,
    /// `added`, `removed` or `changed`.
    pub change: String,
    /// Lines that came.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// Why it was not compared; empty when it was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub whole: String,
}

/// A vote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VoteView {
    /// Whose.
    #[schema(value_type = schema::PersonName)]
    pub person: PersonName,
    /// For or against.
    pub approve: bool,
    /// Their note, sanitised.
    pub note: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// What a reviewer found at a hotspot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HotspotView {
    /// File, line, column and kind, sanitised.
    pub hotspot: String,
    /// What is there.
    #[schema(value_type = schema::HotspotState)]
    pub state: HotspotState,
    /// Why, sanitised.
    pub note: String,
    /// Who looked last.
    #[schema(value_type = schema::PersonName)]
    pub person: PersonName,
    /// When.
    pub at: DateTime<Utc>,
}

/// Body of a vote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CastVote {
    /// For or against.
    pub approve: bool,
    /// Why, 1 to 4,000 characters; deployers who are refused read it.
    #[schema(min_length = 1, max_length = 4_000)]
    pub note: String,
    /// The terms of a yes; those that stand already, or none, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    #[schema(value_type = Option<Object>)]
    pub terms: Option<Terms>,
}

/// Body of a note about a hotspot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkHotspot {
    /// File, line, column and kind.
    #[serde(alias = "spot")]
    #[schema(min_length = 1, max_length = 4_000)]
    pub hotspot: String,
    /// What is there.
    #[schema(value_type = schema::HotspotState)]
    pub state: HotspotState,
    /// Why, 2,000 characters at most.
    #[schema(max_length = 2_000)]
    #[serde(default)]
    pub note: String,
}

/// What a revocation does to what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RevocationSeverity {
    /// Nothing is built with it any more; what runs goes on.
    Block,
    /// Nodes unload every function that was built with it, too.
    Unload,
}

/// Body of a revocation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeCrate {
    /// What happens to what runs.
    pub severity: RevocationSeverity,
    /// Why, 1 to 4,000 characters; deployers who are refused read it.
    #[schema(min_length = 1, max_length = 4_000)]
    pub reason: String,
    /// Only say what it concerns.
    #[serde(default)]
    pub dry_run: bool,
}

/// What a revocation concerns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RevocationView {
    /// The crate.
    #[schema(value_type = schema::CrateName)]
    pub name: CrateName,
    /// Its version.
    pub version: String,
    /// False when nothing was changed.
    pub done: bool,
    /// Every version that was built with it.
    pub affected: Vec<AffectedView>,
}

/// A version that was built with a crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AffectedView {
    /// Owner.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// Function.
    #[schema(value_type = schema::FunctionName)]
    pub function: FunctionName,
    /// Version.
    #[schema(value_type = schema::VersionNumber)]
    pub version: VersionNumber,
    /// Its artifact.
    #[schema(value_type = schema::Digest)]
    pub artifact: Digest,
    /// The aliases that name it today.
    #[schema(value_type = Vec<schema::AliasName>)]
    pub aliases: Vec<AliasName>,
    /// True when nodes must not run it.
    pub revoked: bool,
}

/// Body of an import of advisories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportAdvisories {
    /// All of them; they take the place of what was imported before.
    #[serde(deserialize_with = "crate::object::required")]
    #[schema(value_type = Object)]
    pub set: AdvisorySet,
    /// What happens to what runs with a version that is refused now.
    pub severity: RevocationSeverity,
    /// Only answer with the advisory matches; change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What came of an import of advisories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImportView {
    /// False when nothing was changed.
    pub done: bool,
    /// How many there are.
    pub advisories: usize,
    /// How many files could not be read; each counts as a risk of the crate that it may be about.
    pub unread: usize,
    /// Every allowed version that one of them matches.
    pub matches: Vec<AdvisoryMatchView>,
}

/// What came of an import of audits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditsImported {
    /// How many there are.
    pub audits: usize,
    /// How many places could not be read.
    pub unread: usize,
}

/// An allowed version that an advisory matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdvisoryMatchView {
    /// The advisory's id.
    pub advisory: String,
    /// Its title, sanitised.
    pub title: String,
    /// The crate.
    #[schema(value_type = schema::CrateName)]
    pub name: CrateName,
    /// Its version.
    pub version: String,
    /// Everything that was built with it.
    pub affected: Vec<AffectedView>,
}

/// One row of the audit log as its hash covers it: SHA-256 over `length:field` (lengths in bytes) of the hash of the row before
/// in hexadecimal (64 zeros before the first), of the row's number, and of the fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditLink {
    /// The row's number; grows by one.
    #[schema(value_type = schema::RowId)]
    pub row: u64,
    /// Microseconds since 1970, role, actor, action, tenant, subject, detail.
    pub fields: [String; 7],
    /// What should come out.
    #[schema(value_type = schema::Digest)]
    pub hash: Digest,
}
