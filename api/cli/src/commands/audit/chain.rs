//! The chain of the audit log, computed here: a server that was taken over would say that it holds.
//!
//! Two heads are trusted: where the last verification on this machine ended, and what the newest serving set names under the
//! pinned root. The chain must pass both. A server that gives no set, or one that has expired, has shown nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mfaas_attest::{AuditHead, ServingSet, verify as verify_envelope};
use mfaas_supervisor::write_atomically;
use mfaas_wire::{AuditLink, Page};
use serde::Serialize;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::root::trusted_root;
use crate::settings::Context;

/// Rows of one question.
const PAGE_ROWS: u32 = 1_000;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Asks, computes, remembers.
pub(super) async fn verify(context: &Context, all: bool) -> Result<Exit, Failure> {
    let client = context.client()?;
    let pin = context.pinned_root()?.pin().to_string();
    let memory = Memory::of(context, context.profile.root_key.clone().unwrap_or(pin))?;
    let known = if all { None } else { memory.head() };
    let signed = signed_head(context, &client).await?;
    let mut walk = Walk::new(known, signed);
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
            "the chain holds: {} rows, {} of them computed now; the newest serving set names row {}",
            result.rows, result.computed, result.signed_row
        ),
        Some(problem) => format!("the chain is broken: {problem}"),
    })?;
    Ok(if result.holds { Exit::Ok } else { Exit::Unverified })
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
        Self { start, head: start, confirmed, trusted, ended: false, problem: None }
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
            if link.row != self.head.row + 1 {
                let missing = self.head.row + u64::from(self.confirmed);
                self.problem = Some(format!("row {missing} is missing; {} comes next", link.row));
                return;
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
        }
        self.ended = page.next.is_none() || page.items.is_empty();
    }

    fn compare(&mut self) {
        let here = self.trusted.remove(&self.head.row).unwrap_or_default();
        if let Some((_, who)) = here.iter().find(|(head, _)| head.hash != self.head.hash) {
            self.problem = Some(format!("row {} is another one than {who} names", self.head.row));
        }
    }

    pub(super) fn finish(self, signed: AuditHead) -> (AuditHead, Verification) {
        let Self { start, head, trusted, problem, .. } = self;
        let cut = || {
            let (row, named) = trusted.last_key_value()?;
            let who = named.first().map_or("", |(_, who)| who);
            Some(format!("row {row} is missing, which {who} names"))
        };
        let problem = problem.or_else(cut);
        let result = Verification {
            holds: problem.is_none(),
            rows: head.row,
            computed: head.row - start.row,
            signed_row: signed.row,
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
