//! The service: one request, one answer, until the node goes away.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::Context as _;
use mfaas_cage::{CageError, SlabGeometry, SlabWriter};
use mfaas_ident::sanitise_line;
use mfaas_ring::loading::{FD_LOADER, LoaderAnswer, LoaderRequest, REASON_BYTES_MAX, receive, send};
use mfaas_ring::take_inherited;
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

/// Serves the node that started this process.
pub(crate) fn serve() -> anyhow::Result<()> {
    let node = take_inherited(FD_LOADER)?;
    harden()?;
    let mut writer = SlabWriter::new(SlabGeometry::NODE).context("make the slab")?;
    mfaas_confine::lock_down(mfaas_rules::profiles::seccomp::LOADER).context("lock down")?;
    writer.ready_ahead();
    let ready = LoaderAnswer::Ready { abi_version: mfaas_abi::ABI_VERSION };
    send(&node, &ready, Some(writer.fd()))?;
    while let Some((request, image)) = receive(&node)? {
        send(&node, &answer(&mut writer, request, image), None)?;
        writer.ready_ahead();
    }
    Ok(())
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

fn answer(writer: &mut SlabWriter, request: LoaderRequest, image: Option<OwnedFd>) -> LoaderAnswer {
    match (request, image) {
        (LoaderRequest::Load { digest }, Some(image)) => load(writer, &digest, image),
        (LoaderRequest::Unload { slot }, None) => match writer.unload(slot) {
            Ok(()) => LoaderAnswer::Unloaded { slot },
            Err(error) => failed(&error),
        },
        (LoaderRequest::Load { .. } | LoaderRequest::Unload { .. }, _) => LoaderAnswer::Failed {
            full: false,
            reason: "the request came with the wrong number of descriptors".to_owned(),
        },
    }
}

fn load(writer: &mut SlabWriter, digest: &str, image: OwnedFd) -> LoaderAnswer {
    match writer.load_named(image.as_fd(), digest) {
        Ok(loaded) => LoaderAnswer::Loaded {
            slot: loaded.slot,
            bytes: loaded.bytes as u64,
            address: loaded.address as u64,
        },
        Err(error) => failed(&error),
    }
}

fn failed(error: &CageError) -> LoaderAnswer {
    let reason = sanitise_line(&error.to_string(), REASON_BYTES_MAX);
    LoaderAnswer::Failed { full: matches!(error, CageError::Full), reason }
}
