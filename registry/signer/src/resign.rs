//! `resign`: the statements of all versions that can be called, signed by the present key. After a leak nothing that the stolen
//! key signed counts, and nothing needs to be built again for that: what was admitted stands in the database, where the
//! thief of a key alone could not write.
//!
//! Must never sign what the database does not say of a version that was admitted, nor a statement that no key of this
//! installation ever signed.

use mfaas_startup::Variables;
use std::path::Path;

use anyhow::{Context as _, ensure};
use mfaas_attest::{Admission, PrivateKey, Purpose, Statement, Trust, TrustedRoot, Verified, sign, verify};
use mfaas_ident::Digest;
use postgres::Client;

use crate::ledger::{self, AdmittedVersion};
use crate::passphrase::Source;
use crate::{connection, keylist, keys};

/// Statements in one transaction.
const BATCH: i64 = 200;

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Resigned {
    pub(crate) signed: u64,
    /// Were signed by the present key already.
    pub(crate) kept: u64,
    /// Which ones cannot be signed again, and why.
    pub(crate) left: Vec<String>,
}

/// Signs what the present key of `MFAAS_KEYS_DIR` has not signed. The list in `file` must name that key, and have been
/// published; the root key lies beside it.
pub(crate) fn resign(file: &Path, passphrase: &Source) -> anyhow::Result<Resigned> {
    let root = TrustedRoot::of_key(keylist::root_beside(file)?);
    let present = keylist::read_present(file)?;
    let list = present.list().context("no key list")?;
    let variables = Variables::of_process();
    let key = keys::load(variables.required("MFAAS_KEYS_DIR")?.as_ref(), passphrase)?.statements.key;
    let is_listed =
        |row: &&mfaas_attest::ListedKey| (row.purpose, row.keyid) == (Purpose::Artifact, key.public().id());
    ensure!(list.keys.iter().any(|row| is_listed(&row)), "{} does not name the present key", file.display());
    let mut client = connection::connect(&variables.required("MFAAS_DATABASE_URL")?)?;
    ledger::check_schema(&mut client)?;
    let lists = ledger::key_lists(&mut client)?;
    ensure!(
        lists.iter().any(|(version, _)| *version == list.version),
        "key list {} is not published: nodes would not believe what it names",
        list.version
    );
    let past = past_keys(&lists, root)?;
    let mut done = Resigned::default();
    let mut after = None;
    while let Some(last) = batch(&mut client, (&key, &past), after.as_ref(), &mut done)? {
        after = Some(last);
    }
    Ok(done)
}

/// Every key that may ever have signed statements here, stolen ones too.
fn past_keys(lists: &[(u32, String)], mut root: TrustedRoot) -> anyhow::Result<Trust> {
    let mut past = Trust::default();
    for (version, envelope) in lists {
        root = root
            .follow(envelope.as_bytes())
            .with_context(|| format!("key list {version} in the database"))?;
        for row in
            root.list().iter().flat_map(|list| &list.keys).filter(|row| row.purpose == Purpose::Artifact)
        {
            past = past.and_key(Purpose::Artifact, row.public);
        }
    }
    Ok(past)
}

/// Signs the next ones; returns the last of them, or nothing when there are no more.
fn batch(
    client: &mut Client,
    (key, past): (&PrivateKey, &Trust),
    after: Option<&AdmittedVersion>,
    done: &mut Resigned,
) -> anyhow::Result<Option<AdmittedVersion>> {
    let mut tx = client.transaction()?;
    let versions = ledger::admitted_after(&mut tx, after, BATCH)?;
    let mut signed = 0;
    for version in &versions {
        match judge(version, past) {
            Ok(statement) if statement.key() == key.public().id() => done.kept += 1,
            Ok(statement) => {
                let envelope = String::from_utf8(sign(statement.get(), &[key])?)?;
                let digest = Digest::of(envelope.as_bytes());
                ledger::replace_statement(&mut tx, version, &digest, &envelope)?;
                signed += 1;
            }
            Err(why) => done.left.push(format!("{}: {why}", version.name())),
        }
    }
    if signed > 0 {
        ledger::record_resigned(&mut tx, signed, key.public().id())?;
    }
    tx.commit()?;
    done.signed += signed;
    Ok(versions.into_iter().last())
}

/// The statement, if it says what the database says of the version.
fn judge(version: &AdmittedVersion, past: &Trust) -> Result<Verified<Statement>, String> {
    let statement =
        verify::<Statement>(version.envelope.as_bytes(), past).map_err(|error| error.to_string())?;
    let Admission { tenant, function, version: number, artifact, deployment, source_upload, .. } =
        &statement.predicate;
    let said = (tenant, function, number, artifact, deployment, source_upload);
    let AdmittedVersion { tenant, function, version: number, artifact, deployment, source, .. } = version;
    if said == (tenant, function, number, artifact, deployment, source) {
        Ok(statement)
    } else {
        Err("the statement is about something else".to_owned())
    }
}
