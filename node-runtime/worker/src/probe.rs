//! The throw-away load: would a worker take this image?

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use mfaas_cage::{Cage, Image, exit_now, sealed_copy};
use mfaas_ident::MemoryLimit;

use crate::harden;

/// Loads the file as a worker would, says so as one line of JSON, and locks down. Constructors do
/// not run, so nothing of the image runs. The resource limits are those of the cage that it is run
/// in, which does not let them be changed.
pub(crate) fn probe(file: &Path) -> anyhow::Result<ExitCode> {
    let bytes = read(file)?;
    let image = sealed_copy(&bytes).context("copy the image")?;
    let _cage = Cage::new(MemoryLimit::DEFAULT).context("make the cage")?;
    let _image = Image::load(&image).context("load the image")?;
    writeln!(std::io::stdout(), "{}", serde_json::json!({ "loads": true, "bytes": bytes.len() }))
        .context("write the answer")?;
    harden::lock_down()?;
    exit_now(0)
}

/// The file, unless it is larger than any image.
pub(crate) fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let limit = mfaas_rules::limits::BINARY.file_bytes_max;
    let size = std::fs::metadata(file).with_context(|| format!("look at {}", file.display()))?.len();
    anyhow::ensure!(size <= limit, "{} has {size} bytes, more than {limit}", file.display());
    std::fs::read(file).with_context(|| format!("read {}", file.display()))
}
