//! `facts`: what stands in a dependency's directory, for the person who decides about it.
//!
//! Two readers that share nothing look at every file: geiger, a parser, in a child process in the
//! build sandbox, because it overflows its stack on a few thousand brackets; and our own lexer, which
//! sees macro bodies and attributes that geiger does not. Nothing here is a verdict, and nothing that
//! was not read or not understood counts as zero.

mod archive;
mod child;
mod directory;
mod geiger;
mod show;

use mfaas_startup::Variables;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use mfaas_audit::crate_source::{self, FileScan, Reference};
use mfaas_audit::shapes::shapes;
use mfaas_audit::touches::touches;
use mfaas_rules::crate_facts::{CrateFacts, FileFacts, Role, ShapeReport, TouchReport, summarise};
use mfaas_unpack::CrateArchive;

pub(crate) use archive::{archive_facts, unread_archive};
pub(crate) use child::child;
pub(crate) use geiger::GEIGER_COMMAND;
pub(crate) use show::{draw, print_text};

use crate::config;
use crate::error::BuilderError;
use crate::sandbox::Sandbox;
use directory::ManifestFacts;
use directory::{Directory, Package};

/// Reads the crate in `directory` and prints its facts.
pub(crate) fn facts(directory: &Path, json: bool) -> Result<ExitCode, BuilderError> {
    let sandbox = Sandbox::new(config::sandbox_minimum(&Variables::of_process())?)?;
    let facts = gather(directory, &sandbox)?;
    show::print_text(&facts, json, || draw(&facts))?;
    Ok(ExitCode::SUCCESS)
}

/// All facts about one directory.
pub(crate) fn gather(directory: &Path, sandbox: &Sandbox) -> Result<CrateFacts, BuilderError> {
    gather_from(directory::read(directory)?, sandbox).map(|(facts, _)| facts)
}

/// What is told about a crate beside [`CrateFacts`].
#[derive(Debug)]
pub(crate) struct More {
    pub(crate) manifest: ManifestFacts,
    pub(crate) touches: TouchReport,
    pub(crate) shapes: ShapeReport,
}

impl More {
    /// Where nothing could be read.
    pub(crate) fn missing(reason: &str) -> Self {
        Self {
            manifest: ManifestFacts::default(),
            touches: TouchReport::missing(reason),
            shapes: ShapeReport::missing(reason),
        }
    }
}

/// All facts about the source in an archive.
pub(crate) fn gather_archive(
    archive: &CrateArchive,
    sandbox: &Sandbox,
) -> Result<(CrateFacts, More), BuilderError> {
    let (facts, manifest) = gather_from(Directory::of_archive(archive), sandbox)?;
    // A build script runs on the build machine, whatever it touches, and is told of as such.
    let library = || {
        let files = facts.files.iter().filter(|file| file.role == Role::Library);
        files.filter_map(|file| Some((file.path.as_str(), text(archive.get(&file.path)?)?)))
    };
    let more = More { manifest, touches: touches(library()), shapes: shapes(library()) };
    Ok((facts, more))
}

/// All facts about these files. An error is a failure of ours or of the machine; whatever is wrong
/// with the crate is among the facts.
fn gather_from(mut found: Directory, sandbox: &Sandbox) -> Result<(CrateFacts, ManifestFacts), BuilderError> {
    let package = Package::read(&found);
    let scanned = scan(&mut found, &package);
    let texts: Vec<Option<&str>> =
        scanned.keys().map(|path| found.files.get(path).and_then(|bytes| text(bytes))).collect();
    let reports = geiger::count(&texts, sandbox)?;
    let mut files = Vec::new();
    let (mut exported_macros, mut proc_macro) = (Vec::new(), package.proc_macro);
    for ((path, (role, scan)), geiger) in scanned.into_iter().zip(reports) {
        if role != Role::Aside {
            exported_macros.extend(scan.exported_macros);
            proc_macro |= scan.proc_macro;
        }
        let bytes = found.files.get(&path).map_or(0, |bytes| bytes.len() as u64);
        files.push(FileFacts { path, role, bytes, geiger, tokens: scan.tokens });
    }
    let build_script = files.iter().any(|file| file.role == Role::BuildScript);
    let summary = summarise(&files, &found.unread, proc_macro, build_script);
    let manifest = package.manifest;
    let facts = CrateFacts {
        package: package.name,
        files,
        exported_macros,
        proc_macro,
        build_script,
        unread: found.unread,
        summary,
    };
    Ok((facts, manifest))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Scans every Rust file, and whatever one of them takes in as source, whatever its name is.
fn scan(found: &mut Directory, package: &Package) -> BTreeMap<String, (Role, FileScan)> {
    let is_root = |path: &str| package.roots.contains(path);
    let names: Vec<String> = found.files.keys().cloned().collect();
    let mut pending: Vec<(String, Role)> = names
        .iter()
        .filter(|path| path.ends_with(".rs") || is_root(path))
        .map(|path| (path.clone(), package.role(path)))
        .collect();
    let mut scanned: BTreeMap<String, (Role, FileScan)> = BTreeMap::new();
    let mut missing = BTreeSet::new();
    while let Some((path, role)) = pending.pop() {
        // A file that the library takes in is the library's, wherever it lies.
        if scanned.get(&path).is_some_and(|(known, _)| *known == role || *known != Role::Aside) {
            continue;
        }
        let scan =
            found.files.get(&path).and_then(|bytes| text(bytes)).map(|text| crate_source::scan(&path, text));
        let scan = scan.unwrap_or_default();
        for reference in &scan.references {
            match resolve(reference, &path, &names) {
                Ok(taken) => pending.push((taken, role)),
                Err(problem) if role != Role::Aside => {
                    missing.insert(problem);
                }
                Err(_) => {}
            }
        }
        scanned.insert(path, (role, scan));
    }
    found.unread.extend(missing);
    scanned
}

/// The file that a reference of `from` leads to, or why there is none.
fn resolve(reference: &Reference, from: &str, names: &[String]) -> Result<String, String> {
    let written = match reference {
        Reference::Computed(what) => return Err(format!("{from}: {what}: what it takes in is in no file")),
        Reference::File(written) => written,
    };
    let beside = directory::joined(from, written);
    let known = |path: &String| names.binary_search(path).is_ok();
    if let Some(path) = beside.filter(known) {
        return Ok(path);
    }
    // `#[path]` inside of an inline module counts from another directory.
    let ending = format!("/{written}");
    let elsewhere = names.iter().find(|name| name.ends_with(&ending)).filter(|_| !written.contains(".."));
    elsewhere.cloned().ok_or_else(|| {
        let written = mfaas_ident::sanitise_line(written, 120);
        format!("{from}: it takes in {written:?}, which is not in this directory")
    })
}
