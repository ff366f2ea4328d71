//! `mfaas-signer`: holds the online key, repeats what can be repeated, decides again, signs. It holds the key of the site's
//! certificate authority too, and issues certificates of nodes.
//!
//! It takes no request: where it is told to, a listener shows its metrics and nothing else. Work comes as rows of the database and bytes of the blob store, woken by
//! NOTIFY and by a poll each second; a crash at any moment leaves the row for the next start,
//! because a version, its statement, its alias and its records are one transaction.
//!
//! Must never sign what it did not examine itself in the same transaction, take a digest of a
//! source from the builder, run or compile anything, or show its key.

mod agreement;
mod arguments;
mod certificates;
mod closure;
mod config;
mod connection;
mod deploy;
mod examine;
mod keyfile;
mod keylist;
mod keys;
mod ledger;
mod meters;
mod passphrase;
mod process;
mod resign;
mod rotation;
mod serve;
mod serving;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use mfaas_attest::RootKeys;
use mfaas_ident::BuildVersion;
use mfaas_startup::Variables;

use crate::arguments::Arguments;
use crate::config::ServeConfig;
use crate::keylist::{Holder, Progress, Rotation};
use crate::passphrase::Source;
use crate::rotation::{Change, Leaked};

const USAGE: &str = "usage: mfaas-signer serve [PASSPHRASE]
       mfaas-signer init --root-dir DIR --keys-dir DIR [--encrypt [PASSPHRASE]]
       mfaas-signer make-root-key FILE [--plain | PASSPHRASE]
       mfaas-signer set-passphrase FILE [PASSPHRASE] [--new-passphrase-file FILE | --new-passphrase-fd N]
       mfaas-signer rotate [--renew | --leaked [statements | serving-sets]] [--root-pub FILE]... [--root-threshold N]
                    --root-dir DIR --keys-dir DIR [PASSPHRASE] [--keys-passphrase-file FILE | --keys-passphrase-fd N]
       mfaas-signer sign-keylist FILE --after FILE --root-key FILE [PASSPHRASE]
       mfaas-signer finish-rotation --root-dir DIR --keys-dir DIR
       mfaas-signer publish-keylist FILE
       mfaas-signer resign FILE [PASSPHRASE]
       mfaas-signer init-authority --ca-dir DIR [--from TLS-DIR]
       mfaas-signer certify-server --ca-dir DIR --tls-dir DIR [--name NAME]...
       mfaas-signer --version
PASSPHRASE:  --passphrase-file FILE | --passphrase-fd N; it is asked for at the terminal without either, if a key file takes one";

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
    mfaas_startup::install_tls_provider()?;
    let mut given = Arguments::new(std::env::args().skip(1).collect());
    match given.word().as_deref() {
        Some("serve") | None => serve(given),
        Some("init") => init(given),
        Some("make-root-key") => make_root_key(given),
        Some("set-passphrase") => set_passphrase(given),
        Some("rotate") => rotate(given),
        Some("sign-keylist") => sign_keylist(given),
        Some("finish-rotation") => finish_rotation(given),
        Some("publish-keylist") => {
            let file = given.file("FILE")?;
            given.end()?;
            keylist::publish(&file, &Variables::of_process().required("MFAAS_DATABASE_URL")?)
        }
        Some("resign") => resign(given),
        Some("--version") => say_version(given),
        Some("init-authority") => init_authority(given),
        Some("certify-server") => certify_server(given),
        Some(_) => bail!(USAGE),
    }
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn say_version(given: Arguments) -> anyhow::Result<()> {
    given.end()?;
    println!("mfaas-signer {}", BuildVersion::this());
    Ok(())
}

fn serve(mut given: Arguments) -> anyhow::Result<()> {
    let passphrase = Source::of(&mut given, "")?;
    given.end()?;
    mfaas_startup::start_log()?;
    serve::serve(ServeConfig::read(&Variables::of_process())?, &passphrase)
}

fn init(mut given: Arguments) -> anyhow::Result<()> {
    let (root_dir, keys_dir) = (given.path("--root-dir")?, given.path("--keys-dir")?);
    let passphrase = if given.switch("--encrypt") { Some(Source::of(&mut given, "")?) } else { None };
    given.end()?;
    keys::init(&root_dir, &keys_dir, passphrase.as_ref())
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn make_root_key(mut given: Arguments) -> anyhow::Result<()> {
    let passphrase = if given.switch("--plain") { None } else { Some(Source::of(&mut given, "")?) };
    let path = given.file("FILE")?;
    given.end()?;
    let public = keys::make_root_key(&path, passphrase.as_ref())?;
    println!(
        "{} is for you alone, {} for the person who prepares the next key list",
        path.display(),
        public.display()
    );
    Ok(())
}

fn set_passphrase(mut given: Arguments) -> anyhow::Result<()> {
    let (old, new) = (Source::of(&mut given, "")?, Source::of(&mut given, "new-")?);
    let path = given.file("FILE")?;
    given.end()?;
    keys::set_passphrase(&path, &old, &new)
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn rotate(mut given: Arguments) -> anyhow::Result<()> {
    let (root_dir, keys_dir) = (given.path("--root-dir")?, given.path("--keys-dir")?);
    let passphrases = (Source::of(&mut given, "")?, Source::of(&mut given, "keys-")?);
    let root = next_root(&mut given, &root_dir)?;
    let rotation = Rotation { change: change(&mut given)?, root };
    given.end()?;
    match keylist::rotate(&root_dir, &keys_dir, rotation, (passphrases.0, &passphrases.1))? {
        Progress::Done(version) => tell_done(version),
        Progress::Waits { draft, why } => println!(
            "{} waits for signatures ({why}): let the holders of the root keys sign it, then finish the rotation",
            draft.display()
        ),
    }
    Ok(())
}

/// The root that the next list is to name, if it is not the present one.
fn next_root(given: &mut Arguments, root_dir: &Path) -> anyhow::Result<Option<RootKeys>> {
    let files = given.values("--root-pub")?;
    let threshold =
        given.value("--root-threshold")?.map(|n| n.parse().context("--root-threshold")).transpose()?;
    if files.is_empty() && threshold.is_none() {
        return Ok(None);
    }
    let keys = if files.is_empty() {
        keylist::read_present(&root_dir.join(keys::KEY_LIST))?.root().keys.clone()
    } else {
        files.iter().map(|file| keyfile::read_public(file.as_ref())).collect::<anyhow::Result<_>>()?
    };
    ensure!(
        threshold.is_some() || keys.len() == 1,
        "--root-threshold: how many of the {} keys must sign?",
        keys.len()
    );
    Ok(Some(RootKeys { threshold: threshold.unwrap_or(1), keys }))
}

fn change(given: &mut Arguments) -> anyhow::Result<Change> {
    let (renew, leaked) = (given.switch("--renew"), given.switch("--leaked"));
    ensure!(!(renew && leaked), "--renew and --leaked: a stolen key is not renewed");
    if !leaked {
        return Ok(if renew { Change::Renew } else { Change::Replace });
    }
    Ok(Change::ReplaceLeaked(match given.word().as_deref() {
        None => Leaked::Both,
        Some("statements") => Leaked::Statements,
        Some("serving-sets") => Leaked::Sets,
        Some(word) => bail!("`{word}` is not understood here: statements, serving-sets, or nothing for both"),
    }))
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn sign_keylist(mut given: Arguments) -> anyhow::Result<()> {
    let (after, path) = (given.path("--after")?, given.path("--root-key")?);
    let holder = Holder { path, passphrase: Source::of(&mut given, "")? };
    let draft = given.file("FILE")?;
    given.end()?;
    keylist::sign(&draft, &after, &holder, |line| println!("{line}"))
}

fn finish_rotation(mut given: Arguments) -> anyhow::Result<()> {
    let (root_dir, keys_dir) = (given.path("--root-dir")?, given.path("--keys-dir")?);
    given.end()?;
    tell_done(keylist::finish(&root_dir, &keys_dir)?);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn tell_done(version: u32) {
    println!("key list {version} is written: start the signer anew, then publish the list");
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the answer of the command")]
fn resign(mut given: Arguments) -> anyhow::Result<()> {
    let passphrase = Source::of(&mut given, "")?;
    let file = given.file("FILE")?;
    given.end()?;
    let done = resign::resign(&file, &passphrase)?;
    println!("{} statements are signed again, {} were signed by the present key", done.signed, done.kept);
    for left in &done.left {
        eprintln!("mfaas-signer: {left}");
    }
    ensure!(done.left.is_empty(), "{} statements stay as they were", done.left.len());
    Ok(())
}

/// The authority whose certificates nodes and servers have, made anew or taken over from a server of release 0.2.
#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn init_authority(mut given: Arguments) -> anyhow::Result<()> {
    let ca_dir = given.path("--ca-dir")?;
    let from = given.value("--from")?.map(PathBuf::from);
    given.end()?;
    let made = match &from {
        Some(tls_dir) => mfaas_authority::take_over(tls_dir, &ca_dir)?,
        None => mfaas_authority::init(&ca_dir)?,
    };
    let what =
        if made { "the authority is in" } else { "the authority was there already: nothing was changed in" };
    println!("{what} {}", ca_dir.display());
    if let Some(tls_dir) = from {
        let key = tls_dir.join(mfaas_authority::CA_KEY);
        println!("remove {} on every server that is no longer of release 0.2", key.display());
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn certify_server(mut given: Arguments) -> anyhow::Result<()> {
    let (ca_dir, tls_dir) = (given.path("--ca-dir")?, given.path("--tls-dir")?);
    let names = given.values("--name")?;
    given.end()?;
    let parsed = names.iter().map(|name| name.parse().map_err(|why| anyhow::anyhow!("--name {name}: {why}")));
    let made = mfaas_authority::certify_server(&ca_dir, &tls_dir, &parsed.collect::<Result<_, _>>()?)?;
    let what = if made {
        "the server's certificate is in"
    } else {
        "it has these names already: nothing was changed in"
    };
    println!("{what} {}", tls_dir.display());
    Ok(())
}
