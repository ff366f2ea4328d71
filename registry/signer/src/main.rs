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
mod resign;
mod rotation;
mod serve;
mod serving;
mod tree;

use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::config::ServeConfig;
use crate::rotation::{Change, Leaked};

const USAGE: &str = "usage: mfaas-signer serve
       mfaas-signer init --root-dir DIR --keys-dir DIR
       mfaas-signer rotate [--renew | --leaked [statements | serving-sets]] --root-dir DIR --keys-dir DIR
       mfaas-signer publish-keylist FILE
       mfaas-signer resign FILE";

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
        ["rotate", how @ .., "--root-dir", root_dir, "--keys-dir", keys_dir] => {
            rotate(root_dir, keys_dir, change(how)?)
        }
        ["resign", file] => resign(file.as_ref()),
        ["publish-keylist", file] => keys::publish(file.as_ref(), &config::required("MFAAS_DATABASE_URL")?),
        _ => bail!(USAGE),
    }
}

fn change(how: &[&str]) -> anyhow::Result<Change> {
    Ok(match how {
        [] => Change::Replace,
        ["--renew"] => Change::Renew,
        ["--leaked"] => Change::ReplaceLeaked(Leaked::Both),
        ["--leaked", "statements"] => Change::ReplaceLeaked(Leaked::Statements),
        ["--leaked", "serving-sets"] => Change::ReplaceLeaked(Leaked::Sets),
        _ => bail!(USAGE),
    })
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the answer of the command")]
fn resign(file: &std::path::Path) -> anyhow::Result<()> {
    let done = resign::resign(file)?;
    println!("{} statements are signed again, {} were signed by the present key", done.signed, done.kept);
    for left in &done.left {
        eprintln!("mfaas-signer: {left}");
    }
    anyhow::ensure!(done.left.is_empty(), "{} statements stay as they were", done.left.len());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn rotate(root_dir: &str, keys_dir: &str, change: Change) -> anyhow::Result<()> {
    let version = keys::rotate(root_dir.as_ref(), keys_dir.as_ref(), change)?;
    println!("key list {version} is written: start the signer anew, then publish the list");
    Ok(())
}
