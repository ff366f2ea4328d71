//! What is tried out and thrown away: would a worker take this image, would its calls run under
//! protection keys?

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use mfaas_executor::{Clock, Executor, Slab, SlabGeometry, SlabWriter, Verification, exit_now, sealed_copy};
use mfaas_ident::MemoryLimit;
use mfaas_ring::preload::{SpeculationControls, StartLine};

use crate::harden;
use crate::serve::keys_line;

/// Links and maps the file as loader and worker would, says so as one line of JSON, and locks down.
/// Nothing of the image runs. The resource limits are those of the executor that it is run in, which
/// does not let them be changed.
pub(crate) fn probe(file: &Path) -> anyhow::Result<ExitCode> {
    let bytes = read(file)?;
    let slab = slab_of(&bytes)?;
    let _executor =
        Executor::new(slab, MemoryLimit::DEFAULT, Clock::MONOTONIC).context("make the executor")?;
    writeln!(std::io::stdout(), "{}", serde_json::json!({ "loads": true, "bytes": bytes.len() }))
        .context("write the answer")?;
    harden::lock_down()?;
    exit_now(0)
}

/// Holds an empty executor as a worker would, as far as this machine can, and says what came of it.
pub(crate) fn protection(controls: SpeculationControls) -> anyhow::Result<ExitCode> {
    let speculation = harden::against_speculation(controls);
    let slab = SlabWriter::frugal(SlabGeometry::ONE, Verification::Required).context("make a slab")?.finish();
    let slab = Slab::map(slab).context("map the slab")?;
    let mut executor =
        Executor::new(slab, MemoryLimit::DEFAULT, Clock::MONOTONIC).context("make the executor")?;
    let keys = keys_line(executor.protect().context("protect calls with keys")?);
    executor.confirm_window()?;
    let line = StartLine::Mapped { slots: 1, keys, speculation };
    let line = serde_json::to_string(&line).context("encode the answer")?;
    writeln!(std::io::stdout(), "{line}").context("write the answer")?;
    Ok(ExitCode::SUCCESS)
}

/// A slab that holds one image, mapped. Its writer is gone before it is mapped: no page is ever
/// writable and executable in one process.
fn slab_of(image: &[u8]) -> anyhow::Result<Slab> {
    Slab::map(linked(image, Verification::Required)?).context("map the slab")
}

/// The memory of a slab with this image in slot 0, which nobody writes any more. Without verification the
/// worker's process alone holds it.
pub(crate) fn linked(image: &[u8], verification: Verification) -> anyhow::Result<OwnedFd> {
    let mut writer = SlabWriter::new(SlabGeometry::ONE, verification).context("make a slab")?;
    let sealed = sealed_copy(image).context("copy the image")?;
    writer.load(sealed).context("load the image")?;
    Ok(writer.finish())
}

/// The file, unless it is larger than any image.
pub(crate) fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let limit = mfaas_rules::limits::BINARY.file_bytes_max;
    let size = std::fs::metadata(file).with_context(|| format!("look at {}", file.display()))?.len();
    anyhow::ensure!(size <= limit, "{} has {size} bytes, more than {limit}", file.display());
    std::fs::read(file).with_context(|| format!("read {}", file.display()))
}
