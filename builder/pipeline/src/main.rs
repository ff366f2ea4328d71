//! `mfaas-builder`: see the library of the same crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    mfaas_builder::main()
}
