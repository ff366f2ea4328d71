//! mfaas-loader: links verified images into the slabs that workers map, one of each tenant's own.
//!
//! ```text
//! mfaas-loader            started by a node, with one end of a socket as descriptor 3
//!                         (mfaas_ring::loading)
//! mfaas-loader --version  say which build this is
//! ```
//! It is the only process that can write a slab, and runs nothing of any image. It trusts the node
//! to have verified statement and signature, and repeats what it can: the memory is sealed, its
//! digest is the one that was named, its layout is sound. A fault here is contained to a process
//! without files, network or children.
//!
//! Exit codes: 0 the node closed the socket · 1 it could not go on.
//!
//! It must never take an image that somebody could still change, and never answer a request twice.

#![forbid(unsafe_code)]

mod serve;

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = if std::env::args_os().skip(1).eq(["--version"]) { say_version() } else { serve::serve() };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a standard error there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "mfaas-loader: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn say_version() -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "mfaas-loader {}", mfaas_ident::BuildVersion::this())?;
    Ok(())
}
