//! `mfaas verify`: believes nobody but the pinned root. Fetches artifact, statement and key
//! lists and checks that they belong together, on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mfaas_attest::{Statement, TrustedRoot, Verified};
use mfaas_ident::{
    Access, Bindings, Callers, Class, Digest, FunctionName, FunctionRef, Isolation, Selector, VersionNumber,
};
use mfaas_wire::{AliasView, Page, VersionView, bindings_text, callers_text};
use serde::Serialize;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::root::trusted_root;
use crate::settings::Context;

/// Check signature, digest and statement of a version, or of an artifact in a file.
///
/// For example: `mfaas verify hello@3`
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// NAME, NAME@3, NAME@live, or the path of an artifact (a file that exists).
    #[arg(value_name = "NAME[@VERSION]|FILE")]
    what: String,
}

/// What was proved.
#[derive(Debug, Serialize)]
struct Proof {
    name: String,
    artifact: Digest,
    statement: Digest,
    signed_by: String,
    key_list_version: u32,
    toolchain: String,
    source_tree: Digest,
    policy_version: i64,
    idempotent: bool,
    isolation: Isolation,
    access: Access,
    #[serde(skip_serializing_if = "Callers::is_empty")]
    callers: Callers,
    class: Class,
    #[serde(skip_serializing_if = "Bindings::is_empty")]
    bindings: Bindings,
    /// What the statement says beyond what this release knows; nothing follows from it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    other: BTreeMap<String, serde_json::Value>,
}

impl Proof {
    /// For people.
    fn text(&self) -> String {
        let Self { name, artifact, signed_by, key_list_version, toolchain, source_tree, .. } = self;
        let mut text = format!(
            "{name} is what was signed\n  artifact   {artifact}\n  signed by  key {signed_by} of key list {key_list_version}\n  toolchain  {toolchain}\n  source     {source_tree}\n  isolation  {}\n  idempotent {}\n  callers    {}\n  class      {}\n  data       {}",
            self.isolation,
            self.idempotent,
            callers_text(self.access, &self.callers),
            self.class,
            bindings_text(&self.bindings)
        );
        for (field, value) in &self.other {
            let value = mfaas_ident::sanitise_line(&value.to_string(), 200);
            text.push_str(&format!("\n  {field} {value} (not known to this release)"));
        }
        text
    }
}

impl Verify {
    /// Fetches, checks, tells.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        let (artifact, named) = self.artifact(&client).await?;
        let digest = Digest::of(&artifact);
        // Two versions of one source share an artifact and have a statement each.
        let which = named
            .as_ref()
            .map_or_else(String::new, |(_, view)| format!("?statement={}", view.statement_digest));
        let statement_bytes =
            client.get_bytes(&format!("/v1/artifacts/{digest}/statement{which}")).await.map_err(unknown)?;
        let wanted = named.map(|(function, view)| (function, view.version));
        // Last: what was fetched before is vouched for by this list or an earlier one.
        let root = trusted_root(context, &client).await?;
        let proof = prove(&root, &artifact, &statement_bytes, wanted.as_ref())?;
        context.screen.result(&proof, || proof.text())?;
        Ok(Exit::Ok)
    }

    /// The bytes, and the function's version that they should be.
    async fn artifact(
        &self,
        client: &Client,
    ) -> Result<(Vec<u8>, Option<(FunctionName, VersionView)>), Failure> {
        let path = Path::new(&self.what);
        if path.is_file() {
            return Ok((read(path)?, None));
        }
        let function: FunctionRef = self.what.parse().map_err(|e: mfaas_ident::ParseError| {
            Failure::Usage(format!("{e}, and there is no such file"))
        })?;
        let version = resolve(client, &function).await?;
        let view: VersionView =
            client.get(&format!("/v1/functions/{}/versions/{version}", function.name)).await?;
        let bytes = client.get_bytes(&format!("/v1/artifacts/{}", view.artifact_digest)).await?;
        if Digest::of(&bytes) != view.artifact_digest {
            return Err(Failure::Unverified(format!(
                "the registry names artifact {} and delivers {}",
                view.artifact_digest,
                Digest::of(&bytes)
            )));
        }
        Ok((bytes, Some((function.name, view))))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(Failure::io("cannot read", PathBuf::from(path)))
}

/// An artifact without a statement is not "missing": it is not ours.
fn unknown(failure: Failure) -> Failure {
    match failure {
        Failure::Problem(problem) if problem.status == 404 => {
            Failure::Unverified("the registry has no statement for these bytes".to_owned())
        }
        other => other,
    }
}

async fn resolve(client: &Client, function: &FunctionRef) -> Result<VersionNumber, Failure> {
    let alias = match &function.selector {
        Some(Selector::Version(version)) => return Ok(*version),
        Some(Selector::Alias(alias)) => alias.clone(),
        None => mfaas_ident::AliasName::live(),
    };
    let page: Page<AliasView> = client.get(&format!("/v1/functions/{}/aliases", function.name)).await?;
    page.items
        .iter()
        .find(|view| view.alias == alias)
        .map(|view| view.version)
        .ok_or_else(|| Failure::Usage(format!("{} has no alias {alias}", function.name)))
}

/// The whole check, without a network: root → key list → statement → artifact.
fn prove(
    root: &TrustedRoot,
    artifact: &[u8],
    statement_bytes: &[u8],
    wanted: Option<&(FunctionName, VersionNumber)>,
) -> Result<Proof, Failure> {
    let unverified = |error: mfaas_attest::AttestError| Failure::Unverified(error.to_string());
    let trust = root.trust(chrono::Utc::now());
    let statement: Verified<Statement> = mfaas_attest::verify(statement_bytes, &trust).map_err(unverified)?;
    let admission = &statement.get().predicate;
    let digest = Digest::of(artifact);
    if admission.artifact != digest {
        return Err(Failure::Unverified(format!(
            "the statement is about {}, the artifact is {digest}",
            admission.artifact
        )));
    }
    if let Some((function, version)) = wanted
        && (&admission.function, admission.version) != (function, *version)
    {
        return Err(Failure::Unverified(format!(
            "the statement is about {}@{}, not {function}@{version}",
            admission.function, admission.version
        )));
    }
    let declared = admission.declares();
    Ok(Proof {
        name: format!("{}/{}@{}", admission.tenant, admission.function, admission.version),
        artifact: digest,
        statement: statement.digest(),
        signed_by: statement.key().0.short(),
        key_list_version: root.version(),
        toolchain: admission.toolchain.to_string(),
        source_tree: admission.source_tree,
        policy_version: admission.policy_version,
        idempotent: declared.idempotent,
        isolation: declared.isolation,
        access: declared.access(),
        callers: admission.callers(),
        class: declared.class,
        bindings: admission.bound(),
        other: admission.fields.as_ref().map_or_else(BTreeMap::new, |fields| fields.optional().clone()),
    })
}

#[cfg(test)]
mod tests;
