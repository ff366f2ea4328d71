//! What the owner of a site does to keep it: backup, restore, archives of the audit log.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use mfaas_attest::AuditArchive;
use mfaas_blobs::Blobs;
use mfaas_catalog::{Actor, AuditArchiving};
use mfaas_confine::write_only_below;
use mfaas_startup::Variables;
use rustix::fs::{CWD, Mode, RenameFlags, renameat_with};
use serde::Serialize;

use crate::backup::{
    BackupError, Manifest, PostgresPrograms, Repository, Site, create_anew, restore, take, verify,
};
use crate::responses;

/// Rows read at once.
const PAGE_ROWS: u32 = 1_000;
/// A serving set counts for a day: the head that the newest one names stays in the log.
const ARCHIVED_AGE_MIN: TimeDelta = TimeDelta::hours(24);

/// Save database and blobs of the site into a directory, while it runs.
///
/// MFAAS_DATABASE_URL is the owner's, MFAAS_BLOBS_URL the site's. Blobs that a backup before has are not copied again. No key is
/// ever part of a backup.
///
/// For example: `mfaas-server backup /backup/mfaas --keep 14`
#[derive(Debug, clap::Args)]
pub(super) struct Backup {
    /// The directory of backups; made for its owner alone where it is missing.
    directory: PathBuf,
    /// Remove all backups of the directory but the newest N, once this one is finished.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
    #[command(flatten)]
    tools: Tools,
}

/// Put a backup back, into a database without a site.
///
/// MFAAS_DATABASE_URL is the owner's, MFAAS_BLOBS_URL the store that it is to come into. Everything is read and verified before
/// anything is touched.
///
/// For example: `mfaas-server restore /backup/mfaas --dry-run`
#[derive(Debug, clap::Args)]
pub(super) struct Restore {
    /// The directory of backups.
    directory: PathBuf,
    /// Which one; the newest when absent.
    #[arg(long, value_name = "NAME")]
    at: Option<String>,
    /// In the place of a site that is there: its database is lost.
    #[arg(long)]
    replace: bool,
    /// Read and verify the backup, and change nothing.
    #[arg(long, conflicts_with = "replace")]
    dry_run: bool,
    #[command(flatten)]
    tools: Tools,
}

#[derive(Debug, clap::Args)]
struct Tools {
    /// Where pg_dump, pg_restore and psql are, of the database's version or a newer one; on the PATH when absent.
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum AuditCommand {
    /// Move the oldest rows of the audit log into a file, which `mfaas audit --verify --archive FILE` verifies with the rest.
    Archive(Archive),
}

/// Move the oldest rows of the audit log into a file, which `mfaas audit --verify --archive FILE` verifies with the rest.
///
/// MFAAS_DATABASE_URL is the owner's. Rows leave the table once the file is on the disk.
///
/// For example: `mfaas-server audit archive --before 2026-01-01 --into audit-2025.jsonl`
#[derive(Debug, clap::Args)]
pub(super) struct Archive {
    /// What is older goes: a day (in UTC), or a moment such as 2026-01-01T12:00:00Z; at least 24 hours ago.
    #[arg(long, value_name = "DATE", value_parser = moment)]
    before: DateTime<Utc>,
    /// The file, which must not be there yet.
    #[arg(long, value_name = "FILE")]
    into: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(super) fn confine(&self) -> anyhow::Result<()> {
        Repository::make(&self.directory).map_err(told)?;
        Ok(write_only_below(&[&self.directory])?)
    }

    pub(super) async fn run(self) -> anyhow::Result<()> {
        // What a backup holds is for its owner alone.
        rustix::process::umask(Mode::from_raw_mode(0o077));
        let site = self.tools.site()?;
        let taken = async {
            let repository = Repository::create(&self.directory).await?;
            let mut taken = take(&site, &repository).await?;
            if let Some(keep) = self.keep {
                taken.pruned = repository.prune(keep.into()).await?;
            }
            Ok(taken)
        };
        let taken = taken.await.map_err(told)?;
        let text = format!(
            "backup {}: database of {} bytes, {} blobs of {} bytes, {} of them new; no key is part of it",
            taken.backup,
            taken.manifest.database.bytes,
            taken.manifest.blobs,
            taken.manifest.blob_bytes,
            taken.copied
        );
        self.tools.print(&taken, &text)
    }
}

impl Restore {
    pub(super) fn confine(&self) -> anyhow::Result<()> {
        let store =
            if self.dry_run { None } else { Some(Variables::of_process().required("MFAAS_BLOBS_URL")?) };
        let directory = store.as_deref().and_then(|url| url.strip_prefix("file://")).map(Path::new);
        Ok(write_only_below(directory.as_slice())?)
    }

    pub(super) async fn run(self) -> anyhow::Result<()> {
        let restored = async {
            let repository = Repository::open(&self.directory)?;
            let (name, manifest) = repository.manifest(self.at.as_deref())?;
            let blobs = verify(&repository, &name, &manifest).await?;
            Ok((repository, name, manifest, blobs))
        };
        let (repository, name, manifest, blobs) = restored.await.map_err(told)?;
        if self.dry_run {
            return self.report(&name, &manifest, "is whole");
        }
        let site = self.tools.site()?;
        restore(&site, &repository, (&name, &manifest), &blobs, self.replace).await.map_err(told)?;
        self.report(
            &name,
            &manifest,
            "is restored; what was revoked, removed or decided since then has to be again",
        )
    }

    fn report(&self, name: &str, manifest: &Manifest, what: &str) -> anyhow::Result<()> {
        #[derive(Serialize)]
        struct Restored<'a> {
            backup: &'a str,
            restored: bool,
            #[serde(flatten)]
            manifest: &'a Manifest,
        }
        let restored = Restored { backup: name, restored: !self.dry_run, manifest };
        self.tools.print(&restored, &format!("the backup {name} of {} {what}", manifest.taken_at))
    }
}

impl Tools {
    fn site(&self) -> anyhow::Result<Site> {
        let variables = Variables::of_process();
        let database_url = variables.required("MFAAS_DATABASE_URL")?;
        Ok(Site {
            database: database_url.parse()?,
            database_url,
            blobs: Blobs::open(&variables.required("MFAAS_BLOBS_URL")?)?,
            programs: PostgresPrograms::of(self.pg_bin.clone()),
        })
    }

    fn print(&self, value: &impl Serialize, text: &str) -> anyhow::Result<()> {
        print(self.json, value, text)
    }
}

impl Archive {
    pub(super) fn confine(&self) -> anyhow::Result<()> {
        Ok(write_only_below(&[directory_of(&self.into)])?)
    }

    pub(super) async fn run(self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.before <= Utc::now() - ARCHIVED_AGE_MIN,
            "rows younger than {} hours stay in the log, since the newest serving set may name one of them: give an earlier \
             --before",
            ARCHIVED_AGE_MIN.num_hours()
        );
        rustix::process::umask(Mode::from_raw_mode(0o077));
        let url = Variables::of_process().required("MFAAS_DATABASE_URL")?;
        let archived = archive(&url, self.before, &self.into).await?;
        let text = match &archived {
            None => "nothing is older: nothing was archived".to_owned(),
            Some(archived) => format!(
                "rows {} to {} are in {}; keep it: `mfaas audit --verify --archive FILE` verifies them with the rest",
                archived.first_row,
                archived.last_row,
                self.into.display()
            ),
        };
        print(self.json, &archived, &text)
    }
}

/// What was archived.
#[derive(Debug, Serialize)]
struct Archived {
    first_row: u64,
    last_row: u64,
}

/// The file first, durably; then the rows go, with a record that names the last of them.
async fn archive(url: &str, before: DateTime<Utc>, path: &Path) -> anyhow::Result<Option<Archived>> {
    let Some(mut rows) = AuditArchiving::before(url, before).await? else { return Ok(None) };
    let (start, end) = (rows.start(), rows.end());
    anyhow::ensure!(!path.exists(), "{} is there already: archives are never overwritten", path.display());
    let mut name = path.file_name().context("--into names no file")?.to_owned();
    name.push(".unfinished");
    let draft = path.with_file_name(name);
    let cannot = || format!("cannot write {}", draft.display());
    let mut file = BufWriter::new(create_anew(&draft).with_context(cannot)?);
    write_line(&mut file, &AuditArchive { format: AuditArchive::FORMAT, start, end }).with_context(cannot)?;
    let mut head = start;
    while head.row < end.row {
        let (links, next) =
            rows.read(head, PAGE_ROWS).await?.context("the chain is broken: nothing was archived")?;
        anyhow::ensure!(next.row > head.row, "the audit log ends at row {}: nothing was archived", head.row);
        let mut lines = links.into_iter().map(responses::audit_link);
        lines.try_for_each(|line| write_line(&mut file, &line)).with_context(cannot)?;
        head = next;
    }
    anyhow::ensure!(head == end, "row {} is another one than a moment ago: nothing was archived", end.row);
    finish(file, &draft, path).with_context(|| format!("cannot write {}", path.display()))?;
    rows.remove(&Actor::program("mfaas-server:operator")).await.with_context(|| {
        format!("the rows are still in the log; remove {} before another try", path.display())
    })?;
    Ok(Some(Archived { first_row: start.row + 1, last_row: end.row }))
}

fn write_line(file: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *file, value)?;
    file.write_all(b"\n")
}

/// On the disk, and then under its name.
fn finish(file: BufWriter<File>, draft: &Path, path: &Path) -> std::io::Result<()> {
    file.into_inner()?.sync_all()?;
    // Another one may have got the name since we looked.
    renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE)?;
    File::open(directory_of(path))?.sync_all()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A day, or a moment of it.
fn moment(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return Ok(moment.into());
    }
    let day: NaiveDate =
        text.parse().map_err(|_| format!("`{text}` is neither a day such as 2026-01-31 nor a moment"))?;
    Ok(day.and_time(chrono::NaiveTime::MIN).and_utc())
}

/// With its code and what to do about it.
fn told(error: BackupError) -> anyhow::Error {
    match error.code() {
        Some(code) => anyhow::anyhow!("{code}: {error}\n{}", code.hint()),
        None => error.into(),
    }
}

fn print(json: bool, value: &impl Serialize, text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match json {
        true => writeln!(out, "{}", serde_json::to_string(value)?)?,
        false => writeln!(out, "{text}")?,
    }
    Ok(())
}
