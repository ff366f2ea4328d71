//! How what runs in cargo's sandbox asks for a compilation or a build script to be run in a sandbox of its own.
//!
//! Files in a directory that both sides see: a sandbox has no sockets to the outside. An ask appears under
//! its final name when it is complete, and so does its answer. Only our own program writes here; nothing
//! of a dependency ever runs where this directory can be seen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Names the directory; its presence sends the wrapper there.
pub(super) const EXCHANGE_VARIABLE: &str = "MFAAS_UNIT_EXCHANGE";
/// How often either side looks: far below what the shortest compilation takes.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(2);

const ASK: &str = "ask";
const ANSWER: &str = "answer";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";

/// What is to be run, as cargo would have run it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// The compiler, or the place where cargo believes that the build script is.
    pub(super) program: String,
    /// Those of a compiler; a build script has none.
    pub(super) arguments: Vec<String>,
    /// The whole environment.
    pub(super) environment: BTreeMap<String, String>,
    /// Where it starts.
    pub(super) directory: String,
}

/// How it ended, and what it said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u8,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Asks and waits. Whoever answers ends the sandbox when it will not answer any more.
pub(super) fn ask(directory: &Path, ask: &Ask) -> Result<Answer, String> {
    let json = serde_json::to_vec(ask).map_err(|error| error.to_string())?;
    // Nobody else in this sandbox has the same number at the same time.
    let name = std::process::id().to_string();
    let place = |kind: &str| directory.join(format!("{name}.{kind}"));
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    write_whole(&place(ASK), &json).map_err(failed)?;
    while !place(ANSWER).exists() {
        std::thread::sleep(LOOK_EVERY);
    }
    let take = |kind: &str| {
        let path = place(kind);
        let bytes = std::fs::read(&path)?;
        std::fs::remove_file(&path).map(|()| bytes)
    };
    let (stdout, stderr) = (take(STDOUT).map_err(failed)?, take(STDERR).map_err(failed)?);
    let code: u8 =
        serde_json::from_slice(&take(ANSWER).map_err(failed)?).map_err(|error| error.to_string())?;
    Ok(Answer { code, stdout, stderr })
}

/// The asks that are there, each with the name under which it is answered. They are gone afterwards.
pub(super) fn take(directory: &Path) -> std::io::Result<Vec<(String, Ask)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        if let (Some(name), true) = (name, path.extension().is_some_and(|kind| kind == ASK)) {
            let ask = serde_json::from_slice(&std::fs::read(&path)?).map_err(std::io::Error::other)?;
            std::fs::remove_file(&path)?;
            found.push((name, ask));
        }
    }
    Ok(found)
}

/// Answers the ask of that name.
pub(super) fn answer(directory: &Path, name: &str, answer: &Answer) -> std::io::Result<()> {
    let place = |kind: &str| directory.join(format!("{name}.{kind}"));
    std::fs::write(place(STDOUT), &answer.stdout)?;
    std::fs::write(place(STDERR), &answer.stderr)?;
    write_whole(&place(ANSWER), answer.code.to_string().as_bytes())
}

/// Under its name there is all of it or nothing.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let unfinished: PathBuf = path.with_added_extension("unfinished");
    std::fs::write(&unfinished, bytes)?;
    std::fs::rename(&unfinished, path)
}
