//! Files of the RustSec advisory database: Markdown with a head of TOML, one file for each advisory.
//!
//! A file that is not understood is never an advisory that does not exist: [`read_all`] keeps it as
//! unread, with the crate that its directory names, and the rules let no such crate in by itself. What
//! decides which versions are hit must be understood whole; everything else in a head is left alone.
//! The texts are hostile like all others.

use mfaas_ident::{CrateName, sanitise_line};
use mfaas_rules::crate_facts::{Advisory, AdvisoryKind, AdvisorySet, UnreadAdvisory};
use mfaas_rules::limits::ADVISORY;
use semver::{Op, VersionReq};
use serde::Deserialize;

use crate::bounds::{self, Bounds};

/// Phrases in the title of an advisory about a crate that was published to do harm. The advisory
/// database has no field for that.
const MALICIOUS_TITLES: &[&str] = &["malicious crate", "malicious code", "malware", "removed from crates.io"];
/// Keywords of such an advisory.
const MALICIOUS_KEYWORDS: &[&str] = &["malware", "malicious", "typosquatting", "backdoor"];
/// How the list of malicious packages that many registries share names its entries.
const MALICIOUS_ALIAS: &str = "MAL-";

#[derive(Deserialize)]
struct Head {
    advisory: Meta,
    versions: Versions,
}

#[derive(Deserialize)]
struct Meta {
    id: String,
    package: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    informational: Option<String>,
    #[serde(default)]
    withdrawn: Option<String>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    aliases: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Versions {
    patched: Vec<String>,
    #[serde(default)]
    unaffected: Vec<String>,
}

/// Reads all files, given by their path below the database's directory `crates/`.
pub fn read_all<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> AdvisorySet {
    let mut set = AdvisorySet { advisories: Vec::new(), unread: Vec::new() };
    for (path, bytes) in files {
        match read(path, bytes) {
            Ok(advisory) => set.advisories.push(advisory),
            Err(unread) => set.unread.push(unread),
        }
    }
    set
}

/// Reads one file; `path` ends with `NAME/RUSTSEC-YYYY-NNNN.md`, which must be what is in it.
pub fn read(path: &str, bytes: &[u8]) -> Result<Advisory, UnreadAdvisory> {
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or_default();
    let package = parts.next().and_then(|name| CrateName::parse(name).ok());
    advisory(file, package.as_ref(), bytes).map_err(|reason| UnreadAdvisory {
        package,
        reason: sanitise_line(&format!("{path}: {reason}"), ADVISORY.title_bytes_max),
    })
}

fn advisory(file: &str, place: Option<&CrateName>, bytes: &[u8]) -> Result<Advisory, String> {
    let bounds = Bounds { bytes_max: ADVISORY.file_bytes_max, depth_max: ADVISORY.depth_max };
    if bytes.len() > bounds.bytes_max {
        return Err(bounds::Reason::TooLarge.words(bounds));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| bounds::Reason::NotUtf8.words(bounds))?;
    let (head, body) = split(text).ok_or("it does not begin with a head of TOML")?;
    bounds::check(head.as_bytes(), bounds).map_err(|fault| fault.reason.words(bounds))?;
    let head: Head = toml::from_str(head).map_err(|error| error.message().to_owned())?;
    let package = CrateName::parse(&head.advisory.package).map_err(|error| error.to_string())?;
    if place != Some(&package) || file.strip_suffix(".md") != Some(head.advisory.id.as_str()) {
        return Err(format!("it is about {package} and calls itself {}", head.advisory.id));
    }
    if !is_id(&head.advisory.id) {
        return Err(format!("{} is no identifier of an advisory", head.advisory.id));
    }
    let title = title(body).ok_or("it has no title")?;
    let patched = requirements(&head.versions.patched)?;
    let kind = kind(&head.advisory, &title, patched.is_empty())?;
    Ok(Advisory {
        kind,
        package,
        title,
        patched,
        unaffected: requirements(&head.versions.unaffected)?,
        withdrawn: withdrawn(head.advisory.withdrawn.as_deref())?,
        url: head.advisory.url.map(|url| sanitise_line(&url, ADVISORY.title_bytes_max)),
        id: head.advisory.id,
    })
}

/// The text between the fences at the beginning, and what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("```toml")?.trim_start_matches('\r').strip_prefix('\n')?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "```" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// `RUSTSEC-2021-0001`.
fn is_id(id: &str) -> bool {
    let number = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = id.strip_prefix("RUSTSEC-").and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(year, count)| number(year, 4) && number(count, 4))
}

/// The first heading.
fn title(body: &str) -> Option<String> {
    let line = body.lines().find_map(|line| line.strip_prefix("# "))?.trim();
    (!line.is_empty()).then(|| sanitise_line(line, ADVISORY.title_bytes_max))
}

fn requirements(written: &[String]) -> Result<Vec<VersionReq>, String> {
    if written.len() > ADVISORY.requirements_max {
        return Err(format!("it has more than {} ranges of versions", ADVISORY.requirements_max));
    }
    written.iter().map(|text| requirement(text)).collect()
}

/// A requirement that leaves some version affected and that the rules can compare with.
fn requirement(text: &str) -> Result<VersionReq, String> {
    let no = |why: &str| Err(format!("{text:?} {why}"));
    match VersionReq::parse(text) {
        Err(_) => no("is no range of versions"),
        // What hits no version is withdrawn, and says so.
        Ok(parsed) if parsed.comparators.is_empty() => no("stands for every version"),
        Ok(parsed) if parsed.comparators.iter().any(|one| one.op == Op::Wildcard) => no("has a wildcard"),
        Ok(parsed) => Ok(parsed),
    }
}

fn withdrawn(written: Option<&str>) -> Result<bool, String> {
    let Some(date) = written else { return Ok(false) };
    let digits = |range: std::ops::Range<usize>| {
        date.get(range).is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_date = date.len() == 10
        && digits(0..4)
        && digits(5..7)
        && digits(8..10)
        && (&date[4..5], &date[7..8]) == ("-", "-");
    if is_date { Ok(true) } else { Err(format!("withdrawn on {date:?}, which is no date")) }
}

fn kind(meta: &Meta, title: &str, unpatched: bool) -> Result<AdvisoryKind, String> {
    match meta.informational.as_deref() {
        None if is_malicious(meta, title, unpatched) => Ok(AdvisoryKind::Malicious),
        None => Ok(AdvisoryKind::Vulnerability),
        Some("unsound") => Ok(AdvisoryKind::Unsound),
        Some("unmaintained") => Ok(AdvisoryKind::Unmaintained),
        Some("notice") => Ok(AdvisoryKind::Notice),
        Some(other) => Err(format!("it is of a kind that nobody here knows: {other:?}")),
    }
}

/// Whether the crate itself is the attack. An alias in the shared list of malicious packages says so;
/// a phrase in the title or a keyword says so where no version is patched, since a crate with a patched
/// version has a benign publisher. Either way the crate is refused; this is what the reason is called.
fn is_malicious(meta: &Meta, title: &str, unpatched: bool) -> bool {
    let title = title.to_ascii_lowercase();
    let named = MALICIOUS_TITLES.iter().any(|phrase| title.contains(phrase));
    let tagged = meta.keywords.iter().any(|word| MALICIOUS_KEYWORDS.contains(&word.as_str()));
    meta.aliases.iter().any(|alias| alias.starts_with(MALICIOUS_ALIAS)) || (unpatched && (named || tagged))
}
