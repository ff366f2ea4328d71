//! Other people's audits, as cargo-vet writes them: `audits.toml` of a project, and `imports.lock`
//! with the audits of several.
//!
//! A file is taken whole or not at all: among entries that were passed over might be a violation. So
//! keys that are not known are a reason to leave the file unread, which the rules see. What speaks
//! of a revision instead of a published version, or of a name that no crate can have, is left out
//! and counted; statements about publishers
//! (`wildcard-audits`, `trusted`) are not about a version, and are not taken.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_ident::{CrateName, sanitise, sanitise_line};
use mfaas_rules::crate_facts::{AuditKind, AuditSet, ImportedAudit};
use mfaas_rules::limits::AUDIT_FILE;
use semver::{Version, VersionReq};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::bounds::{self, Bounds};

/// A project's own file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    criteria: BTreeMap<String, Criterion>,
    #[serde(default)]
    audits: BTreeMap<String, Vec<Entry>>,
    #[serde(default, rename = "wildcard-audits")]
    _wildcard_audits: IgnoredAny,
    #[serde(default, rename = "trusted")]
    _trusted: IgnoredAny,
}

/// The files of several projects.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Imports {
    #[serde(default)]
    audits: BTreeMap<String, File>,
    #[serde(default, rename = "publisher")]
    _publisher: IgnoredAny,
    #[serde(default, rename = "unpublished")]
    _unpublished: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Criterion {
    #[serde(default)]
    implies: Words,
    #[serde(default, rename = "description")]
    _description: IgnoredAny,
    #[serde(default, rename = "description-url")]
    _description_url: IgnoredAny,
    #[serde(default, rename = "aggregated-from")]
    _aggregated_from: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    criteria: Words,
    #[serde(default)]
    who: Words,
    version: Option<String>,
    delta: Option<String>,
    violation: Option<String>,
    notes: Option<String>,
    #[serde(default, rename = "aggregated-from")]
    _aggregated_from: IgnoredAny,
    #[serde(default, rename = "importable")]
    _importable: IgnoredAny,
    #[serde(default, rename = "dependency-criteria")]
    _dependency_criteria: IgnoredAny,
}

/// One word or several.
#[derive(Deserialize, Default)]
#[serde(from = "OneOrMore")]
struct Words(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl From<OneOrMore> for Words {
    fn from(words: OneOrMore) -> Self {
        match words {
            OneOrMore::One(word) => Self(vec![word]),
            OneOrMore::More(words) => Self(words),
        }
    }
}

/// Reads the `audits.toml` of `source`.
pub fn read_audits(source: &str, bytes: &[u8]) -> AuditSet {
    let read = parse::<File>(bytes).and_then(|file| entries(source, file));
    read.unwrap_or_else(|reason| AuditSet::unread(&format!("audits of {source}: {reason}")))
}

/// Reads an `imports.lock`; the sources are those that it names.
pub fn read_imports(bytes: &[u8]) -> AuditSet {
    let read = parse::<Imports>(bytes).and_then(|imports| {
        let mut set = AuditSet::default();
        for (source, file) in imports.audits {
            set.extend(entries(&source, file)?);
        }
        if set.audits.len() > AUDIT_FILE.entries_max { Err(too_many()) } else { Ok(set) }
    });
    read.unwrap_or_else(|reason| AuditSet::unread(&format!("imported audits: {reason}")))
}

fn parse<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
    let bounds = Bounds { bytes_max: AUDIT_FILE.file_bytes_max, depth_max: AUDIT_FILE.depth_max };
    let text = bounds::check(bytes, bounds).map_err(|fault| fault.reason.words(bounds))?;
    toml::from_str(text).map_err(|error| error.message().to_owned())
}

fn too_many() -> String {
    format!("it has more than {} entries", AUDIT_FILE.entries_max)
}

fn entries(source: &str, file: File) -> Result<AuditSet, String> {
    if file.criteria.len() > AUDIT_FILE.criteria_max {
        return Err(format!("it defines more than {} criteria", AUDIT_FILE.criteria_max));
    }
    if file.criteria.values().any(|row| row.implies.0.len() > AUDIT_FILE.words_max) {
        return Err(format!("a criterion implies more than {} others", AUDIT_FILE.words_max));
    }
    if file.audits.values().map(Vec::len).sum::<usize>() > AUDIT_FILE.entries_max {
        return Err(too_many());
    }
    let mut set = AuditSet::default();
    for (package, entries) in file.audits {
        let Ok(package) = CrateName::parse(&package) else {
            // Under a name that no crate can have (one such is in a public file) stands nothing about one.
            set.left_out += entries.len();
            continue;
        };
        for entry in entries {
            let about = |reason| format!("{package}: {reason}");
            match kind(&entry).map_err(about)? {
                None => set.left_out += 1,
                Some(kind) => {
                    let audit = audit(source, &package, kind, entry, &file.criteria);
                    set.audits.push(audit.map_err(about)?);
                }
            }
        }
    }
    Ok(set)
}

fn audit(
    source: &str,
    package: &CrateName,
    kind: AuditKind,
    entry: Entry,
    table: &BTreeMap<String, Criterion>,
) -> Result<ImportedAudit, String> {
    let criteria = implied(entry.criteria.0, table)?;
    Ok(ImportedAudit {
        source: sanitise_line(source, 100),
        package: package.clone(),
        kind,
        criteria: criteria.iter().map(|word| sanitise_line(word, 100)).collect(),
        who: entry.who.0.iter().take(AUDIT_FILE.words_max).map(|name| sanitise_line(name, 200)).collect(),
        notes: entry.notes.map(|notes| sanitise(&notes, AUDIT_FILE.notes_bytes_max)),
    })
}

/// What an entry is about; `None` for a revision that was never published.
fn kind(entry: &Entry) -> Result<Option<AuditKind>, String> {
    match (&entry.version, &entry.delta, &entry.violation) {
        (Some(text), None, None) => Ok(version(text)?.map(|version| AuditKind::Full { version })),
        (None, Some(text), None) => delta(text),
        (None, None, Some(text)) => match VersionReq::parse(text) {
            Ok(versions) => Ok(Some(AuditKind::Violation { versions })),
            Err(_) => Err(format!("{text:?} is no range of versions")),
        },
        _ => Err("an entry is about one version, one delta or one violation".to_owned()),
    }
}

fn delta(text: &str) -> Result<Option<AuditKind>, String> {
    let (from, to) = text.split_once("->").ok_or_else(|| format!("{text:?} is no delta"))?;
    let ends = (version(from.trim())?, version(to.trim())?);
    Ok(match ends {
        (Some(from), Some(to)) => Some(AuditKind::Delta { from, to }),
        (None, _) | (_, None) => None,
    })
}

/// `None` for `1.0.0@git:…`.
fn version(text: &str) -> Result<Option<Version>, String> {
    let (number, revision) = text.split_once('@').map_or((text, None), |(left, right)| (left, Some(right)));
    let version = Version::parse(number).map_err(|_| format!("{text:?} is no version"))?;
    Ok(revision.is_none().then_some(version))
}

/// The criteria with all that the table says they imply; sorted. One criterion is cargo-vet's own.
fn implied(words: Vec<String>, table: &BTreeMap<String, Criterion>) -> Result<BTreeSet<String>, String> {
    if words.is_empty() || words.len() > AUDIT_FILE.words_max {
        return Err(format!("an entry has between 1 and {} criteria", AUDIT_FILE.words_max));
    }
    let mut found = BTreeSet::new();
    let mut pending = words;
    while let Some(word) = pending.pop() {
        if found.contains(&word) {
            continue;
        }
        if word == "safe-to-deploy" {
            pending.push("safe-to-run".to_owned());
        }
        pending.extend(table.get(&word).into_iter().flat_map(|row| row.implies.0.iter().cloned()));
        found.insert(word);
        if found.len() > AUDIT_FILE.criteria_max {
            return Err(format!("its criteria imply more than {} others", AUDIT_FILE.criteria_max));
        }
    }
    Ok(found)
}
