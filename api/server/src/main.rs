//! `mfaas-server`: the REST interface, the console and the node protocol, and the commands that
//! set them up. It never unpacks, compiles or signs: it holds no signing key and opens no upload.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use mfaas_server::commands::{Arguments, run};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = prepare(&arguments)
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

/// Listeners, blob store, database and what sends the log use one TLS provider; a second one is refused.
fn prepare(arguments: &Arguments) -> anyhow::Result<()> {
    mfaas_startup::install_tls_provider()?;
    mfaas_startup::start_log_here()?;
    // Threads have what the one had that made them, and what sends the log has some.
    arguments.confine()?;
    Ok(mfaas_startup::start_sending()?)
}
