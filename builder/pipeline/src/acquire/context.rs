//! What the steps of acquiring work with: a toolchain, its cargo, a directory and a sandbox.

use mfaas_startup::{VariableError, Variables};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mfaas_ident::Digest;
use mfaas_rules::crate_facts::{
    CompilerVerdict, CrateFacts, CrateReport, FACTS_REVISION, KindFacts, Need, summarise,
};
use mfaas_unpack::CrateArchive;

use super::cargo::Cargo;
use super::download::{Download, download};
use super::published::published;
use super::resolve::{ResolvedCrate, Workspace};
use super::seed::write_seed;
use super::vendor::vendor;
use super::verdict::verdicts;
use crate::check::materials;
use crate::config::{self, CheckConfig};
use crate::deps::PackageKey;
use crate::error::BuilderError;
use crate::facts::{self, More, archive_facts, unread_archive};
use crate::sandbox::{Sandbox, SandboxMinimum};
use crate::toolchain::{TARGET, Toolchain};
use crate::workspace::InstanceDirectory;

/// What every crate's answer is where the compiler was not asked about it.
pub(super) const NOT_COMPILED: &str =
    "nothing of this target compiles it, or something that it needs did not compile";

/// Where crates are acquired: a toolchain, a directory to work in, and how strong the sandbox has to be.
#[derive(Debug)]
pub(crate) struct AcquireContext {
    pub(crate) toolchain: Toolchain,
    pub(crate) cargo: Cargo,
    work: PathBuf,
    /// What is being worked at; a later instance removes it when this one dies.
    instance: InstanceDirectory,
    sandbox: Sandbox,
    minimum: SandboxMinimum,
}

impl AcquireContext {
    /// `work` keeps what was downloaded; the same directory serves the next request.
    pub(crate) fn new(
        toolchain: Toolchain,
        work: &Path,
        minimum: SandboxMinimum,
    ) -> Result<Self, BuilderError> {
        std::fs::create_dir_all(work).map_err(BuilderError::io(work))?;
        let work = work.canonicalize().map_err(BuilderError::io(work))?;
        let instance = InstanceDirectory::make(&work, &uuid::Uuid::new_v4().to_string())?;
        let cargo = Cargo::new(&toolchain, &work.join("cargo"), instance.path())?;
        Ok(Self { toolchain, cargo, work, instance, sandbox: Sandbox::new(minimum)?, minimum })
    }

    /// The weakest sandbox that is accepted.
    pub(crate) fn minimum(&self) -> SandboxMinimum {
        self.minimum
    }

    /// What the sandbox is made of.
    pub(crate) fn sandbox_level(&self) -> mfaas_attest::SandboxLevel {
        self.sandbox.level()
    }

    /// What reads hostile text.
    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// A directory that is gone afterwards.
    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir, BuilderError> {
        let within = self.instance.path();
        tempfile::tempdir_in(within).map_err(BuilderError::io(within))
    }

    /// Where sources lie for the sandbox: each version in a directory of its own.
    pub(crate) fn sources(&self) -> PathBuf {
        self.work.join("sources")
    }

    /// Downloads and unpacks everything that a resolution names.
    pub(crate) fn fetch(&self, base: &Workspace, manifest: &str, lock: &str) -> Result<(), BuilderError> {
        vendor(&self.cargo, base, manifest, lock, &self.sources())
    }

    /// What the compiler says about every crate of a resolution that was fetched.
    pub(crate) fn verdicts(
        &self,
        base: &Workspace,
        manifest: &str,
        lock: &str,
    ) -> Result<BTreeMap<PackageKey, CompilerVerdict>, BuilderError> {
        let seed = self.scratch()?;
        write_seed(base, manifest, lock, seed.path())?;
        verdicts(seed.path(), &self.sources(), &self.toolchain, self.instance.path(), self.minimum)
    }

    /// Everything about one of the `members` of a resolution that was fetched, and its archive.
    pub(crate) fn report(
        &self,
        member: &ResolvedCrate,
        members: &[ResolvedCrate],
        verdict: Option<CompilerVerdict>,
    ) -> Result<(CrateReport, Download), BuilderError> {
        let download = download(&self.cargo, member)?;
        let not_run = || CompilerVerdict::NotRun { reason: NOT_COMPILED.to_owned() };
        let mut report = report(&download, &self.sandbox, verdict.unwrap_or_else(not_run))?;
        report.features = member.features.clone();
        report.needs = needs(member, members);
        report.published = published(&self.cargo.indexes(), &download);
        Ok((report, download))
    }
}

/// The direct dependencies with their checksums. One of the site's own tree has none and is left out:
/// it is no crate of a registry.
fn needs(member: &ResolvedCrate, members: &[ResolvedCrate]) -> Vec<Need> {
    let checksum = |key: &PackageKey| {
        let found = members.iter().find(|member| member.key() == *key)?;
        Digest::parse(found.checksum.as_deref()?).ok()
    };
    let found = member.needs.iter().filter_map(|key| {
        let (name, version) = key.clone();
        Some(Need { name, version, checksum: checksum(key)? })
    });
    found.collect()
}

/// Everything that follows from the bytes of one archive, and what the compiler said.
pub(super) fn report(
    download: &Download,
    sandbox: &Sandbox,
    compiler: CompilerVerdict,
) -> Result<CrateReport, BuilderError> {
    let bytes = download.bytes.len() as u64;
    let (archive, source, more) = match CrateArchive::read(&download.bytes, &download.top()) {
        Ok(archive) => {
            let (source, more) = facts::gather_archive(&archive, sandbox)?;
            (archive_facts(&archive, bytes), source, more)
        }
        // An archive that cannot be read is a fact about the crate.
        Err(error) => {
            let reason = error.to_string();
            let more = More::missing(&reason);
            (unread_archive(bytes, reason.clone()), nothing_read(reason), more)
        }
    };
    Ok(CrateReport {
        revision: FACTS_REVISION,
        name: download.name.clone(),
        version: download.version.clone(),
        checksum: download.checksum,
        features: Vec::new(),
        target: TARGET.to_owned(),
        archive,
        compiler,
        touches: more.touches,
        shapes: more.shapes,
        licence: more.manifest.licence,
        kind: KindFacts {
            proc_macro: source.proc_macro,
            build_script: source.build_script,
            links: more.manifest.links,
            edition: more.manifest.edition,
        },
        source,
        published: None,
        yanked: None,
        needs: Vec::new(),
    })
}

fn nothing_read(reason: String) -> CrateFacts {
    let unread = vec![reason];
    CrateFacts {
        package: None,
        files: Vec::new(),
        exported_macros: Vec::new(),
        proc_macro: false,
        build_script: false,
        summary: summarise(&[], &unread, false, false),
        unread,
    }
}

/// With the toolchain that this machine has, in `work` or in a directory that is gone afterwards.
pub(super) fn in_work<T>(
    work: Option<&Path>,
    run: impl FnOnce(&AcquireContext) -> Result<T, BuilderError>,
) -> Result<T, BuilderError> {
    let scratch = tempfile::tempdir().map_err(BuilderError::io("the directory for temporary files"))?;
    let toolchain = materials::toolchain(&CheckConfig::read(&Variables::of_process())?)
        .map_err(|reason| VariableError::invalid("MFAAS_TOOLCHAIN_DIR", reason))?;
    let work = work.unwrap_or(scratch.path());
    run(&AcquireContext::new(toolchain, work, config::sandbox_minimum(&Variables::of_process())?)?)
}
