//! A database, a blob store, keys, and signers as real processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{
    BuildClaim, Declared, KeyList, ListedKey, PrivateKey, Purpose, SandboxLevel, ServedFunction, ServingSet,
    Shard, ShardPrefix, Statement, Trust, TrustedRoot, Verified, sign, verify,
};
use mfaas_blobs::Blobs;
use mfaas_ident::{Budget, Digest, HandlerPath, MemoryLimit, ToolchainId};
use mfaas_rules::POLICY_REVISION;
use mfaas_rules::profiles::lints;
use mfaas_unpack::SourceTree;
use postgres::{Client, NoTls};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::sample::artifact;
use mfaas_test_postgres::{Cluster, OWNER};

const WAIT_MAX: Duration = Duration::from_secs(30);

/// The migrations in their order, each with its number.
fn migrations() -> Vec<(i64, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let (number, _) = path.file_name()?.to_str()?.split_once('_')?;
            Some((number.parse().unwrap(), std::fs::read_to_string(&path).unwrap()))
        })
        .collect();
    all.sort();
    all
}

/// Applies them as the owner. Roles belong to the whole cluster; two databases must not change them at once.
pub(crate) fn migrate(sql: &mut Client) {
    static MIGRATING: Mutex<()> = Mutex::new(());
    let _one = MIGRATING.lock().unwrap_or_else(|e| e.into_inner());
    sql.batch_execute("CREATE TABLE _sqlx_migrations (version bigint, success boolean)").unwrap();
    for (number, migration) in migrations() {
        sql.batch_execute(&migration).unwrap();
        sql.execute("INSERT INTO _sqlx_migrations VALUES ($1, true)", &[&number]).unwrap();
    }
    sql.batch_execute("ALTER ROLE mfaas_signer LOGIN; ALTER ROLE mfaas_server LOGIN").unwrap();
}

/// A migrated database to which nobody is connected: each world's is a copy of it.
fn migrated() -> &'static str {
    static MIGRATED: OnceLock<String> = OnceLock::new();
    MIGRATED.get_or_init(|| {
        let cluster = Cluster::get();
        let database = cluster.create_database();
        migrate(&mut Client::connect(&cluster.url(&database, OWNER), NoTls).unwrap());
        database
    })
}

/// Everything that a signer needs, without the signer.
pub(crate) struct World {
    pub(crate) sql: Client,
    pub(crate) dir: tempfile::TempDir,
    database: String,
    blobs: Blobs,
    runtime: Runtime,
    /// Of what is deployed.
    pub(crate) tenant: &'static str,
    pub(crate) function: &'static str,
}

/// A running signer; killed when dropped.
pub(crate) struct Signer(pub(crate) Child);

impl Drop for Signer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Signer {
    /// SIGTERM; the exit must be clean and soon.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "the signer does not stop");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "{status}");
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let cluster = Cluster::get();
        let database = cluster.copy_database(migrated());
        let mut sql = Client::connect(&cluster.url(&database, OWNER), NoTls).unwrap();
        sql.batch_execute("INSERT INTO tenants (name) VALUES ('acme')").unwrap();
        let toolchain = toolchain().to_string();
        sql.execute(
            "INSERT INTO toolchains (id, accepted, decided_by) VALUES ($1, true, 'seed')",
            &[&toolchain],
        )
        .unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("blobs")).unwrap();
        let blobs = Blobs::open(&format!("file://{}/blobs", dir.path().display())).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(blobs.mark()).unwrap();
        let world = Self { sql, dir, database, blobs, runtime, tenant: "acme", function: "hello" };
        assert!(world.init().status.success());
        assert!(world.publish(&world.root().join("keylist.json")).status.success());
        world
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root-key")
    }

    pub(crate) fn keys(&self) -> PathBuf {
        self.dir.path().join("keys")
    }

    pub(crate) fn init(&self) -> Output {
        self.command(&[
            "init",
            "--root-dir",
            self.root().to_str().unwrap(),
            "--keys-dir",
            self.keys().to_str().unwrap(),
        ])
        .output()
        .unwrap()
    }

    /// Rotates and publishes the list that comes of it; `how` is empty, `--renew` or `--leaked`.
    pub(crate) fn rotate(&self, how: &[&str]) {
        let (root, keys) = (self.root(), self.keys());
        let dirs = ["--root-dir", root.to_str().unwrap(), "--keys-dir", keys.to_str().unwrap()];
        let output = self.command(&[&["rotate"], how, &dirs].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(self.publish(&root.join("keylist.json")).status.success());
    }

    /// Signs the statements again that another key has signed.
    pub(crate) fn resign(&self) -> Output {
        let list = self.root().join("keylist.json");
        self.command(&["resign", list.to_str().unwrap()]).output().unwrap()
    }

    pub(crate) fn key_file(&self, name: &str) -> String {
        std::fs::read_to_string(self.keys().join(name)).unwrap()
    }

    /// Makes it an installation of the release before, whose one key signed everything.
    pub(crate) fn back_to_one_key(&mut self) {
        let root =
            PrivateKey::from_pem(&std::fs::read_to_string(self.root().join("root.key")).unwrap()).unwrap();
        let online = PrivateKey::from_pem(&self.key_file("statements.key")).unwrap().public();
        let not_after = Utc::now() + TimeDelta::days(365);
        let row = |purpose| ListedKey { keyid: online.id(), public: online, purpose, not_after };
        let keys = vec![row(Purpose::Artifact), row(Purpose::ServingSet)];
        self.sql.batch_execute("DELETE FROM key_lists").unwrap();
        let list = KeyList { version: 1, issued_at: Utc::now(), expires_at: None, root: None, keys };
        std::fs::write(self.root().join("keylist.json"), sign(&list, &[&root]).unwrap()).unwrap();
        std::fs::rename(self.keys().join("statements.key"), self.keys().join("online.key")).unwrap();
        std::fs::remove_file(self.keys().join("serving-sets.key")).unwrap();
        assert!(self.publish(&self.root().join("keylist.json")).status.success());
    }

    pub(crate) fn publish(&self, file: &std::path::Path) -> Output {
        self.command(&["publish-keylist", file.to_str().unwrap()]).output().unwrap()
    }

    /// Starts a signer and waits until it is ready.
    pub(crate) fn signer(&self) -> Signer {
        self.signer_with(&[])
    }

    /// The same with more of an environment.
    pub(crate) fn signer_with(&self, more: &[(&str, &str)]) -> Signer {
        self.started(&[], more)
    }

    /// The same with these options.
    pub(crate) fn signer_serving(&self, options: &[&str]) -> Signer {
        self.started(options, &[])
    }

    fn started(&self, options: &[&str], more: &[(&str, &str)]) -> Signer {
        let ready = self.dir.path().join(format!("ready-{}.json", Uuid::new_v4()));
        let child = self
            .command(&[&["serve"], options].concat())
            .env("MFAAS_READY_FILE", &ready)
            .envs(more.iter().copied())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let signer = Signer(child);
        wait_for("the ready file", || ready.exists().then_some(()));
        signer
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mfaas-signer"));
        command
            .args(arguments)
            .env_clear()
            .env("MFAAS_DATABASE_URL", Cluster::get().url(&self.database, "mfaas_signer"))
            .env("MFAAS_BLOBS_URL", format!("file://{}/blobs", self.dir.path().display()))
            .env("MFAAS_KEYS_DIR", self.keys());
        command
    }

    /// What a signer says that does not serve with a variable set like this.
    pub(crate) fn refuses_to_serve(&self, name: &str, value: &str) -> String {
        let mut signer = self.command(&["serve"]).env(name, value).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while signer.try_wait().unwrap().is_none() {
            if begun.elapsed() > WAIT_MAX {
                signer.kill().unwrap();
                panic!("it serves with {name}={value}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = signer.wait_with_output().unwrap();
        assert!(!ended.status.success(), "it ends well with {name}={value}");
        String::from_utf8_lossy(&ended.stderr).into_owned()
    }

    pub(crate) fn put(&self, bytes: &[u8]) -> Digest {
        self.runtime.block_on(self.blobs.put(Bytes::copy_from_slice(bytes))).unwrap()
    }

    /// A connection with the rights of that role.
    pub(crate) fn connect(&self, role: &str) -> Client {
        Client::connect(&Cluster::get().url(&self.database, role), NoTls).unwrap()
    }

    /// Where a blob lies, for damage.
    pub(crate) fn blob(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.dir.path().join("blobs/sha256").join(&name[..2]).join(name)
    }

    /// A deployment of a benign source, built, with the claim changed by `alter`.
    pub(crate) fn built(&mut self, alter: impl FnOnce(&mut BuildClaim)) -> Uuid {
        self.built_from(MANIFEST, BENIGN, alter)
    }

    /// A deployment of this source, built.
    pub(crate) fn built_from(
        &mut self,
        manifest: &str,
        lib: &str,
        alter: impl FnOnce(&mut BuildClaim),
    ) -> Uuid {
        let id = self.built_unsaid(manifest, lib, alter);
        self.wake();
        id
    }

    /// The same when the word to the signer is lost.
    pub(crate) fn built_unsaid(
        &mut self,
        manifest: &str,
        lib: &str,
        alter: impl FnOnce(&mut BuildClaim),
    ) -> Uuid {
        let tree = source(manifest, lib);
        let upload = tree.pack().unwrap();
        let source_digest = self.put(upload.as_bytes());
        let mut claim = claim(&tree);
        self.put(artifact());
        alter(&mut claim);
        let (id, token) = self.queue(&source_digest, upload.as_bytes().len());
        self.finish(id, token, &claim);
        id
    }

    /// A builder with a role of its own.
    pub(crate) fn builder(&mut self, name: &str) -> String {
        let role = format!("{}_{name}", self.database);
        self.sql.batch_execute(&format!("CREATE ROLE {role} LOGIN IN ROLE mfaas_builder")).unwrap();
        role
    }

    /// A deployment of a benign source in the queue.
    pub(crate) fn uploaded(&mut self) -> Uuid {
        let upload = benign().pack().unwrap();
        let digest = self.put(upload.as_bytes());
        self.put(artifact());
        self.received(&digest, upload.as_bytes().len())
    }

    /// What a builder does with it, by that role's own connection: a claim, changed by `alter`.
    pub(crate) fn built_by(&mut self, role: &str, id: Uuid, alter: impl FnOnce(&mut BuildClaim)) {
        let mut claim = claim(&benign());
        alter(&mut claim);
        let token = self.taken_by(role, id);
        let mut sql = self.connect(role);
        let mut end = sql.transaction().unwrap();
        let finish =
            "UPDATE builds SET claim = $2, finished_at = now(), committed_token = $3, lease_expires_at = NULL
                      WHERE deployment_id = $1";
        end.execute(finish, &[&id, &serde_json::to_value(&claim).unwrap(), &token]).unwrap();
        end.execute("UPDATE deployments SET state = 'built' WHERE id = $1", &[&id]).unwrap();
        end.execute("SELECT pg_notify('mfaas_signer', '')", &[]).unwrap();
        end.commit().unwrap();
    }

    /// What a builder does that takes a build; answers the token that it was granted.
    pub(crate) fn taken_by(&self, role: &str, id: Uuid) -> i64 {
        let mut sql = self.connect(role);
        let take = "UPDATE builds SET attempt = 1, lease_holder = 'x', lease_expires_at = now() + interval '30 seconds',
                    fencing_token = 0 WHERE deployment_id = $1 RETURNING fencing_token";
        let token = sql.query_one(take, &[&id]).unwrap().get(0);
        sql.execute("UPDATE deployments SET state = 'building', diagnostics = '[]' WHERE id = $1", &[&id])
            .unwrap();
        token
    }

    /// What a builder of that revision does to a deployment that was put back into the queue.
    pub(crate) fn built_again(&mut self, id: Uuid, revision: &str) {
        let recorded = "SELECT source_digest FROM deployments WHERE id = $1";
        let digest: String = self.sql.query_one(recorded, &[&id]).unwrap().get(0);
        let bytes = self.runtime.block_on(self.blobs.get(&digest.parse().unwrap(), 1 << 20)).unwrap();
        let tree = mfaas_unpack::Upload::new(bytes.to_vec()).unwrap().unpack().unwrap();
        let claim = BuildClaim { policy_revision: revision.to_owned(), ..claim(&tree) };
        self.sql.execute("UPDATE deployments SET state = 'building' WHERE id = $1", &[&id]).unwrap();
        let granted = "UPDATE builds SET attempt = 1, fencing_token = nextval('fencing_token')
                       WHERE deployment_id = $1 AND finished_at IS NULL RETURNING fencing_token";
        let token = self.sql.query_one(granted, &[&id]).unwrap().get(0);
        self.finish(id, token, &claim);
        self.wake();
    }

    fn finish(&mut self, id: Uuid, token: i64, claim: &BuildClaim) {
        self.sql
            .execute(
                "UPDATE builds SET claim = $2, finished_at = now(), committed_token = $3 WHERE deployment_id = $1",
                &[&id, &serde_json::to_value(claim).unwrap(), &token],
            )
            .unwrap();
        self.sql.execute("UPDATE deployments SET state = 'built' WHERE id = $1", &[&id]).unwrap();
    }

    /// What builders and servers say once there is something for the signer; it would look by itself a second later.
    pub(crate) fn wake(&mut self) {
        self.sql.batch_execute("SELECT pg_notify('mfaas_signer', '')").unwrap();
    }

    /// What server and builder do to a deployment until it is built; returns it with its token.
    fn queue(&mut self, source: &Digest, bytes: usize) -> (Uuid, i64) {
        let id = self.received(source, bytes);
        self.sql.execute("UPDATE deployments SET state = 'building' WHERE id = $1", &[&id]).unwrap();
        let row = self
            .sql
            .query_one(
                "UPDATE builds SET attempt = 1, fencing_token = nextval('fencing_token') WHERE deployment_id = $1
                 RETURNING fencing_token",
                &[&id],
            )
            .unwrap();
        (id, row.get(0))
    }

    /// What the server does.
    fn received(&mut self, source: &Digest, bytes: usize) -> Uuid {
        let id = Uuid::new_v4();
        self.sql
            .execute(
                "INSERT INTO deployments (id, tenant, function, idempotency_key, source_digest, source_bytes,
                     submitted_by) VALUES ($1, $6, $5, $2, $3, $4, 'test')",
                &[
                    &id,
                    &id.to_string(),
                    &source.to_string(),
                    &i64::try_from(bytes).unwrap(),
                    &self.function,
                    &self.tenant,
                ],
            )
            .unwrap();
        self.sql.execute("INSERT INTO builds (deployment_id) VALUES ($1)", &[&id]).unwrap();
        id
    }

    /// Waits until the deployment has ended; returns its state and the codes of its diagnostics.
    pub(crate) fn ended(&mut self, id: Uuid) -> (String, Vec<String>) {
        wait_for("the end of the deployment", || {
            let row = self
                .sql
                .query_one(
                    "SELECT state, ARRAY(SELECT d ->> 'code' FROM jsonb_array_elements(diagnostics) d)
                     FROM deployments WHERE id = $1",
                    &[&id],
                )
                .unwrap();
            let state: String = row.get(0);
            (state != "built").then(|| (state, row.get(1)))
        })
    }

    pub(crate) fn count(&mut self, query: &str) -> i64 {
        self.sql.query_one(query, &[]).unwrap().get(0)
    }

    /// What a node trusts now: the pinned root and the published list.
    pub(crate) fn trust(&mut self) -> Trust {
        self.trust_at(Utc::now())
    }

    /// What a node that has the published list trusts at that moment.
    pub(crate) fn trust_at(&mut self, now: DateTime<Utc>) -> Trust {
        let mut root =
            TrustedRoot::of_file(&std::fs::read_to_string(self.root().join("root.pub")).unwrap()).unwrap();
        for row in self.sql.query("SELECT envelope FROM key_lists ORDER BY version", &[]).unwrap() {
            root = root.follow(row.get::<_, String>(0).as_bytes()).unwrap();
        }
        root.trust(now)
    }

    /// The newest serving set above `epoch`, verified as a node does.
    pub(crate) fn set_after(&mut self, epoch: u64) -> Verified<ServingSet> {
        let trust = self.trust();
        let after = i64::try_from(epoch).unwrap();
        wait_for("a serving set", || {
            let sql = "SELECT envelope FROM serving_sets WHERE epoch > $1 ORDER BY epoch DESC LIMIT 1";
            let row = self.sql.query_opt(sql, &[&after]).unwrap()?;
            Some(verify(row.get::<_, String>(0).as_bytes(), &trust).unwrap())
        })
    }

    /// Every function that a set leads to, read as a node does; every shard on the way is in use, and no other but the document of the
    /// revoked call tokens.
    pub(crate) fn functions(&mut self, set: &ServingSet) -> Vec<ServedFunction> {
        let (mut wanted, mut functions) = (vec![(ShardPrefix::default(), set.functions)], Vec::new());
        let mut read = 0;
        while let Some((prefix, named)) = wanted.pop() {
            read += 1;
            let sql = "SELECT body FROM shards WHERE digest = $1 AND unused_since IS NULL";
            let body: String = self.sql.query_one(sql, &[&named.digest.to_string()]).unwrap().get(0);
            match Shard::read(body.as_bytes(), &named, &prefix).unwrap() {
                Shard::Leaf(leaf) => functions.extend(leaf),
                Shard::Branch(children) => {
                    wanted.extend(children.into_iter().map(|(digit, child)| (prefix.child(digit), child)));
                }
            }
        }
        read += i64::from(set.revoked_calls.is_some());
        assert_eq!(self.count("SELECT count(*) FROM shards WHERE unused_since IS NULL"), read);
        functions.sort_by(|a, b| (&a.tenant, &a.name).cmp(&(&b.tenant, &b.name)));
        functions
    }

    /// The newest set once nothing is left to be said by the next one.
    pub(crate) fn settled(&mut self) -> Verified<ServingSet> {
        wait_for("a set that says everything", || {
            (self.count("SELECT count(*) FROM changed_functions") == 0).then_some(())
        });
        self.set_after(0)
    }

    /// The statement of a version, verified as a node does.
    pub(crate) fn statement(&mut self, deployment: Uuid) -> Verified<Statement> {
        let trust = self.trust();
        verify(self.statement_envelope(deployment).as_bytes(), &trust).unwrap()
    }

    /// The statement of a version as it is served to nodes.
    pub(crate) fn statement_envelope(&mut self, deployment: Uuid) -> String {
        let sql = "SELECT s.envelope FROM versions v JOIN statements s ON s.digest = v.statement
                   WHERE v.deployment_id = $1";
        self.sql.query_one(sql, &[&deployment]).unwrap().get(0)
    }

    /// The newest serving set as it is served to nodes.
    pub(crate) fn set_envelope(&mut self) -> String {
        let sql = "SELECT envelope FROM serving_sets ORDER BY epoch DESC LIMIT 1";
        self.sql.query_one(sql, &[]).unwrap().get(0)
    }
}

pub(crate) const MANIFEST: &str = "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

const BENIGN: &str = "pub fn handle(r: &[u8]) -> Vec<u8> { r.to_vec() }\n";

fn benign() -> SourceTree {
    source(MANIFEST, BENIGN)
}

fn source(manifest: &str, lib: &str) -> SourceTree {
    let source = tempfile::tempdir().unwrap();
    std::fs::create_dir(source.path().join("src")).unwrap();
    std::fs::write(source.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::write(source.path().join("src/lib.rs"), lib).unwrap();
    SourceTree::from_dir(source.path()).unwrap()
}

pub(crate) fn toolchain() -> ToolchainId {
    ToolchainId(Digest::of(b"toolchain"))
}

fn claim(tree: &SourceTree) -> BuildClaim {
    BuildClaim {
        artifact: Digest::of(artifact()),
        artifact_bytes: artifact().len() as u64,
        source_tree: tree.tree_digest(),
        handler: HandlerPath::parse("handle").unwrap(),
        budget_us: Budget::DEFAULT,
        memory_bytes: MemoryLimit::DEFAULT,
        declared: Declared::default(),
        bindings: Default::default(),
        toolchain: toolchain(),
        abi_version: 2,
        lints: lints::required().map(str::to_owned).collect(),
        policy_revision: POLICY_REVISION.to_owned(),
        policy_version: 1,
        decisions: Vec::new(),
        sandbox_level: SandboxLevel::Full,
        checks: BuildClaim::CHECKS.map(str::to_owned).into(),
    }
}

/// Looks until there is something, half a minute at most.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < WAIT_MAX, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
