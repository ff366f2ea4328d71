//! The table: three counts of unsafe code beside each other, for a list of crates.
//!
//! geiger, our token scan and the compiler answer three different questions, and the table shows where
//! they differ. It judges nothing, and a count that could not be made is a word and not a zero.

mod rows;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mfaas_rules::CrateRequest;
use mfaas_rules::crate_facts::{CompilerVerdict, CrateReport, GeigerReport, HotspotKind, Role};

use super::context::{AcquireContext, in_work};
use super::error::AcquireError;
use super::manifest::parse_request;
use super::resolve::{Resolved, Workspace, resolve_all};
use crate::error::BuilderError;
use crate::facts;
use rows::{Counted, Missing, Row, Table};

/// The list that ships with this program.
const POPULAR: &str = include_str!("../../../toolchain/popular-crates.txt");
/// Bytes of a list.
const LIST_BYTES_MAX: usize = 1 << 20;

/// What `table` is given.
#[derive(Debug, clap::Args)]
pub(crate) struct TableArguments {
    /// The list: a line for each crate, `name version`; what follows `#` is for people. Absent: that of
    /// popular crates which this program holds.
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Where to keep what is downloaded, for the next time.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

/// Prints the table.
pub(crate) fn table(arguments: &TableArguments) -> Result<ExitCode, BuilderError> {
    let asked = match &arguments.list {
        Some(list) => read(list)?,
        None => parse(POPULAR)?,
    };
    let table = in_work(arguments.work.as_deref(), |context| {
        let mut table = Table::default();
        gather(context, &asked, &mut table)?;
        table.rows.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(table)
    })?;
    facts::print_text(&table, arguments.json, || show::draw(&table))?;
    Ok(ExitCode::SUCCESS)
}

fn read(list: &Path) -> Result<Vec<CrateRequest>, BuilderError> {
    let text = std::fs::read_to_string(list).map_err(BuilderError::io(list))?;
    if text.len() > LIST_BYTES_MAX {
        return Err(AcquireError::Other { reason: "the list is too long".to_owned() }.into());
    }
    parse(&text).map_err(BuilderError::from)
}

fn parse(text: &str) -> Result<Vec<CrateRequest>, AcquireError> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut asked: Vec<CrateRequest> = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let problem = || AcquireError::Other {
            reason: format!("no `name version`: {}", mfaas_ident::sanitise_line(line, 100)),
        };
        let (name, version) = line.split_once(' ').ok_or_else(problem)?;
        let version = semver::Version::parse(version.trim()).map_err(|_| problem())?;
        asked.push(parse_request(&format!("{name}@{version}"), Vec::new(), true)?);
    }
    Ok(asked)
}

/// Resolves all of them together; where that cannot be, each half of them. A crate that cannot be
/// resolved alone is missing.
fn gather(context: &AcquireContext, asked: &[CrateRequest], table: &mut Table) -> Result<(), BuilderError> {
    let base = Workspace::empty();
    match resolve_all(&context.cargo, &base, asked) {
        Ok(resolved) => rows(context, &base, asked, &resolved, table),
        Err(BuilderError::Acquire(error)) if !matches!(error, AcquireError::Network { .. }) => match asked {
            [] => Ok(()),
            [request] => {
                table.missing.push(Missing { name: request.name.to_string(), reason: error.to_string() });
                Ok(())
            }
            _ => {
                let (one, other) = asked.split_at(asked.len() / 2);
                gather(context, one, table)?;
                gather(context, other, table)
            }
        },
        Err(error) => Err(error),
    }
}

fn rows(
    context: &AcquireContext,
    base: &Workspace,
    asked: &[CrateRequest],
    resolved: &Resolved,
    table: &mut Table,
) -> Result<(), BuilderError> {
    context.fetch(base, &resolved.manifest, &resolved.lock_text)?;
    let mut verdicts = context.verdicts(base, &resolved.manifest, &resolved.lock_text)?;
    for request in asked {
        let wanted = |key: &&super::resolve::ResolvedCrate| {
            key.name == request.name && request.requirement.matches(&key.version)
        };
        let Some(member) = resolved.members.iter().find(wanted) else {
            let reason = "nothing of this target compiles it".to_owned();
            table.missing.push(Missing { name: request.name.to_string(), reason });
            continue;
        };
        let verdict = verdicts.remove(&member.key());
        let (report, _) = context.report(member, &resolved.members, verdict)?;
        table.rows.push(row(&report));
    }
    Ok(())
}

fn row(report: &CrateReport) -> Row {
    Row {
        name: report.name.to_string(),
        version: report.version.to_string(),
        features: report.features.clone(),
        geiger: geiger(report),
        tokens: tokens(report),
        compiler: compiler(&report.compiler),
        build_script: report.kind.build_script,
        proc_macro: report.kind.proc_macro,
    }
}

/// geiger's count over what users compile.
fn geiger(report: &CrateReport) -> Counted {
    let files = || report.source.files.iter().filter(|file| file.role != Role::Aside);
    let unknown = files().find_map(|file| match &file.geiger {
        GeigerReport::Unknown { reason } => Some(format!("{}: {reason}", file.path)),
        GeigerReport::Counted { .. } => None,
    });
    match unknown.or_else(|| nothing_read(report)) {
        Some(reason) => Counted::Unknown(reason),
        None => Counted::Number(report.source.summary.geiger.unsafe_total()),
    }
}

fn tokens(report: &CrateReport) -> Counted {
    let files = || report.source.files.iter().filter(|file| file.role != Role::Aside);
    let unreadable = files()
        .find(|file| file.tokens.counts.contains_key(&HotspotKind::Unreadable))
        .map(|file| format!("{}: not all of it could be read", file.path));
    match unreadable.or_else(|| nothing_read(report)) {
        Some(reason) => Counted::Unknown(reason),
        None => Counted::Number(report.source.summary.token_hotspots as u64),
    }
}

fn nothing_read(report: &CrateReport) -> Option<String> {
    let has_library = report.source.files.iter().any(|file| file.role == Role::Library);
    (!has_library).then(|| "no source file of a library was read".to_owned())
}

fn compiler(verdict: &CompilerVerdict) -> Counted {
    match verdict {
        CompilerVerdict::Clean => Counted::Number(0),
        CompilerVerdict::Unsafe { errors, .. } => Counted::Number(u64::from(*errors)),
        CompilerVerdict::Failed { reason } | CompilerVerdict::NotRun { reason } => {
            Counted::Unknown(reason.clone())
        }
    }
}

#[cfg(test)]
mod tests;
