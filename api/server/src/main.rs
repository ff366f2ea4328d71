//! `mfaas-server`: the REST interface, the console and the node protocol, and the commands that
//! set them up. It never unpacks, compiles or signs: it holds no signing key and opens no upload.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use mfaas_server::commands::{Arguments, run};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = mfaas_startup::start_log()
        .map_err(anyhow::Error::from)
        // Threads have what the one had that made them.
        .and_then(|()| arguments.confine())
        .and_then(|()| Ok(tokio::runtime::Runtime::new()?))
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Also when the log is not installed yet; whoever started us reads stderr.
            let _ = writeln!(std::io::stderr(), "mfaas-server: {error:#}");
            ExitCode::FAILURE
        }
    }
}
