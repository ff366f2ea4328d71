//! The chain of the audit log, computed here: a server that was taken over would say that it holds.
//!
//! Two heads are trusted: where the last verification on this machine ended, and what the newest serving set names under the
//! pinned root. The chain must pass both. A server that gives no set, or one that has expired, has shown nothing.
//!
//! The oldest rows may be in archives, which are computed first where they are given. The log keeps the last row of each, and a
//! record behind it names that row: without such a record, rows that are missing were removed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use mfaas_attest::{AuditArchive, AuditHead, ServingSet, verify as verify_envelope};
use mfaas_supervisor::write_atomically;
use mfaas_wire::{AuditLink, Page};
use serde::Serialize;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::root::trusted_root;
use crate::settings::Context;

/// Rows of one question.
const PAGE_ROWS: u32 = 1_000;
/// A line of an archive: details are bounded where they are written.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// The database counts no further: a server that names a later row would have ours overflow.
const ROW_MAX: u64 = i64::MAX.unsigned_abs();
/// Of an audit link's fields, the action and the detail.
const ACTION: usize = 3;
const DETAIL: usize = 6;

/// What was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Verification {
    pub(super) holds: bool,
    /// How long the chain is, as far as it holds.
    rows: u64,
    /// How many of them were computed this time.
    computed: u64,
    /// The row that the newest serving set names.
    signed_row: u64,
    /// Up to which row the chain was not computed, because it is in archives that were not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_to: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Asks, computes, remembers.
pub(super) async fn verify(context: &Context, all: bool, archives: &[PathBuf]) -> Result<Exit, Failure> {
    let client = context.client()?;
    let pin = context.pinned_root()?.pin().to_string();
    let memory = Memory::of(context, context.profile.root_key.clone().unwrap_or(pin))?;
    let all = all || !archives.is_empty();
    let known = if all { None } else { memory.head() };
    let signed = signed_head(context, &client).await?;
    let mut walk = Walk::new(known, signed);
    walk.all = all;
    take_archives(&mut walk, archives)?;
    while let Some(after) = walk.wants() {
        let path = format!("/v1/audit/chain?after={after}&limit={PAGE_ROWS}");
        let page: Page<AuditLink> = client.get(&path).await?;
        walk.take(&page);
    }
    let (head, result) = walk.finish(signed);
    if result.holds {
        memory.keep(head)?;
    }
    context.screen.result(&result, || match &result.problem {
        None => format!(
            "the chain holds: {} rows, {} of them computed now; the newest serving set names row {}{}",
            result.rows,
            result.computed,
            result.signed_row,
            result.archived_to.map_or_else(String::new, |row| format!(
                "; rows up to {row} are archived and were not looked at: --archive FILE"
            ))
        ),
        Some(problem) => format!("the chain is broken: {problem}"),
    })?;
    Ok(if result.holds { Exit::Ok } else { Exit::Unverified })
}

/// Computes archives from the first row on, in the order of their rows.
pub(super) fn take_archives(walk: &mut Walk, paths: &[PathBuf]) -> Result<(), Failure> {
    let mut archives: Vec<OpenArchive> =
        paths.iter().map(|path| OpenArchive::open(path)).collect::<Result<_, _>>()?;
    archives.sort_by_key(|archive| archive.head.start.row);
    for archive in archives {
        if walk.problem.is_none() {
            archive.compute(walk)?;
        }
    }
    walk.entry = walk.head;
    Ok(())
}

/// An archive whose first line was read.
struct OpenArchive {
    path: PathBuf,
    lines: BufReader<File>,
    head: AuditArchive,
}

impl OpenArchive {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(Failure::io("cannot open", path))?;
        let mut lines = BufReader::new(file);
        let unreadable = |why: &str| Failure::Unverified(format!("{} is no archive: {why}", path.display()));
        let first = line(&mut lines, path)?.ok_or_else(|| unreadable("it is empty"))?;
        let head: AuditArchive =
            serde_json::from_slice(&first).map_err(|error| unreadable(&error.to_string()))?;
        if head.format != AuditArchive::FORMAT {
            return Err(unreadable(&format!(
                "its format is {}, this mfaas reads {}",
                head.format,
                AuditArchive::FORMAT
            )));
        }
        Ok(Self { path: path.to_owned(), lines, head })
    }

    /// Every row of it, behind those of the archives before.
    fn compute(mut self, walk: &mut Walk) -> Result<(), Failure> {
        let name = self.path.display().to_string();
        if walk.head != self.head.start {
            let (from, to) = (walk.head.row + 1, self.head.start.row);
            walk.problem = Some(match from <= to {
                true => {
                    format!("rows {from} to {to} are in no archive that was given; {name} begins behind them")
                }
                false => format!("{name} does not go on where the archive before ends"),
            });
            return Ok(());
        }
        while walk.problem.is_none()
            && let Some(text) = line(&mut self.lines, &self.path)?
        {
            let link: AuditLink = serde_json::from_slice(&text)
                .map_err(|error| Failure::Unverified(format!("{name}: a line is no row: {error}")))?;
            // There is nothing that an archive could have left to another one.
            if link.row != walk.head.row + 1 {
                walk.problem = Some(format!("row {} is missing; {} comes next", walk.head.row + 1, link.row));
                break;
            }
            walk.take(&Page { items: vec![link], next: Some(String::new()) });
        }
        walk.problem = match walk.problem.take() {
            Some(problem) => Some(format!("{name}: {problem}")),
            None if walk.head != self.head.end => {
                Some(format!("{name}: row {} is missing, with which it ends", self.head.end.row))
            }
            None => None,
        };
        Ok(())
    }
}

/// The next line; `None` at the end.
fn line(lines: &mut BufReader<File>, path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let mut text = Vec::new();
    lines.take(LINE_BYTES_MAX).read_until(b'\n', &mut text).map_err(Failure::io("cannot read", path))?;
    Ok((!text.is_empty()).then_some(text))
}

/// What the newest serving set names. Without one nothing is verified: an attacker who wrote the log anew would withhold it.
async fn signed_head(context: &Context, client: &Client) -> Result<AuditHead, Failure> {
    let unverified = |error: mfaas_attest::AttestError| Failure::Unverified(error.to_string());
    let set = client.get_bytes("/v1/serving-set").await.map_err(|failure| match failure {
        Failure::Problem(problem) if problem.status == 404 => Failure::Unverified(
            "the server gives no serving set, so nothing vouches for the chain".to_owned(),
        ),
        other => other,
    })?;
    let (root, now) = (trusted_root(context, client).await?, chrono::Utc::now());
    let set = verify_envelope::<ServingSet>(&set, &root.trust(now)).map_err(unverified)?;
    head_of(&set, now).map_err(Failure::Unverified)
}

/// The head that a set names, unless it is too old to say anything about today.
fn head_of(set: &ServingSet, now: chrono::DateTime<chrono::Utc>) -> Result<AuditHead, String> {
    if set.is_expired(now) {
        return Err(format!(
            "the newest serving set that the server gives was valid until {}",
            set.expires_at
        ));
    }
    Ok(set.audit_head)
}

/// A walk along the chain, past every head that is trusted.
#[derive(Debug)]
pub(super) struct Walk {
    start: AuditHead,
    head: AuditHead,
    /// Whether the log still has the row that it starts with.
    confirmed: bool,
    /// What the chain must pass, by row; each with who says so.
    trusted: BTreeMap<u64, Vec<(AuditHead, &'static str)>>,
    ended: bool,
    problem: Option<String>,
    /// Whether every row has to be computed, archived ones as well.
    pub(super) all: bool,
    /// The head with which the log is begun: the start, or the end of the archives.
    entry: AuditHead,
    /// Rows that the log does not have, up to the one with which it begins.
    gap: Option<Gap>,
}

/// What is missing before the first row of the log.
#[derive(Debug)]
struct Gap {
    /// The first row of it.
    from: u64,
    /// The row behind it, with the hash that the log gives for it.
    end: AuditHead,
    /// Whether a record of the chain says that it is in an archive.
    is_recorded: bool,
}

impl Walk {
    /// From the lower of two trusted heads, or from the first row where nothing was ever verified.
    pub(super) fn new(known: Option<AuditHead>, signed: AuditHead) -> Self {
        let mut trusted: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        let named = known.map(|head| (head, "the last verification"));
        for (head, who) in named.into_iter().chain([(signed, "the newest serving set")]) {
            // Before the first row there is nothing to compare.
            if head.row > 0 {
                trusted.entry(head.row).or_default().push((head, who));
            }
        }
        let start = match known {
            Some(known) if signed.row < known.row => signed,
            Some(known) => known,
            None => AuditHead::START,
        };
        let confirmed = start.row == 0;
        Self {
            start,
            head: start,
            confirmed,
            trusted,
            ended: false,
            problem: None,
            all: false,
            entry: start,
            gap: None,
        }
    }

    /// Behind which row to go on, unless it is over.
    pub(super) fn wants(&self) -> Option<u64> {
        let after = self.head.row - u64::from(!self.confirmed);
        (!self.ended && self.problem.is_none()).then_some(after)
    }

    /// Computes a page.
    pub(super) fn take(&mut self, page: &Page<AuditLink>) {
        for link in &page.items {
            if self.problem.is_some() {
                return;
            }
            if !self.confirmed && link.row == self.head.row {
                // Computed before, or signed: it is compared like every other one that is trusted.
                self.confirmed = true;
                self.head.hash = link.hash;
                self.compare();
                continue;
            }
            if !self.confirmed && link.row == self.head.row + 1 {
                // The row that was computed before is in an archive; its hash is a part of this one's.
                self.confirmed = true;
                self.trusted.remove(&self.head.row);
            }
            if link.row != self.head.row + 1 {
                let missing = self.head.row + u64::from(self.confirmed);
                if self.head != self.entry || link.row <= missing || link.row > ROW_MAX {
                    self.problem = Some(format!("row {missing} is missing; {} comes next", link.row));
                    return;
                }
                // Archived, or removed: a record behind it has to say so.
                self.head = AuditHead { row: link.row, hash: link.hash };
                self.gap = Some(Gap { from: missing, end: self.head, is_recorded: false });
                self.confirmed = true;
                self.compare();
                continue;
            }
            let number = link.row.to_string();
            let fields = [number.as_str()].into_iter().chain(link.fields.iter().map(String::as_str));
            let next = self.head.next(fields);
            if next.hash != link.hash {
                self.problem = Some(format!("row {} does not match its hash", link.row));
                return;
            }
            self.head = next;
            self.compare();
            self.note_archive(link);
        }
        self.ended = page.next.is_none() || page.items.is_empty();
    }

    /// A record of the chain names the last row of an archive.
    fn note_archive(&mut self, link: &AuditLink) {
        let Some(gap) = self.gap.as_mut().filter(|_| link.fields[ACTION] == AuditArchive::ACTION) else {
            return;
        };
        let detail: serde_json::Value = serde_json::from_str(&link.fields[DETAIL]).unwrap_or_default();
        let names_it = detail["last_row"] == gap.end.row && detail["hash"] == gap.end.hash.to_string();
        gap.is_recorded = gap.is_recorded || names_it;
    }

    /// What stands against rows that are not in the log.
    fn gap_problem(&self) -> Option<String> {
        let gap = self.gap.as_ref()?;
        let (from, end) = (gap.from, gap.end.row);
        if !gap.is_recorded {
            return Some(format!("row {from} is missing; {end} comes next"));
        }
        let needed = self.all || self.trusted.keys().next().is_some_and(|row| *row < end);
        needed.then(|| {
            format!("rows {from} to {end} are in an archive that was not given: name it with --archive FILE")
        })
    }

    fn compare(&mut self) {
        let here = self.trusted.remove(&self.head.row).unwrap_or_default();
        if let Some((_, who)) = here.iter().find(|(head, _)| head.hash != self.head.hash) {
            self.problem = Some(format!("row {} is another one than {who} names", self.head.row));
        }
    }

    pub(super) fn finish(self, signed: AuditHead) -> (AuditHead, Verification) {
        let archived = self.gap_problem();
        let Self { start, head, trusted, problem, gap, .. } = self;
        let cut = || {
            let (row, named) = trusted.last_key_value()?;
            let who = named.first().map_or("", |(_, who)| who);
            Some(format!("row {row} is missing, which {who} names"))
        };
        let problem = problem.or(archived).or_else(cut);
        let archived_to = gap.map(|gap| gap.end.row);
        let result = Verification {
            holds: problem.is_none(),
            rows: head.row,
            computed: head.row - archived_to.unwrap_or(start.row),
            signed_row: signed.row,
            archived_to,
            problem,
        };
        (head, result)
    }
}

/// Where verifications ended, by what is pinned of the installation, in a file beside the profile.
struct Memory {
    path: PathBuf,
    root: String,
    heads: BTreeMap<String, AuditHead>,
}

impl Memory {
    fn of(context: &Context, root: String) -> Result<Self, Failure> {
        let profile = context.profile_path.as_ref();
        let path = profile.map(|path| path.with_file_name("audit-heads.json")).ok_or_else(|| {
            Failure::Usage(
                "there is no home directory to remember a verification in: use --profile-file".to_owned(),
            )
        })?;
        let heads = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Failure::Local(format!("{} is damaged ({error}): remove it", path.display()))
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Failure::io("cannot read", &path)(error)),
        };
        Ok(Self { path, root, heads })
    }

    fn head(&self) -> Option<AuditHead> {
        self.heads.get(&self.root).copied()
    }

    fn keep(mut self, head: AuditHead) -> Result<(), Failure> {
        self.heads.insert(self.root, head);
        let text = serde_json::to_vec(&self.heads).map_err(|error| Failure::Local(error.to_string()))?;
        Ok(write_atomically(&self.path, &text, 0o600)?)
    }
}

#[cfg(test)]
mod tests;
