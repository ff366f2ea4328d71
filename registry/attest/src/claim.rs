//! What a builder says it did. Nobody believes it: the signer repeats what can be repeated and
//! marks the rest as seen by the builder only.

use mfaas_ident::{Bindings, Budget, Digest, HandlerPath, MemoryLimit, ToolchainId};

use crate::{DecisionUsed, Declared, SandboxLevel};

/// The builder's record of a finished build; stored with the build, compared by the signer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildClaim {
    /// SHA-256 of the shared object, which is in the blob store.
    pub artifact: Digest,
    /// Its size in bytes.
    pub artifact_bytes: u64,
    /// Digest over the unpacked source tree, as `unpack` computes it.
    pub source_tree: Digest,
    /// From the manifest, defaults filled in.
    pub handler: HandlerPath,
    /// From the manifest, defaults filled in.
    pub budget_us: Budget,
    /// From the manifest, defaults filled in.
    pub memory_bytes: MemoryLimit,
    /// From the manifest, defaults filled in, but for who may call: what a silent manifest means there the signer alone says.
    pub declared: Declared,
    /// From the manifest, and what the handler takes: the compiler has compared them.
    #[serde(default, skip_serializing_if = "Bindings::is_empty")]
    pub bindings: Bindings,
    /// What compiled it.
    pub toolchain: ToolchainId,
    /// The ABI version of the shim that was linked in.
    pub abi_version: u32,
    /// Lints that were forbidden while compiling, for example `unsafe_code`.
    pub lints: Vec<String>,
    /// `rules::POLICY_REVISION` of the builder.
    pub policy_revision: String,
    /// Version of the allowlist snapshot that it decided with.
    pub policy_version: i64,
    /// Every crate that was linked in, with the decision that let it.
    pub decisions: Vec<DecisionUsed>,
    /// What held the compiler.
    #[serde(rename = "cage_level")]
    pub sandbox_level: SandboxLevel,
    /// [`BuildClaim::CHECKS`]; all of them passed.
    pub checks: Vec<String>,
}

impl BuildClaim {
    /// The checks that only a builder can make; every claim names all of them.
    pub const CHECKS: [&'static str; 5] =
        ["expansion", "compiler_lints", "dep_info", "next_solver", "throwaway_load"];
}
