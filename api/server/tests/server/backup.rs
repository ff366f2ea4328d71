//! A site that is saved, lost and put back; and backups that are not what they were.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use mfaas_attest::AuditHead;
use mfaas_blobs::Blobs;
use mfaas_catalog::{Catalog, describe_schema};
use mfaas_ident::{Digest, Scope};
use mfaas_server::backup::{BackupError, PostgresPrograms, Repository, Site, restore, verify};
use serde_json::Value;

use crate::support::{Database, Server, admitted_version};

/// A command of the program as the owner of `db`.
fn command(db: &Database, blobs: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mfaas-server"));
    command
        .args(arguments)
        .env_remove("MFAAS_LOG")
        .env("MFAAS_DATABASE_URL", db.url("postgres"))
        .env("MFAAS_BLOBS_URL", format!("file://{}", blobs.display()));
    command
}

fn ok(output: Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(output: Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// A site with a function whose artifact is there, a refused upload that was forgotten, and a session.
struct Saved {
    server: Server,
    dir: tempfile::TempDir,
}

impl Saved {
    async fn new() -> Self {
        let server = Server::start().await;
        let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
        let artifact = server.blobs().put(b"machine code".as_slice().into()).await.unwrap();
        let sent = server.upload("hello", &token, b"source".to_vec()).await.json();
        let id = sent["deployment"]["id"].as_str().unwrap();
        admitted_version(&server.db, "a", "hello", id, &artifact.to_string());
        server.db.script(
            "INSERT INTO resources (name, kind, created_by) VALUES ('links', 'kv', 'test');
             INSERT INTO resource_grants (resource, tenant, access, granted_by) VALUES ('links', 'a', 'write', 'test');
             INSERT INTO version_bindings (tenant, function, version, name, kind, resource, access)
             VALUES ('a', 'hello', 1, 'urls', 'kv', 'links', 'read');",
        );
        server.db.sql(
            "INSERT INTO sessions (cookie_sha256, token_id, expires_at)
             SELECT repeat('e', 64), id, now() + interval '1 hour' FROM tokens LIMIT 1",
        );
        Self { server, dir: tempfile::tempdir().unwrap() }
    }

    fn backups(&self) -> PathBuf {
        self.dir.path().join("backups")
    }

    fn blobs(&self) -> PathBuf {
        self.server.dir().join("blobs")
    }

    fn run(&self, more: &[&str]) -> Output {
        let directory = self.backups();
        let arguments = [&["backup", directory.to_str().unwrap(), "--json"], more].concat();
        command(&self.server.db, &self.blobs(), &arguments).output().unwrap()
    }

    fn take(&self, more: &[&str]) -> Value {
        ok(self.run(more))
    }

    fn restore(&self, db: &Database, more: &[&str]) -> Output {
        let directory = self.backups();
        let arguments = [&["restore", directory.to_str().unwrap(), "--json"], more].concat();
        command(db, &self.restored_blobs(), &arguments).output().unwrap()
    }

    /// The store that is restored into.
    fn restored_blobs(&self) -> PathBuf {
        let blobs = self.dir.path().join("restored");
        let _ = std::fs::create_dir(&blobs);
        blobs
    }

    /// Gives the newest backup another dump, as an attacker does who can write its directory.
    fn put_dump(&self, taken: &Value, dump: &[u8]) {
        let file = self.part(&Digest::of(dump).to_string());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, dump).unwrap();
        let manifest = self.backups().join(format!("{}.json", taken["backup"].as_str().unwrap()));
        let mut changed: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
        changed["database"] = serde_json::json!({ "digest": Digest::of(dump), "bytes": dump.len() });
        std::fs::write(manifest, changed.to_string()).unwrap();
    }

    /// The file of a part of a backup.
    fn part(&self, digest: &str) -> PathBuf {
        self.backups().join("blobs/sha256").join(&digest[..2]).join(digest)
    }
}

fn file_of(blobs: &Path, digest: &Digest) -> PathBuf {
    let name = digest.to_string();
    blobs.join("sha256").join(&name[..2]).join(name)
}

fn tables(db: &Database) -> String {
    db.sql("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_comes_back_as_it_was() {
    let site = Saved::new().await;
    let taken = site.take(&[]);
    assert_eq!((&taken["blobs"], &taken["copied"], &taken["format"]), (&2.into(), &2.into(), &1.into()));
    assert_eq!(std::fs::metadata(site.backups()).unwrap().permissions().mode() & 0o777, 0o700);
    // What comes later is not in it.
    let token = site.server.token("later", &[Scope::Deploy]).await;
    site.server.upload("late", &token, b"late source".to_vec()).await;

    let db = Database::empty();
    let restored = ok(site.restore(&db, &[]));
    assert_eq!((&restored["backup"], &restored["restored"]), (&taken["backup"], &true.into()));
    let (before, after) =
        (site.server.catalog.clone(), Catalog::connect(&db.url("postgres"), 2).await.unwrap());
    assert_eq!(
        describe_schema(&after).await.unwrap(),
        describe_schema(&before).await.unwrap(),
        "tables, functions and rights"
    );
    after.ready().await.unwrap();
    let deployments = "SELECT string_agg(tenant || function || state || source_digest, ' ') FROM deployments";
    assert_eq!(db.sql(deployments), site.server.db.sql(&format!("{deployments} WHERE function <> 'late'")));
    let data = "SELECT r.name || ' ' || r.kind || ' ' || g.tenant || ' ' || g.access || ' ' || b.name
                FROM resources r JOIN resource_grants g ON g.resource = r.name
                JOIN version_bindings b ON b.resource = r.name";
    assert_eq!(db.sql(data), "links kv a write urls", "resources, grants and bindings");
    let head: AuditHead = serde_json::from_value(taken["audit_head"].clone()).unwrap();
    let now = after.verify_audit(AuditHead::START).await.unwrap().unwrap();
    assert_eq!(now.row, head.row + 1, "and a row about the restore");
    after.verify_audit(head).await.unwrap().unwrap();
    let last = "SELECT action || ' ' || (detail ->> 'backup') FROM audit_log ORDER BY seq DESC LIMIT 1";
    assert_eq!(db.sql(last), format!("site.restored {}", taken["backup"].as_str().unwrap()));
    assert_eq!(db.sql("SELECT count(*) FROM sessions"), "0", "people sign in again");
    let tokens = "SELECT last_value FROM fencing_token";
    let ahead = db.sql(tokens).parse::<u64>().unwrap() - site.server.db.sql(tokens).parse::<u64>().unwrap();
    assert!(ahead >= 1_000_000, "a builder of before the restore holds a token of {ahead} more");
    let generation = "SELECT generation FROM desired_generation";
    let before = site.server.db.sql(generation).parse::<u64>().unwrap();
    assert!(db.sql(generation).parse::<u64>().unwrap() >= before, "a serving set is due");

    let blobs = Blobs::open(&format!("file://{}", site.restored_blobs().display())).unwrap();
    for bytes in [b"machine code".as_slice(), b"source"] {
        assert_eq!(blobs.get(&Digest::of(bytes), 100).await.unwrap(), bytes);
    }
    assert!(!blobs.exists(&Digest::of(b"late source")).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_is_there_is_replaced_only_by_an_option() {
    let site = Saved::new().await;
    site.take(&[]);
    let db = tokio::task::spawn_blocking(Database::new).await.unwrap();
    db.sql("INSERT INTO tenants (name) VALUES ('there')");
    let said = refused(site.restore(&db, &[]));
    assert!(said.contains("MF1003") && said.contains("--replace"), "{said}");
    let program = Catalog::connect(&db.url("mfaas_server"), 1).await.unwrap();
    program.ready().await.unwrap();
    let said = refused(site.restore(&db, &["--replace"]));
    assert!(said.contains("MF1004"), "{said}");
    assert_eq!(db.sql("SELECT count(*) FROM tenants WHERE name = 'there'"), "1");
    program.close().await;
    for _ in 0..2 {
        ok(site.restore(&db, &["--replace"]));
        assert_eq!(db.sql("SELECT string_agg(name, ' ') FROM tenants"), "a");
    }
    // What was restored can be saved and restored again.
    let again = site.dir.path().join("again");
    ok(command(&db, &site.restored_blobs(), &["backup", again.to_str().unwrap(), "--json"])
        .output()
        .unwrap());
    let third = Database::empty();
    let arguments = ["restore", again.to_str().unwrap(), "--json"];
    ok(command(&third, &site.restored_blobs(), &arguments).output().unwrap());
    assert_eq!(third.sql("SELECT string_agg(name, ' ') FROM tenants"), "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_part_is_refused_before_anything_is_touched() {
    let site = Saved::new().await;
    let taken = site.take(&[]);
    let dump = taken["database"]["digest"].as_str().unwrap();
    let list = taken["list"]["digest"].as_str().unwrap();
    let manifest = site.backups().join(format!("{}.json", taken["backup"].as_str().unwrap()));
    let parts = [
        ("the dump", site.part(dump)),
        ("the list", site.part(list)),
        ("a blob", site.part(&Digest::of(b"machine code").to_string())),
        ("the manifest", manifest),
    ];
    let db = Database::empty();
    for (what, file) in parts {
        let whole = std::fs::read(&file).unwrap();
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 1;
        // In a manifest one bit can be that of a digit which only says when it was made.
        if what == "the manifest" {
            damaged.truncate(whole.len() / 2);
        }
        std::fs::write(&file, &damaged).unwrap();
        for more in [&[][..], &["--dry-run"]] {
            let said = refused(site.restore(&db, more));
            assert!(said.contains("MF1001") && said.contains(what), "{what}: {said}");
        }
        std::fs::remove_file(&file).unwrap();
        if what != "the manifest" {
            let said = refused(site.restore(&db, &[]));
            assert!(said.contains("MF1001") && said.contains("missing"), "{what}: {said}");
        }
        std::fs::write(&file, &whole).unwrap();
        assert_eq!(tables(&db), "0", "{what}");
        assert_eq!(std::fs::read_dir(site.restored_blobs()).unwrap().count(), 0, "{what}");
    }
    ok(site.restore(&db, &["--dry-run"]));
    assert_eq!(tables(&db), "0");
    ok(site.restore(&db, &[]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_copies_what_is_new_and_the_last_ones_are_kept() {
    let site = Saved::new().await;
    let first = site.take(&[]);
    let token = site.server.token("a", &[Scope::Deploy]).await;
    site.server.upload("new", &token, b"new source".to_vec()).await;
    let second = site.take(&[]);
    assert_eq!((&second["blobs"], &second["copied"]), (&3.into(), &1.into()));
    site.server.db.sql("UPDATE deployments SET state = 'building' WHERE function = 'new'");
    site.server.db.sql("UPDATE deployments SET state = 'refused' WHERE function = 'new'");
    let gone = Digest::of(b"new source");
    std::fs::remove_file(file_of(&site.blobs(), &gone)).unwrap();
    let third = site.take(&["--keep", "2"]);
    assert_eq!((&third["copied"], &third["pruned"]), (&0.into(), &1.into()));
    assert!(!site.part(first["database"]["digest"].as_str().unwrap()).exists(), "the first dump is gone");
    for name in [&second, &third] {
        ok(site.restore(&Database::empty(), &["--dry-run", "--at", name["backup"].as_str().unwrap()]));
    }
    let said = refused(site.restore(&Database::empty(), &["--at", first["backup"].as_str().unwrap()]));
    assert!(said.contains("has no backup"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_was_lost_is_told_and_one_that_was_forgotten_is_left_out() {
    let site = Saved::new().await;
    let token = site.server.token("a", &[Scope::Deploy]).await;
    site.server.upload("refused", &token, b"refused source".to_vec()).await;
    site.server.db.sql("UPDATE deployments SET state = 'building' WHERE function = 'refused'");
    site.server.db.sql("UPDATE deployments SET state = 'refused' WHERE function = 'refused'");
    std::fs::remove_file(file_of(&site.blobs(), &Digest::of(b"refused source"))).unwrap();
    assert_eq!(site.take(&[])["blobs"], 2);
    let artifact = file_of(&site.blobs(), &Digest::of(b"machine code"));
    std::fs::rename(&artifact, artifact.with_extension("away")).unwrap();
    std::fs::remove_dir_all(site.backups()).unwrap();
    let said = refused(site.run(&[]));
    assert!(said.contains("MF0607"), "{said}");
    assert!(
        refused(site.restore(&Database::empty(), &[])).contains("has no backup"),
        "nothing half is a backup"
    );
    std::fs::write(&artifact, b"machine c0de").unwrap();
    let said = refused(site.run(&[]));
    assert!(said.contains("MF0601"), "{said}");
}

/// A directory with PostgreSQL's client programs, of which one is a script.
fn programs(dir: &Path, replaced: &str, script: &str) -> PathBuf {
    let bin = dir.join(format!("bin-{replaced}"));
    let _ = std::fs::create_dir(&bin);
    // What reads a dump is started by root as nobody.
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o711)).unwrap();
    for program in ["pg_dump", "pg_restore", "psql"] {
        let text = if program == replaced { script.to_owned() } else { format!("exec {program} \"$@\"") };
        let path = bin.join(program);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    bin
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_halfway_leaves_neither_a_backup_nor_a_site() {
    let site = Saved::new().await;
    let dir = site.dir.path();
    // The dump breaks off, with an error and with a kill of the whole command.
    let broken = programs(dir, "pg_dump", "pg_dump \"$@\" | head -c 3000; echo broken >&2; exit 1");
    let said = refused(site.run(&["--pg-bin", broken.to_str().unwrap()]));
    assert!(said.contains("pg_dump failed: broken"), "{said}");
    let slow = programs(dir, "pg_dump", "pg_dump \"$@\" | head -c 3000; touch \"$REACHED\"; exec sleep 60");
    let directory = site.backups();
    let arguments = ["backup", directory.to_str().unwrap(), "--pg-bin", slow.to_str().unwrap()];
    let reached = directory.join("reached");
    let mut killed =
        command(&site.server.db, &site.blobs(), &arguments).env("REACHED", &reached).spawn().unwrap();
    while !reached.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(refused(site.run(&[])).contains("another command works on"), "two at a time");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let db = Database::empty();
    assert!(refused(site.restore(&db, &[])).contains("has no backup"));
    site.take(&[]);

    // The restore does, in the reader, and in the writer.
    let halves = [
        ("pg_restore", "pg_restore \"$@\" | head -c 30000; echo broken >&2; exit 1"),
        // Between two statements, where nothing that was read is wrong.
        ("pg_restore", "pg_restore \"$@\" | sed '/^COPY/,$d'; echo broken >&2; exit 1"),
        ("psql", "head -c 30000 | psql \"$@\"; echo broken >&2; exit 1"),
        ("psql", "head -c 30000 | psql \"$@\"; kill -9 $$"),
    ];
    for (program, script) in halves {
        let broken = programs(dir, program, script);
        let said = refused(site.restore(&db, &["--pg-bin", broken.to_str().unwrap()]));
        assert!(said.contains(program), "{said}");
        assert_eq!(tables(&db), "0", "{program}: {script}");
    }
    // One that replaces a site leaves that site.
    let there = tokio::task::spawn_blocking(Database::new).await.unwrap();
    there.sql("INSERT INTO tenants (name) VALUES ('there')");
    let broken = programs(dir, "pg_restore", "pg_restore \"$@\" | head -c 30000; exit 1");
    refused(site.restore(&there, &["--replace", "--pg-bin", broken.to_str().unwrap()]));
    assert_eq!(there.sql("SELECT string_agg(name, ' ') FROM tenants"), "there");
    ok(site.restore(&db, &[]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_dump_runs_no_command_on_the_machine_that_restores_it() {
    let site = Saved::new().await;
    let ran = site.restored_blobs().join("ran");
    // A statement of the dump gets as long a text that ends it and gives psql a command.
    let mark = "m".repeat(300);
    site.server.db.sql(&format!("COMMENT ON TABLE tenants IS '{mark}'"));
    let taken = site.take(&[]);
    let mut dump = std::fs::read(site.part(taken["database"]["digest"].as_str().unwrap())).unwrap();
    let at = dump.windows(mark.len()).position(|window| window == mark.as_bytes()).unwrap();
    let command = format!("';\n\\! touch {}\n--", ran.display());
    dump[at..at + command.len()].copy_from_slice(command.as_bytes());
    site.put_dump(&taken, &dump);
    let db = Database::empty();
    let said = refused(site.restore(&db, &[]));
    assert!(said.contains("psql") && said.contains("restricted"), "{said}");
    // PostgreSQL's programs of before, which would let it.
    let old =
        programs(site.dir.path(), "pg_restore", "pg_restore \"$@\" | grep -v '^.restrict\\|^.unrestrict'");
    let said = refused(site.restore(&db, &["--pg-bin", old.to_str().unwrap()]));
    assert!(said.contains("pg_restore") && said.contains("15.14"), "{said}");
    // Root has others read it.
    let asked = programs(site.dir.path(), "pg_restore", "echo \"user $(id -u)\" $(env) >&2; exit 1");
    let said = refused(site.restore(&db, &["--pg-bin", asked.to_str().unwrap()]));
    let user = std::fs::metadata(site.dir.path()).unwrap().uid();
    assert!(said.contains(&format!("user {}", if user == 0 { 65_534 } else { user })), "{said}");
    assert!(!said.contains("MFAAS_"), "no address of the database, with its password: {said}");
    assert!(!ran.exists(), "a command of the dump ran");
    assert_eq!(tables(&db), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_that_changes_after_it_was_verified_is_not_committed() {
    let site = Saved::new().await;
    let taken = site.take(&[]);
    let db = Database::empty();
    let (url, blobs) = (db.url("postgres"), format!("file://{}", site.restored_blobs().display()));
    let into = Site {
        database: url.parse().unwrap(),
        database_url: url,
        blobs: Blobs::open(&blobs).unwrap(),
        programs: PostgresPrograms::default(),
    };
    let repository = Repository::open(&site.backups()).unwrap();
    let (name, manifest) = repository.manifest(None).unwrap();
    let list = verify(&repository, &name, &manifest).await.unwrap();
    // Behind its end: whatever reads it finds nothing wrong.
    let file = site.part(taken["database"]["digest"].as_str().unwrap());
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, [whole.as_slice(), b"x"].concat()).unwrap();
    let restored = restore(&into, &repository, (&name, &manifest), &list, false).await;
    assert!(matches!(restored, Err(BackupError::Damaged { .. })), "{restored:?}");
    assert_eq!(tables(&db), "0");
    std::fs::write(&file, whole).unwrap();
    restore(&into, &repository, (&name, &manifest), &list, false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn links_in_a_directory_of_others_lead_nowhere() {
    let site = Saved::new().await;
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "as it was").unwrap();
    let link = |at: PathBuf, to: &Path| {
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, at).unwrap();
    };
    // The draft of the manifest.
    link(site.backups().join("unfinished"), &victim);
    let taken = site.take(&[]);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "as it was");
    // A directory of the store that is restored into; and one of the store of the backups.
    let artifact = Digest::of(b"machine code").to_string();
    let shelf = format!("sha256/{}", &artifact[..2]);
    link(site.restored_blobs().join(&shelf), outside.path());
    let db = Database::empty();
    let said = refused(site.restore(&db, &[]));
    assert!(said.contains("not available"), "{said}");
    assert_eq!(tables(&db), "0");
    let second = site.dir.path().join("second");
    link(second.join("blobs").join(&shelf), outside.path());
    let arguments = ["backup", second.to_str().unwrap()];
    refused(command(&site.server.db, &site.blobs(), &arguments).output().unwrap());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1, "something was written there");
    std::fs::remove_file(site.restored_blobs().join(&shelf)).unwrap();
    assert_eq!(ok(site.restore(&db, &[]))["backup"], taken["backup"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_backup_in_the_directory_is_left_alone() {
    let site = Saved::new().await;
    site.take(&[]);
    let others = ["0.json", "package.json", "20260101T000000.000.json", "20261301T000000.000Z.json"];
    for name in others {
        std::fs::write(site.backups().join(name), "{}").unwrap();
    }
    let last = site.take(&["--keep", "1"]);
    assert_eq!(last["pruned"], 1);
    for name in others {
        assert!(site.backups().join(name).exists(), "{name}");
    }
    assert_eq!(ok(site.restore(&Database::empty(), &[]))["backup"], last["backup"]);
    // A manifest that is none, of a gigabyte for example, is not read to its end.
    let huge = std::fs::File::create(site.backups().join("20990101T000000.000Z.json")).unwrap();
    huge.set_len(1 << 30).unwrap();
    assert!(refused(site.restore(&Database::empty(), &[])).contains("MF1001"));
}

/// An S3-compatible server with the bucket `site`, which `scripts/prepare --tests` installs; killed when dropped.
struct Bucket {
    program: Child,
    port: u16,
    _files: tempfile::TempDir,
}

impl Bucket {
    fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let [objects, metadata] = ["objects", "metadata"].map(|name| files.path().join(name));
        std::fs::create_dir_all(objects.join("site")).unwrap();
        std::fs::create_dir(&metadata).unwrap();
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let installed = home.join(".cache/mfaas-tests/bin/versitygw");
        let program = if installed.exists() { installed } else { PathBuf::from("versitygw") };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let program = Command::new(program)
            .args(["--port", &format!("127.0.0.1:{port}"), "posix", "--sidecar"])
            .args([metadata, objects])
            .envs([("ROOT_ACCESS_KEY", "test"), ("ROOT_SECRET_KEY", "hidden-secret")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let bucket = Self { program, port, _files: files };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the S3 server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        bucket
    }

    /// A command of the program whose store is the bucket.
    fn command(&self, db: &Database, arguments: &[&str]) -> Command {
        let mut command = command(db, Path::new("/"), arguments);
        command
            .env("MFAAS_BLOBS_URL", "s3://site/some/prefix")
            .env("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port))
            .envs([("AWS_ALLOW_HTTP", "true"), ("AWS_REGION", "us-east-1")])
            .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "hidden-secret")]);
        command
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_comes_back_into_a_bucket_and_is_saved_from_there() {
    let site = Saved::new().await;
    site.take(&[]);
    let (bucket, in_bucket) = (Bucket::start(), Database::empty());
    let backups = site.backups();
    let arguments = ["restore", backups.to_str().unwrap(), "--json"];
    ok(bucket.command(&in_bucket, &arguments).output().unwrap());

    let second = site.dir.path().join("second");
    let arguments = ["backup", second.to_str().unwrap(), "--json"];
    assert_eq!(ok(bucket.command(&in_bucket, &arguments).output().unwrap())["copied"], 2);
    let back = Database::empty();
    let arguments = ["restore", second.to_str().unwrap(), "--json"];
    ok(command(&back, &site.restored_blobs(), &arguments).output().unwrap());
    let blobs = Blobs::open(&format!("file://{}", site.restored_blobs().display())).unwrap();
    assert_eq!(blobs.get(&Digest::of(b"machine code"), 100).await.unwrap(), "machine code");
    assert_eq!(back.sql("SELECT string_agg(name, ' ') FROM tenants"), "a");
}
