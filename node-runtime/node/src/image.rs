//! From bytes of the server to an image that a worker may load.
//!
//! A [`VerifiedImage`] exists only because [`verify`] made it: statement, digests,
//! toolchain and ABI were checked, and hash and inspection were repeated on the *sealed* memory
//! that the worker gets, not on a copy that could differ from it. Must never hand out a descriptor
//! that anybody can still write to.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use mfaas_attest::{
    Admission, AttestError, Declared, Payload, ServedFunction, ServedVersion, ServingSet, Statement, Trust,
};
use mfaas_ident::{
    AssetContent, Binding, Budget, Callers, Class, DeploymentId, Digest, FunctionName, MemoryLimit,
    TenantName, TraceParent, VersionNumber,
};
use mfaas_inspect::verify::verify_image;
use mfaas_rules::{codes, limits};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::refused::Refused;

/// The largest artifact that is fetched, in bytes.
pub(crate) const ARTIFACT_BYTES_MAX: usize = limits::BINARY.file_bytes_max as usize;
/// The largest statement envelope that is fetched, in bytes.
pub(crate) const STATEMENT_BYTES_MAX: usize = Statement::ENVELOPE_BYTES_MAX;

/// Everything that tells one loaded function from another. A change in any of it is another image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ImageKey {
    pub(crate) tenant: TenantName,
    pub(crate) function: FunctionName,
    pub(crate) version: VersionNumber,
    pub(crate) digest: Digest,
    pub(crate) statement: Digest,
    /// As the set tells it: [`Terms`] has what a call gets.
    pub(crate) budget: Budget,
    pub(crate) memory: MemoryLimit,
}

/// What calls of an image get, by its signed statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) class: Class,
    pub(crate) budget: Budget,
    pub(crate) memory: MemoryLimit,
}

impl ImageKey {
    /// What the serving set says about one version.
    pub(crate) fn of(function: &ServedFunction, version: &ServedVersion) -> Self {
        Self {
            tenant: function.tenant.clone(),
            function: function.name.clone(),
            version: version.version,
            digest: version.digest,
            statement: version.statement,
            budget: version.budget_us,
            memory: version.memory_bytes,
        }
    }
}

impl std::fmt::Display for ImageKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}@{}", self.tenant, self.function, self.version)
    }
}

/// Whether an image's machine code stays in its window, whatever compiled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MachineCode {
    /// `mfaas_inspect::verify` passes it.
    Verified,
    /// It does not.
    Unverified,
}

/// An artifact that passed everything, in sealed memory.
#[derive(Debug)]
pub(crate) struct VerifiedImage {
    key: ImageKey,
    memory: OwnedFd,
    /// As the statement says. The serving set does not repeat it: there is one place to believe.
    declared: Declared,
    terms: Terms,
    callers: Arc<Callers>,
    bindings: Arc<[Binding]>,
    deployment: DeploymentId,
    /// Where the deployment stands in a trace, as the server says; nothing hangs on it.
    trace_parent: Option<TraceParent>,
    code: MachineCode,
    bank_bytes: u64,
    assets: ImageAssets,
    /// Kept to be checked again: a later set may demand more, a later key list trust less.
    statement: Vec<u8>,
}

/// An asset that an image finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageAsset {
    /// The place of its binding among all of the function's.
    pub(crate) place: usize,
    pub(crate) content: AssetContent,
}

#[derive(Debug, Default)]
struct ImageAssets {
    rows: Vec<ImageAsset>,
    files: Vec<File>,
}

/// The assets of a version in the order of its bindings.
fn asset_rows(admission: &Admission) -> Vec<ImageAsset> {
    let assets = admission.assets();
    let row = |(place, name)| Some(ImageAsset { place, content: *assets.get(name)? });
    admission.bound().keys().enumerate().filter_map(row).collect()
}

impl VerifiedImage {
    pub(crate) fn key(&self) -> &ImageKey {
        &self.key
    }

    /// The sealed memory: nobody can write, grow or shrink it, or take the seals off.
    pub(crate) fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// What the function declares, by its signed statement.
    pub(crate) fn declared(&self) -> Declared {
        self.declared
    }

    /// What its calls get, by its signed statement.
    pub(crate) fn terms(&self) -> Terms {
        self.terms
    }

    /// Which tenants' functions may call it besides its own, by its signed statement.
    pub(crate) fn callers(&self) -> &Arc<Callers> {
        &self.callers
    }

    /// What data the function may reach, by its signed statement, in the order of the names.
    pub(crate) fn bindings(&self) -> &Arc<[Binding]> {
        &self.bindings
    }

    /// The deployment that it comes from, by its signed statement.
    pub(crate) fn deployment(&self) -> DeploymentId {
        self.deployment
    }

    /// The same, for spans below that place in a trace.
    pub(crate) fn traced(self, trace_parent: Option<TraceParent>) -> Self {
        Self { trace_parent, ..self }
    }

    /// Where the deployment stands in a trace, if it was fetched just now and the server said so.
    pub(crate) fn trace_parent(&self) -> Option<TraceParent> {
        self.trace_parent
    }

    /// Whether its code was verified, here and now.
    pub(crate) fn code(&self) -> MachineCode {
        self.code
    }

    /// As much as it takes of the banks of a window, in bytes.
    pub(crate) fn bank_bytes(&self) -> u64 {
        self.bank_bytes
    }

    /// As much memory as it takes at most when it is resident: others may have its assets too.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.assets.rows.iter().fold(self.bank_bytes, |sum, row| sum.saturating_add(row.content.bytes))
    }

    /// The assets that it finds, by its signed statement.
    pub(crate) fn assets(&self) -> &[ImageAsset] {
        &self.assets.rows
    }

    /// Files with the bytes of these, in their order. Whoever loads the image hashes them.
    pub(crate) fn asset_files(&self) -> &[File] {
        &self.assets.files
    }

    /// The same, with those files.
    pub(crate) fn with_asset_files(mut self, files: Vec<File>) -> Self {
        self.assets.files = files;
        self
    }

    /// An image of nothing that declares nothing, for tests of what is done with images.
    #[cfg(test)]
    pub(crate) fn for_test(key: ImageKey) -> Self {
        Self::declaring_for_test(key, Declared::default())
    }

    /// The same, declaring something.
    #[cfg(test)]
    pub(crate) fn declaring_for_test(key: ImageKey, declared: Declared) -> Self {
        let memory = sealed_memory(&[]).expect("a memfd can be made");
        let deployment = DeploymentId(uuid::Uuid::nil());
        let (code, trace_parent) = (MachineCode::Verified, None);
        let terms = Terms { class: declared.class, budget: key.budget, memory: key.memory };
        Self {
            key,
            memory,
            declared,
            terms,
            callers: Arc::default(),
            bindings: Arc::default(),
            deployment,
            trace_parent,
            code,
            bank_bytes: 0,
            assets: ImageAssets::default(),
            statement: Vec::new(),
        }
    }

    /// The same, reaching this data.
    #[cfg(test)]
    pub(crate) fn binding_for_test(self, bindings: &[Binding]) -> Self {
        Self { bindings: bindings.into(), ..self }
    }

    /// The same, letting in functions of these tenants.
    #[cfg(test)]
    pub(crate) fn letting_in_for_test(self, callers: &[TenantName]) -> Self {
        Self { callers: Arc::new(callers.iter().cloned().collect()), ..self }
    }

    /// The same with machine code of this kind.
    #[cfg(test)]
    pub(crate) fn with_code_for_test(self, code: MachineCode) -> Self {
        Self { code, ..self }
    }

    /// Whether the image may be loaded under another set and other keys. Hash and inspection are
    /// not repeated: the memory is sealed.
    pub(crate) fn recheck(&self, set: &ServingSet, trust: &Trust) -> Result<(), Refused> {
        check_paper(set, &self.key, &self.statement, trust).map(drop)
    }

    /// Whether a key that counts still vouches for it.
    pub(crate) fn is_vouched_for(&self, trust: &Trust) -> bool {
        verified_statement(&self.key, &self.statement, trust).is_ok()
    }
}

/// Checks everything that `set` demands of the artifact and of the statement about it, and that its code is
/// of a kind that this node runs.
pub(crate) fn verify(
    set: &ServingSet,
    key: &ImageKey,
    artifact: &[u8],
    statement: &[u8],
    trust: &Trust,
    minimum: MachineCode,
) -> Result<VerifiedImage, Refused> {
    let admission = check_paper(set, key, statement, trust)?;
    if Digest::of(artifact) != key.digest {
        return Err(Refused::new(
            codes::MF0704,
            format!("the bytes of {key} are not those of {}", key.digest),
        ));
    }
    let unsealed = |e: std::io::Error| Refused::new(codes::MF0709, format!("memory for {key}: {e}"));
    let memory = sealed_memory(artifact).map_err(unsealed)?;
    let sealed = read_all(&memory, artifact.len()).map_err(unsealed)?;
    if Digest::of(&sealed) != key.digest {
        return Err(Refused::new(codes::MF0704, format!("the sealed copy of {key} is not what was copied")));
    }
    let bank_bytes = inspect(key, &sealed)?;
    let code = match verify_image(&sealed) {
        Ok(_) => MachineCode::Verified,
        Err(_) if minimum == MachineCode::Unverified => MachineCode::Unverified,
        Err(error) => {
            let message = format!("the machine code of {key} could leave its window: {error}");
            return Err(Refused::new(codes::MF0719, message));
        }
    };
    let assets = ImageAssets { rows: asset_rows(&admission), files: Vec::new() };
    Ok(VerifiedImage {
        key: key.clone(),
        memory,
        declared: admission.declares(),
        terms: Terms {
            class: admission.declares().class,
            budget: admission.budget_us,
            memory: admission.memory_bytes,
        },
        callers: Arc::new(admission.callers()),
        bindings: admission.bound().into_values().collect(),
        deployment: admission.deployment,
        trace_parent: None,
        code,
        bank_bytes,
        assets,
        statement: statement.to_vec(),
    })
}

/// Everything but the bytes of the artifact.
fn check_paper(
    set: &ServingSet,
    key: &ImageKey,
    statement: &[u8],
    trust: &Trust,
) -> Result<Admission, Refused> {
    let statement = verified_statement(key, statement, trust)?;
    check_identity(key, &statement)?;
    check_requirements(set, &statement)?;
    Ok(statement.predicate)
}

/// Whether the set forbids the artifact, whatever else it says.
pub(crate) fn check_revoked(function: &ServedFunction, key: &ImageKey) -> Result<(), Refused> {
    if function.revoked.contains(&key.digest) {
        return Err(Refused::new(codes::MF0706, format!("{key} is revoked")));
    }
    Ok(())
}

fn verified_statement(key: &ImageKey, envelope: &[u8], trust: &Trust) -> Result<Statement, Refused> {
    if Digest::of(envelope) != key.statement {
        let message = format!("the statement about {key} is not the one that the serving set names");
        return Err(Refused::new(codes::MF0705, message));
    }
    let verified = mfaas_attest::verify::<Statement>(envelope, trust).map_err(|e| {
        let code = match e {
            AttestError::Untrusted { .. }
            | AttestError::BadSignature { .. }
            | AttestError::Key { .. }
            | AttestError::Passphrase => codes::MF0602,
            AttestError::TooLarge { .. }
            | AttestError::Malformed { .. }
            | AttestError::WrongType { .. }
            | AttestError::Inconsistent { .. } => codes::MF0606,
        };
        Refused::new(code, format!("the statement about {key}: {e}"))
    })?;
    Ok(verified.into_inner())
}

/// The statement must be about exactly this version of this function of this tenant: a good
/// statement about another one proves nothing here.
fn check_identity(key: &ImageKey, statement: &Statement) -> Result<(), Refused> {
    let admission = &statement.predicate;
    let (budget, memory) = ServedVersion::told(admission.budget_us, admission.memory_bytes);
    let rows = [
        ("tenant", admission.tenant == key.tenant),
        ("function", admission.function == key.function),
        ("version", admission.version == key.version),
        ("artifact", admission.artifact == key.digest),
        ("budget", budget == key.budget),
        ("memory", memory == key.memory),
    ];
    match rows.iter().find(|(_, fits)| !fits) {
        Some((what, _)) => {
            Err(Refused::new(codes::MF0705, format!("the statement about {key} names another {what}")))
        }
        None => Ok(()),
    }
}

fn check_requirements(set: &ServingSet, statement: &Statement) -> Result<(), Refused> {
    let admission = &statement.predicate;
    if !set.accepted_toolchains.contains(&admission.toolchain) {
        let message = format!("toolchain {} is not accepted", admission.toolchain.0.short());
        return Err(Refused::new(codes::MF0707, message));
    }
    if admission.abi_version != mfaas_abi::ABI_VERSION || !set.abi_versions.contains(&admission.abi_version) {
        let message = format!(
            "interface version {} is not accepted, this node has {}",
            admission.abi_version,
            mfaas_abi::ABI_VERSION
        );
        return Err(Refused::new(codes::MF0707, message));
    }
    match set.required_lints.iter().find(|lint| !admission.lints.contains(lint)) {
        Some(lint) => {
            Err(Refused::new(codes::MF0705, format!("the artifact was compiled without the lint {lint}")))
        }
        None => Ok(()),
    }
}

/// Judges the image as the builder did; answers what it takes of the banks of a window.
fn inspect(key: &ImageKey, image: &[u8]) -> Result<u64, Refused> {
    let refused = |e| Refused::new(codes::MF0708, format!("{key} cannot be inspected: {e}"));
    let facts = mfaas_inspect::inspect(image).map_err(refused)?;
    match mfaas_rules::judge_binary(&facts).as_slice() {
        [] => Ok(mfaas_inspect::layout(image).map_err(refused)?.bank_bytes()),
        [first, ..] => {
            let message = format!("{key}: {} ({})", first.message, first.code.id());
            Err(Refused::new(codes::MF0708, message))
        }
    }
}

/// A memfd with these bytes that can never change again.
pub(crate) fn sealed_memory(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create("mfaas-image", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut written = 0;
    while written < bytes.len() {
        written += rustix::io::pwrite(&memory, &bytes[written..], written as u64)?;
    }
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memory, seals)?;
    if rustix::fs::fcntl_get_seals(&memory)?.contains(seals) {
        Ok(memory)
    } else {
        Err(std::io::Error::other("the kernel did not keep the seals"))
    }
}

fn read_all(memory: &OwnedFd, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut copy = vec![0; bytes];
    let mut read = 0;
    while read < bytes {
        match rustix::io::pread(memory, &mut copy[read..], read as u64)? {
            0 => return Err(std::io::Error::other("the sealed copy is shorter than the artifact")),
            more => read += more,
        }
    }
    Ok(copy)
}
