//! `mfaas-signer`: holds the online key, repeats what can be repeated, decides again, signs.
//!
//! It listens on nothing. Work comes as rows of the database and bytes of the blob store, woken by
//! NOTIFY and by a poll each second; a crash at any moment leaves the row for the next start,
//! because a version, its statement, its alias and its records are one transaction.
//!
//! Must never sign what it did not examine itself in the same transaction, take a digest of a
//! source from the builder, run or compile anything, or show its key.

mod config;
mod deploy;
mod examine;
mod keys;
mod ledger;
mod process;
mod rotation;
mod serve;
mod serving;

use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::config::ServeConfig;
use crate::rotation::Change;

const USAGE: &str = "usage: mfaas-signer serve
       mfaas-signer init --root-dir DIR --keys-dir DIR
       mfaas-signer rotate [--renew | --leaked] --root-dir DIR --keys-dir DIR
       mfaas-signer publish-keylist FILE";

#[expect(clippy::print_stderr, reason = "the one place where this program speaks to a terminal")]
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mfaas-signer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    process::harden().context("the process could not be hardened")?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["serve"] | [] => {
            mfaas_logging::start()?;
            serve::serve(ServeConfig::from_env()?)
        }
        ["init", "--root-dir", root_dir, "--keys-dir", keys_dir] => {
            keys::init(root_dir.as_ref(), keys_dir.as_ref())
        }
        ["rotate", "--root-dir", root_dir, "--keys-dir", keys_dir] => {
            rotate(root_dir, keys_dir, Change::Replace)
        }
        ["rotate", "--renew", "--root-dir", root_dir, "--keys-dir", keys_dir] => {
            rotate(root_dir, keys_dir, Change::Renew)
        }
        ["rotate", "--leaked", "--root-dir", root_dir, "--keys-dir", keys_dir] => {
            rotate(root_dir, keys_dir, Change::ReplaceLeaked)
        }
        ["publish-keylist", file] => keys::publish(file.as_ref(), &config::required("MFAAS_DATABASE_URL")?),
        _ => bail!(USAGE),
    }
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn rotate(root_dir: &str, keys_dir: &str, change: Change) -> anyhow::Result<()> {
    let version = keys::rotate(root_dir.as_ref(), keys_dir.as_ref(), change)?;
    println!("key list {version} is written: start the signer anew, then publish the list");
    Ok(())
}
