//! Builders on several hosts, of which one lacks what the site has: that is its own fault, and no tenant's to wait for.

use std::path::{Path, PathBuf};
use std::time::Instant;

use mfaas_catalog::Deployment;
use mfaas_delivery::DeploymentState;
use mfaas_ident::{DeploymentId, Digest};

use crate::installed::installed;
use crate::package::Package;
use crate::serve::{Registry, WAIT_MAX, tenant};
use mfaas_test_postgres::Cluster;

/// The crate that only the site's cache holds.
const EXTRA: &str = "hex";

/// A cache that ships without [`EXTRA`], whose key is its own.
pub fn shipped_without(home: &Path, salt: &str) -> PathBuf {
    let whole = &installed().deps;
    let recipe = format!("{}{salt}\n", std::fs::read_to_string(whole.join("recipe.txt")).unwrap());
    let cache = home.join(format!("shipped-{salt}")).join(Digest::of(recipe.as_bytes()).to_string());
    std::fs::create_dir_all(&cache).unwrap();
    let mut index: serde_json::Value =
        serde_json::from_slice(&std::fs::read(whole.join("deps.json")).unwrap()).unwrap();
    let crates = index["crates"].as_array_mut().unwrap();
    let before = crates.len();
    crates.retain(|entry| entry["name"] != EXTRA);
    assert_eq!(crates.len() + 1, before);
    std::fs::write(cache.join("deps.json"), index.to_string()).unwrap();
    std::fs::write(cache.join("recipe.txt"), recipe).unwrap();
    std::fs::copy(whole.join("allowlist.json"), cache.join("allowlist.json")).unwrap();
    std::os::unix::fs::symlink(whole.join("lib"), cache.join("lib")).unwrap();
    cache
}

fn key(cache: &Path) -> &str {
    cache.file_name().unwrap().to_str().unwrap()
}

/// A registry whose site cache is the whole one, in place of `shipped`.
pub async fn site_on(shipped: &Path, registry: &Registry) {
    let toolchain = key(&installed().toolchain);
    let (cache, base) = (key(&installed().deps), key(shipped));
    let sql = format!(
        "INSERT INTO dependency_caches (key, base, toolchain, lock) VALUES ('{cache}', '{base}', '{toolchain}', '')"
    );
    assert!(Cluster::get().psql(&registry.database, &sql));
}

fn needs_the_extra() -> Package {
    let source =
        format!("pub fn handle(request: &[u8]) -> Vec<u8> {{ {EXTRA}::encode(request).into_bytes() }}\n");
    Package::new(&source).manifest(&format!("[dependencies]\n{EXTRA} = \"0.4\"\n"))
}

async fn has_not_begun(registry: &Registry, id: DeploymentId) {
    let deployment = registry.catalog.deployment(&tenant(), id).await.unwrap();
    assert_eq!((deployment.state, deployment.attempt), (DeploymentState::Received, 0), "{deployment:?}");
    let asked = registry.catalog.unanswered_requests(None, 10).await.unwrap();
    assert!(asked.is_empty(), "reviewers are asked for what they have allowed: {asked:?}");
}

pub fn ended(deployment: &Deployment) -> bool {
    !matches!(deployment.state, DeploymentState::Received | DeploymentState::Building)
}

/// Why a builder says that it cannot build.
async fn unwell(registry: &Registry) -> String {
    let started = Instant::now();
    loop {
        let builders = registry.catalog.builders().await.unwrap();
        if let Some(cause) = builders.into_iter().find_map(|builder| builder.unwell) {
            return cause;
        }
        assert!(started.elapsed() < WAIT_MAX, "the builder does not say what it lacks");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A disk that is mounted after the builder has started, or a copy that is not whole yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_builder_waits_for_its_toolchain_and_cache_says_so_and_ends_when_it_is_told() {
    let registry = Registry::new().await;
    let late = registry.home.path().join("late");
    let (toolchain, deps) = (late.join(key(&installed().toolchain)), late.join(key(&installed().deps)));
    let launch = |work| {
        registry.launch_host(work, |command| {
            command.env("MFAAS_TOOLCHAIN_DIR", &toolchain).env("MFAAS_DEPS_DIR", &deps);
        })
    };
    let told_to_end = launch("told-to-end");
    let said = unwell(&registry).await;
    assert!(said.contains(toolchain.to_str().unwrap()), "{said}");
    told_to_end.stop();
    assert!(registry.catalog.builders().await.unwrap().is_empty(), "it is not counted any more");

    let builder = launch("waits");
    let id = registry.deploy(&Package::new("pub fn handle(_: &[u8]) -> Vec<u8> { Vec::new() }\n")).await;
    unwell(&registry).await;
    // The name alone makes no toolchain.
    std::fs::create_dir_all(&toolchain).unwrap();
    std::fs::write(toolchain.join("manifest.sha256"), "half of it").unwrap();
    std::os::unix::fs::symlink(&installed().deps, &deps).unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert!(unwell(&registry).await.contains("manifest"));
    assert!(!builder.serves());
    has_not_begun(&registry, id).await;
    std::fs::remove_dir_all(&toolchain).unwrap();
    std::os::unix::fs::symlink(&installed().toolchain, &toolchain).unwrap();
    builder.wait_until_it_serves();
    let built = registry.wait_for(id, ended).await;
    assert_eq!((built.state, built.attempt), (DeploymentState::Built, 1), "{built:?}");
    assert!(registry.catalog.builders().await.unwrap().iter().all(|builder| builder.unwell.is_none()));
    builder.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_builder_without_the_sites_cache_takes_nothing_and_says_so() {
    let registry = Registry::new().await;
    let shipped = shipped_without(registry.home.path(), "one");
    site_on(&shipped, &registry).await;
    let site = installed().deps.parent().unwrap();
    let without = registry.start_host("without", |command| {
        command.env("MFAAS_DEPS_DIR", &shipped);
        command.env("MFAAS_SITE_DEPS_DIR", registry.home.path().join("empty"));
    });
    let id = registry.deploy(&needs_the_extra()).await;
    let unwell = unwell(&registry).await;
    assert!(unwell.contains(key(&installed().deps)), "{unwell}");
    has_not_begun(&registry, id).await;
    let with = registry.start_host("with", |command| {
        command.env("MFAAS_DEPS_DIR", &shipped).env("MFAAS_SITE_DEPS_DIR", site);
    });
    let built = registry.wait_for(id, ended).await;
    assert_eq!((built.state, built.attempt), (DeploymentState::Built, 1), "{built:?}");
    without.stop();
    with.stop();
}

/// The site's cache in the blob store, as the acquirer leaves it, and what `change` makes of it.
pub async fn stored(registry: &Registry, change: impl Fn(&mut Vec<u8>)) {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gzip);
    for part in ["allowlist.json", "deps.json", "recipe.txt"] {
        let path = installed().deps.join(part);
        tar.append_path_with_name(path, format!("{}/{part}", key(&installed().deps))).unwrap();
    }
    tar.append_dir_all(format!("{}/lib", key(&installed().deps)), installed().deps.join("lib")).unwrap();
    let mut bytes = tar.into_inner().unwrap().finish().unwrap();
    change(&mut bytes);
    let size = bytes.len();
    let digest = registry.blobs.put(bytes.into()).await.unwrap();
    let sql = format!("UPDATE dependency_caches SET archive = '{digest}', archive_bytes = {size}");
    assert!(Cluster::get().psql(&registry.database, &sql));
}

/// Two programs that share a directory, as on one host, which has nothing of the site's. What is stored first is half of
/// it: nobody uses that, and whoever stores the whole brings both back.
#[tokio::test(flavor = "multi_thread")]
async fn builders_fetch_the_sites_cache_from_the_blob_store() {
    let registry = Registry::new().await;
    let shipped = shipped_without(registry.home.path(), "fetching");
    site_on(&shipped, &registry).await;
    stored(&registry, |bytes| bytes.truncate(bytes.len() / 2)).await;
    let site = registry.home.path().join("site-deps");
    let start = |work: &str| {
        registry.start_host(work, |command| {
            command.env("MFAAS_DEPS_DIR", &shipped).env("MFAAS_SITE_DEPS_DIR", &site);
        })
    };
    let id = registry.deploy(&needs_the_extra()).await;
    let builders = [start("one"), start("two")];
    let started = Instant::now();
    while registry.catalog.builders().await.unwrap().iter().filter(|one| one.unwell.is_some()).count() < 2 {
        assert!(started.elapsed() < WAIT_MAX, "half a cache is no reason to complain");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    has_not_begun(&registry, id).await;
    let names = || {
        let names = std::fs::read_dir(&site).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert!(names().iter().all(|name| name.starts_with('.')), "half a cache has a name: {:?}", names());
    stored(&registry, |_| {}).await;
    let built = registry.wait_for(id, ended).await;
    assert_eq!((built.state, built.attempt), (DeploymentState::Built, 1), "{built:?}");
    while registry.catalog.builders().await.unwrap().iter().any(|one| one.unwell.is_some()) {
        assert!(started.elapsed() < WAIT_MAX, "a builder does not get well");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for builder in builders {
        builder.stop();
    }
    assert_eq!(names(), [".lock", key(&installed().deps)]);
}

/// Of another release: the site's cache stands in place of a cache that this builder does not ship.
#[tokio::test(flavor = "multi_thread")]
async fn a_builder_of_another_release_puts_back_what_the_site_can_build() {
    let registry = Registry::new().await;
    let (old, shipped) =
        (shipped_without(registry.home.path(), "old"), shipped_without(registry.home.path(), "new"));
    site_on(&shipped, &registry).await;
    let site = installed().deps.parent().unwrap();
    let start = |work: &str, shipped: &Path| {
        registry.start_host(work, |command| {
            command.env("MFAAS_DEPS_DIR", shipped).env("MFAAS_SITE_DEPS_DIR", site);
        })
    };
    let other = start("old", &old);
    let id = registry.deploy(&needs_the_extra()).await;
    let started = Instant::now();
    while registry.catalog.count_postponed_builds().await.unwrap() == 0 {
        let deployment = registry.catalog.deployment(&tenant(), id).await.unwrap();
        assert!(!ended(&deployment), "{deployment:?}");
        assert!(started.elapsed() < WAIT_MAX, "the build is not put back");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    other.stop();
    has_not_begun(&registry, id).await;
    let with = start("new", &shipped);
    assert_eq!(registry.wait_for(id, ended).await.state, DeploymentState::Built);
    with.stop();
}
