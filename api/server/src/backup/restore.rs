//! Restoring a backup: looked through first, blobs second, the database last and in one transaction.

use std::process::Stdio;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use mfaas_blobs::{BlobError, Blobs};
use mfaas_catalog::{RestoreScript, RestoreTarget, RolePasswords};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Child;

use crate::backup::error::BackupError;
use crate::backup::manifest::{Manifest, Part};
use crate::backup::programs::{absent, failed};
use crate::backup::repository::{LIST_BYTES_MAX, Repository};
use crate::backup::take::{BLOB_BYTES_MAX, BLOBS_AT_ONCE, DUMP_BYTES_MAX, Site};

/// What a part is called.
const DUMP: &str = "the dump of the database";
/// What reads dumps.
const READER: &str = "pg_restore";
/// Its user where we are root.
const NOBODY: u32 = 65_534;

/// Reads every part to its end; answers the blobs.
pub async fn verify(
    repository: &Repository,
    name: &str,
    manifest: &Manifest,
) -> Result<Vec<Part>, BackupError> {
    check(repository, name, DUMP, manifest.database, DUMP_BYTES_MAX).await?;
    check(repository, name, "the list of blobs", manifest.list, LIST_BYTES_MAX).await?;
    let blobs = repository.list(name, manifest).await?;
    stream::iter(&blobs)
        .map(|blob| check(repository, name, "a blob", *blob, BLOB_BYTES_MAX))
        .buffer_unordered(BLOBS_AT_ONCE)
        .try_collect::<()>()
        .await?;
    Ok(blobs)
}

/// Puts back a backup that was just verified.
pub async fn restore(
    site: &Site,
    repository: &Repository,
    (name, manifest): (&str, &Manifest),
    blobs: &[Part],
    replace: bool,
) -> Result<(), BackupError> {
    let target = RestoreTarget::look(&site.database_url).await?;
    match target {
        RestoreTarget { is_empty: true, .. } => {}
        RestoreTarget { .. } if !replace => return Err(BackupError::Occupied),
        RestoreTarget { connections: 0, .. } => {}
        RestoreTarget { connections, .. } => return Err(BackupError::InUse { connections }),
    }
    // Blobs first: a row whose blob is on its way would be damage.
    site.blobs.mark().await?;
    stream::iter(blobs)
        .map(|blob| put_back(&repository.blobs, &site.blobs, blob))
        .buffer_unordered(BLOBS_AT_ONCE)
        .try_collect::<()>()
        .await?;
    let said = serde_json::json!({
        "backup": name, "taken_at": manifest.taken_at, "release": manifest.release,
        "audit_head": manifest.audit_head, "epoch": manifest.epoch, "database": manifest.database.digest,
    });
    let script = RestoreScript::new(!target.is_empty, &said);
    put_back_database(site, repository, (name, manifest), &script).await?;
    Ok(mfaas_catalog::migrate(&site.database_url, &RolePasswords::default()).await?)
}

async fn check(
    repository: &Repository,
    name: &str,
    what: &'static str,
    part: Part,
    bytes_max: u64,
) -> Result<(), BackupError> {
    match repository.blobs.check(&part.digest, bytes_max).await {
        Ok(bytes) if bytes == part.bytes => Ok(()),
        Ok(bytes) => {
            let cause = format!("it has {bytes} bytes in the place of {}", part.bytes);
            Err(BackupError::Damaged { backup: name.to_owned(), what, cause })
        }
        Err(error) => Err(unreadable(name, what, error)),
    }
}

/// Damage of the backup, or a fault of this machine.
fn unreadable(backup: &str, what: &'static str, error: BlobError) -> BackupError {
    match error {
        BlobError::Missing { .. }
        | BlobError::Corrupt { .. }
        | BlobError::TooLarge { .. }
        // A directory of backups that was copied in part.
        | BlobError::Unmarked { .. } => {
            BackupError::Damaged { backup: backup.to_owned(), what, cause: error.to_string() }
        }
        error => error.into(),
    }
}

/// One that is there is read as well: what a restore leaves behind is whole.
async fn put_back(from: &Blobs, to: &Blobs, blob: &Part) -> Result<(), BackupError> {
    match to.check(&blob.digest, BLOB_BYTES_MAX).await {
        Ok(_) => Ok(()),
        Err(BlobError::Missing { .. } | BlobError::Corrupt { .. } | BlobError::TooLarge { .. }) => {
            Ok(from.copy_to(&blob.digest, to, BLOB_BYTES_MAX).await.map(drop)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// `pg_restore` writes statements, and psql carries them out within a transaction that only we end: whichever program dies, and
/// whenever, nothing has happened.
async fn put_back_database(
    site: &Site,
    repository: &Repository,
    (name, manifest): (&str, &Manifest),
    script: &RestoreScript,
) -> Result<(), BackupError> {
    const WRITER: &str = "psql";
    let mut reader = start_reader(site)?;
    let mut writer = site
        .programs
        .command(WRITER, Some(&site.database))
        .args(["--no-psqlrc", "--no-password", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(absent(WRITER))?;
    let (Some(mut dump), Some(statements), Some(mut input)) =
        (reader.stdin.take(), reader.stdout.take(), writer.stdin.take())
    else {
        return Err(failed(WRITER, b"it has no input"));
    };
    let mut stream =
        std::pin::pin!(repository.blobs.open_blob(&manifest.database.digest, DUMP_BYTES_MAX).await?);
    // Each owns its ends of the pipes: a program that waits for one that is gone has to learn of it.
    let feeding = async move {
        while let Some(piece) = stream.next().await {
            // It was verified before, and is again: it may have changed since then.
            let piece = piece.map_err(|error| unreadable(name, DUMP, error))?;
            dump.write_all(&piece).await.map_err(|error| failed(READER, error.to_string().as_bytes()))?;
        }
        Ok::<_, BackupError>(())
    };
    let passing = async move {
        let mut statements = BufReader::new(statements);
        let Some(head) = restricted_head(&mut statements).await? else {
            tokio::io::copy_buf(&mut statements, &mut tokio::io::sink()).await?;
            return Ok(None);
        };
        input.write_all(script.before.as_bytes()).await?;
        input.write_all(&head).await?;
        tokio::io::copy_buf(&mut statements, &mut input).await?;
        Ok::<_, std::io::Error>(Some(input))
    };
    let closing = async {
        let (fed, passed, read) = tokio::join!(feeding, passing, reader.wait_with_output());
        let read = read.map_err(absent(READER))?;
        // One that failed has said why; the pipe to it broke for that reason.
        let mut input = match (passed, read.status.success()) {
            (Ok(_), false) => return Err(failed(READER, &read.stderr)),
            (Ok(Some(input)), true) => input,
            (Ok(None), true) => return Err(failed(READER, UNRESTRICTED)),
            // psql is gone, and has said why.
            (Err(_), _) => return Ok(false),
        };
        fed?;
        Ok(input.write_all(script.behind.as_bytes()).await.is_ok())
    };
    let (closed, written) = tokio::join!(closing, writer.wait_with_output());
    let written = written.map_err(absent(WRITER))?;
    if closed? && written.status.success() { Ok(()) } else { Err(failed(WRITER, &written.stderr)) }
}

/// It reads what somebody else may have written, and needs nothing but its pipes: no secret of our environment either.
fn start_reader(site: &Site) -> Result<Child, BackupError> {
    let mut command = site.programs.command(READER, None);
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
        .args(["--no-owner", "--exit-on-error", "--file=-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(absent(READER))
}

const UNRESTRICTED: &[u8] =
    b"its output may hold commands that psql would run on this machine; install PostgreSQL's client \
    programs of 13.22, 14.19, 15.14, 16.10, 17.6 or later";

/// The begin of what `pg_restore` writes, up to the line from which on psql takes nothing but SQL until a word that no dump can
/// know; `None` if that line does not come before everything that a dump has a part in.
async fn restricted_head(statements: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Vec<u8>>> {
    const LINE_BYTES_MAX: u64 = 200;
    let mut head = Vec::new();
    loop {
        let mut line = Vec::new();
        (&mut *statements).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        head.extend_from_slice(&line);
        match line.as_slice() {
            b"\n" | b"--\n" | b"-- PostgreSQL database dump\n" => {}
            line if line.starts_with(b"\\restrict ") && line.ends_with(b"\n") => return Ok(Some(head)),
            _ => return Ok(None),
        }
    }
}
