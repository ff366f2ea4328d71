//! The service: one request, one answer, until the node goes away.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::Context as _;
use mfaas_executor::{ExecutorError, NamedAsset, SlabGeometry, SlabWriter, Verification};
use mfaas_ident::{Digest, sanitise_line};
use mfaas_ring::loading::{
    AssetRow, FD_LOADER, LoaderAnswer, LoaderRequest, REASON_BYTES_MAX, SHARED_SLAB, receive, send,
};
use mfaas_ring::take_inherited;
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

/// The slabs that were opened and not closed.
type Slabs = BTreeMap<u32, SlabWriter>;

/// Serves the node that started this process.
pub(crate) fn serve() -> anyhow::Result<()> {
    let node = take_inherited(FD_LOADER)?;
    harden()?;
    mfaas_confine::lock_down(mfaas_rules::profiles::seccomp::LOADER).context("lock down")?;
    send(&node, &LoaderAnswer::Ready { abi_version: mfaas_abi::ABI_VERSION }, &[])?;
    let mut slabs = Slabs::new();
    while let Some((request, files)) = receive(&node)? {
        let slab = slab_of(&request);
        let answer = answer(&mut slabs, request, files);
        let writer = slabs.get_mut(&slab);
        let opened = matches!(answer, LoaderAnswer::Opened { .. });
        send(&node, &answer, writer.as_ref().filter(|_| opened).map(|writer| writer.fd()).as_slice())?;
        // Nobody waits: the next image is to find room that is ready.
        if let Some(writer) = writer {
            writer.ready_ahead();
        }
    }
    Ok(())
}

fn slab_of(request: &LoaderRequest) -> u32 {
    match request {
        LoaderRequest::Open { slab, .. }
        | LoaderRequest::Load { slab, .. }
        | LoaderRequest::Unload { slab, .. }
        | LoaderRequest::Reclaim { slab, .. }
        | LoaderRequest::Close { slab } => *slab,
    }
}

/// No core dumps, no tracing by others, no processes, no files; gone when the node is.
fn harden() -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context("set the death signal")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).context("become non-dumpable")?;
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    for resource in [Resource::Core, Resource::Nproc] {
        rustix::process::setrlimit(resource, nothing).with_context(|| format!("limit {resource:?}"))?;
    }
    Ok(())
}

fn answer(slabs: &mut Slabs, request: LoaderRequest, mut files: Vec<OwnedFd>) -> LoaderAnswer {
    let slab = slab_of(&request);
    match (request, files.as_mut_slice(), slabs.get_mut(&slab)) {
        (LoaderRequest::Open { slab, verified }, [], None) => match open(slab, verified) {
            Ok(writer) => {
                slabs.insert(slab, writer);
                LoaderAnswer::Opened { slab }
            }
            Err(error) => failed(&error),
        },
        (LoaderRequest::Load { digest, assets, .. }, [image, files @ ..], Some(writer))
            if assets.len() == files.len() =>
        {
            load(writer, &digest, image, &assets, files)
        }
        (LoaderRequest::Unload { slot, .. }, [], Some(writer)) => match writer.unload(slot) {
            Ok(()) => LoaderAnswer::Unloaded { slot },
            Err(error) => failed(&error),
        },
        (LoaderRequest::Reclaim { slot, .. }, [], Some(writer)) => match writer.reclaim(slot) {
            Ok(()) => LoaderAnswer::Reclaimed { slot },
            Err(error) => failed(&error),
        },
        (LoaderRequest::Close { slab }, [], Some(_)) => {
            slabs.remove(&slab);
            LoaderAnswer::Closed { slab }
        }
        (
            LoaderRequest::Open { .. }
            | LoaderRequest::Load { .. }
            | LoaderRequest::Unload { .. }
            | LoaderRequest::Reclaim { .. }
            | LoaderRequest::Close { .. },
            _,
            _,
        ) => LoaderAnswer::Failed {
            full: false,
            reason:
                "the request came with the wrong number of descriptors, or its slab is not what it should be"
                    .to_owned(),
        },
    }
}

/// The slab of all tenants has large pages from the start; there is one of it.
fn open(slab: u32, verified: bool) -> Result<SlabWriter, ExecutorError> {
    let verification = if verified { Verification::Required } else { Verification::Waived };
    match slab {
        SHARED_SLAB => SlabWriter::new(SlabGeometry::NODE, verification),
        _ => SlabWriter::frugal(SlabGeometry::TENANT, verification),
    }
}

fn load(
    writer: &mut SlabWriter,
    digest: &str,
    image: &OwnedFd,
    assets: &[AssetRow],
    files: &[OwnedFd],
) -> LoaderAnswer {
    let named = assets.iter().zip(files).map(|(AssetRow { place, digest }, file)| {
        let digest = Digest::parse(digest).map_err(|_| ExecutorError::OtherAsset)?;
        Ok(NamedAsset { place: *place, digest, file: file.as_fd() })
    });
    let loaded = named.collect::<Result<Vec<_>, ExecutorError>>();
    match loaded.and_then(|assets| writer.load_with(image, digest, &assets)) {
        Ok(loaded) => LoaderAnswer::Loaded {
            slot: loaded.slot,
            bytes: (loaded.bytes + loaded.asset_bytes) as u64,
            address: loaded.address as u64,
        },
        Err(error) => failed(&error),
    }
}

fn failed(error: &ExecutorError) -> LoaderAnswer {
    let reason = sanitise_line(&error.to_string(), REASON_BYTES_MAX);
    LoaderAnswer::Failed { full: matches!(error, ExecutorError::Full), reason }
}
