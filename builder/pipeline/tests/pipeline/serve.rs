//! `serve` on a real registry: definite endings, whoever stops in the middle.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mfaas_blobs::Blobs;
use mfaas_catalog::{
    Actor, Catalog, CatalogError, Deployment, NewDeployment, QueueLimits, Recorded, RolePasswords, migrate,
};
use mfaas_delivery::{DeploymentState, EventKind, Stage};
use mfaas_harness::SmallDisk;
use mfaas_ident::{DeploymentId, FunctionName, PersonName, TenantName};

use crate::installed::installed;
use crate::package::Package;
use mfaas_test_postgres::{Cluster, OWNER};

pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// A registry with a blob store, and what a server would do with them.
pub struct Registry {
    pub database: String,
    pub catalog: Catalog,
    pub blobs: Blobs,
    pub home: tempfile::TempDir,
}

impl Registry {
    pub async fn new() -> Self {
        let database = Cluster::get().create_database();
        let url = |user: &str| Cluster::get().url(&database, user);
        let password = || Some("secret".to_owned());
        let passwords = RolePasswords { server: password(), builder: password(), ..RolePasswords::default() };
        {
            // Roles are those of the whole cluster, and PostgreSQL lets nobody else change one meanwhile.
            static ROLES: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
            let _alone = ROLES.lock().await;
            migrate(&url(OWNER), &passwords).await.unwrap();
        }
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("blobs")).unwrap();
        let blobs = Blobs::open(&format!("file://{}/blobs", home.path().display())).unwrap();
        blobs.mark().await.unwrap();
        let catalog = Catalog::connect(&url("mfaas_server"), 4).await.unwrap();
        let seed = std::fs::read(installed().deps.join("allowlist.json")).unwrap();
        let seed = serde_json::from_slice(&seed).unwrap();
        // What ships is decided by the owner of the database alone.
        let owner = Catalog::connect(&url(OWNER), 1).await.unwrap();
        owner.import_allowlist(&Actor::program("seed"), &seed).await.unwrap();
        Self { database, catalog, blobs, home }
    }

    /// Uploads a package as the server does.
    pub async fn deploy(&self, package: &Package) -> DeploymentId {
        self.deploy_archive(package.pack()).await
    }

    /// The same with the archive of one.
    pub async fn deploy_archive(&self, bytes: Vec<u8>) -> DeploymentId {
        let source_bytes = bytes.len() as u64;
        let source_digest = self.blobs.put(bytes.into()).await.unwrap();
        let (tenant, function) = (tenant(), FunctionName::parse("sample").unwrap());
        let actor = Actor::program("mfaas-server");
        self.catalog.ensure_tenant(&actor, &tenant).await.unwrap();
        let new = NewDeployment {
            trace_parent: None,
            tenant: &tenant,
            function: &function,
            person: &PersonName::parse("acme/ci").unwrap(),
            idempotency_key: &uuid::Uuid::new_v4().to_string(),
            source_digest,
            source_bytes,
        };
        let limits = QueueLimits { deployments_max: 100, source_bytes_max: 1 << 30, functions_max: 100 };
        let stored = async { Ok::<(), CatalogError>(()) };
        match self.catalog.record_deployment(&actor, &new, &limits, stored).await.unwrap() {
            Recorded::Created(deployment) => deployment.id,
            Recorded::Repeated(_) => panic!("a fresh key was used before"),
        }
    }

    /// Starts a builder and waits until it serves.
    fn start_builder(&self) -> Builder {
        self.start_host("work", |_| {})
    }

    /// The same with a scratch directory of that name, and what else `configure` sets.
    pub fn start_host(&self, work: &str, configure: impl FnOnce(&mut Command)) -> Builder {
        let builder = self.launch_host(work, configure);
        builder.wait_until_it_serves();
        builder
    }

    /// The same, and does not wait.
    pub fn launch_host(&self, work: &str, configure: impl FnOnce(&mut Command)) -> Builder {
        let ready = self.home.path().join(format!("ready-{}", uuid::Uuid::new_v4()));
        let work = self.home.path().join(work);
        let mut command = installed().builder();
        command
            .arg("serve")
            .env("MFAAS_DATABASE_URL", Cluster::get().url(&self.database, "mfaas_builder"))
            .env("MFAAS_BLOBS_URL", format!("file://{}/blobs", self.home.path().display()))
            .env("MFAAS_WORK_DIR", &work)
            .env("MFAAS_READY_FILE", &ready)
            .stdin(Stdio::null());
        configure(&mut command);
        Builder { child: command.spawn().unwrap(), work, ready }
    }

    /// Waits until the deployment is in a state for which `wanted` holds.
    pub async fn wait_for(&self, id: DeploymentId, wanted: impl Fn(&Deployment) -> bool) -> Deployment {
        let started = Instant::now();
        loop {
            let deployment = self.catalog.deployment(&tenant(), id).await.unwrap();
            if wanted(&deployment) {
                return deployment;
            }
            assert!(started.elapsed() < WAIT_MAX, "stuck: {deployment:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a stage has begun.
    async fn wait_for_stage(&self, id: DeploymentId, stage: Stage) {
        let started = Instant::now();
        loop {
            let events = self.catalog.events_after(&tenant(), id, 0, 100).await.unwrap();
            if events.iter().any(|event| event.stage == stage && event.kind == EventKind::Started) {
                return;
            }
            assert!(started.elapsed() < WAIT_MAX, "stage {stage:?} does not begin");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub fn tenant() -> TenantName {
    TenantName::parse("acme").unwrap()
}

/// A running builder; killed when dropped.
pub struct Builder {
    child: Child,
    work: PathBuf,
    ready: PathBuf,
}

impl Builder {
    pub fn serves(&self) -> bool {
        self.ready.exists()
    }

    pub fn wait_until_it_serves(&self) {
        let started = Instant::now();
        while !self.serves() {
            assert!(started.elapsed() < WAIT_MAX, "the builder does not become ready");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGTERM; the program must end by itself, in time and well, and leave nothing behind.
    pub fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < Duration::from_secs(10), "SIGTERM takes too long");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{status}");
        let left: Vec<_> = std::fs::read_dir(&self.work).unwrap().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ECHO: &str = "pub fn handle(request: &[u8]) -> Vec<u8> { request.to_vec() }\n";
/// Compiles for tens of seconds: long enough to be interrupted, within every limit of the lexer.
const SLOW: &str = "macro_rules! many { ($($n:ident)*) => { $(pub fn $n(v: &[u64]) -> Vec<String> {
        let mut v: Vec<String> = v.iter().map(|x| format!(\"{x:?} {}\", stringify!($n))).collect();
        v.sort_by(|a, b| b.cmp(a)); v.dedup(); v.iter().map(|s| s.to_uppercase()).rev().collect()
    })* } }\n";

/// A source with `functions` functions that each take the compiler some ten milliseconds.
fn slow_source(functions: usize) -> String {
    let names: Vec<String> = (0..functions).map(|n| format!("f{n}")).collect();
    format!("{SLOW}many!({});\n{ECHO}", names.join(" "))
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_end_built_refused_or_waiting() {
    let registry = Registry::new().await;
    let builder = registry.start_builder();
    let declaring = "[package.metadata.mfaas]\nidempotent = true\nisolation = \"process\"\n";
    let good = registry.deploy(&Package::new(ECHO).manifest(declaring)).await;
    let bad = registry.deploy(&Package::new("pub fn handle(_: &[u8]) -> Vec<u8> { 1 }\n")).await;
    let unsure = Package::new(ECHO).manifest("[dependencies]\nrand = \"0.9\"\n");
    let unsure = registry.deploy(&unsure).await;
    let ended = |deployment: &Deployment| {
        !matches!(deployment.state, DeploymentState::Received | DeploymentState::Building)
    };
    assert_eq!(registry.wait_for(good, ended).await.state, DeploymentState::Built);
    let refused = registry.wait_for(bad, ended).await;
    assert_eq!(refused.state, DeploymentState::Refused);
    assert_eq!(refused.diagnostics[0].code.id(), "MF0401");
    assert_eq!(registry.wait_for(unsure, ended).await.state, DeploymentState::Waiting);
    let events = registry.catalog.events_after(&tenant(), good, 0, 100).await.unwrap();
    let finished: Vec<Stage> =
        events.iter().filter(|event| event.kind == EventKind::Finished).map(|event| event.stage).collect();
    let stages = [
        Stage::Unpack,
        Stage::Audit,
        Stage::Dependencies,
        Stage::Expand,
        Stage::Compile,
        Stage::Link,
        Stage::Inspect,
        Stage::Load,
    ];
    assert_eq!(finished, stages);
    let claims = "SELECT 1 / count(*) FROM builds
                  WHERE claim -> 'declared' = '{\"idempotent\": true, \"isolation\": \"process\"}'";
    assert!(Cluster::get().psql(&registry.database, claims), "the builder claims what the manifest declares");
    builder.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_is_interrupted_is_given_back_and_done_by_another() {
    let registry = Registry::new().await;
    let first = registry.start_builder();
    let id = registry.deploy(&Package::new(&slow_source(1_500))).await;
    registry.wait_for_stage(id, Stage::Compile).await;
    first.stop();
    let given_back = registry.catalog.deployment(&tenant(), id).await.unwrap();
    assert_eq!(given_back.state, DeploymentState::Received);
    let second = registry.start_builder();
    registry.wait_for(id, |deployment| deployment.state == DeploymentState::Building).await;
    second.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_builder_leaves_is_cleared_by_the_next() {
    let registry = Registry::new().await;
    let mut first = registry.start_builder();
    let id = registry.deploy(&Package::new(&slow_source(1_500))).await;
    registry.wait_for_stage(id, Stage::Compile).await;
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert_eq!(std::fs::read_dir(&first.work).unwrap().count(), 1);
    let second = registry.start_builder();
    // One directory: the new one's own.
    assert_eq!(std::fs::read_dir(&first.work).unwrap().count(), 1);
    second.stop();
}

/// More than the builds of a large machine may use at a time; nothing of it is memory until it is written.
const LARGE: u64 = 16 << 30;

/// Without room for scratch files nothing is claimed, and when there is room everything is built.
#[tokio::test(flavor = "multi_thread")]
async fn a_builder_without_room_takes_nothing_until_it_has_some() {
    let registry = Registry::new().await;
    let work = registry.home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let Some(disk) = SmallDisk::mount(&work, 64 << 20) else { return };
    let builder = registry.start_builder();
    let good = registry.deploy(&Package::new(ECHO)).await;
    let bad = registry.deploy(&Package::new("pub fn handle(_: &[u8]) -> Vec<u8> { 1 }\n")).await;
    let started = Instant::now();
    while !registry.catalog.builders().await.unwrap().iter().any(|builder| builder.unwell.is_some()) {
        assert!(started.elapsed() < WAIT_MAX, "the builder does not report that it is unwell");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for id in [good, bad] {
        let waits = registry.catalog.deployment(&tenant(), id).await.unwrap();
        assert_eq!((waits.state, waits.attempt), (DeploymentState::Received, 0));
    }
    disk.resize(LARGE);
    let ended = |deployment: &Deployment| {
        !matches!(deployment.state, DeploymentState::Received | DeploymentState::Building)
    };
    assert_eq!(registry.wait_for(good, ended).await.state, DeploymentState::Built);
    assert_eq!(registry.wait_for(bad, ended).await.state, DeploymentState::Refused);
    let builders = registry.catalog.builders().await.unwrap();
    assert_eq!(builders.iter().map(|builder| builder.unwell.is_none()).collect::<Vec<_>>(), [true]);
    builder.stop();
}

/// The blob store fills up between the claim and the end: the work is done again when it has room.
#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_that_cannot_be_stored_costs_no_attempt() {
    let registry = Registry::new().await;
    let Some(disk) = SmallDisk::mount(&registry.home.path().join("blobs"), 4 << 20) else { return };
    registry.blobs.mark().await.unwrap();
    let mut ids = Vec::new();
    for number in 0..3 {
        let source = format!("pub fn handle(_: &[u8]) -> Vec<u8> {{ vec![{number}] }}\n");
        ids.push(registry.deploy(&Package::new(&source)).await);
    }
    let builder = registry.start_builder();
    registry.wait_for_stage(ids[0], Stage::Unpack).await;
    disk.fill();
    let started = Instant::now();
    while registry.catalog.count_postponed_builds().await.unwrap() == 0 {
        assert!(started.elapsed() < WAIT_MAX, "no build is put back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    disk.clear();
    for id in ids {
        let built = registry.wait_for(id, |deployment| deployment.state == DeploymentState::Built).await;
        assert_eq!(built.attempt, 1);
    }
    builder.stop();
}
