//! Two hosts make the same images: homes, toolchain directories and database roles of their own, and the site's dependencies
//! from the blob store. `scripts/two-builders` runs it with more functions than the test suite does.

#![allow(clippy::print_stdout, reason = "scripts/two-builders reports")]

use std::path::{Path, PathBuf};
use std::process::Command;

use mfaas_delivery::DeploymentState;
use mfaas_unpack::SourceTree;

use crate::hosts::{ended, shipped_without, site_on, stored};
use crate::installed::installed;
use crate::serve::{Registry, tenant};
use mfaas_test_postgres::Cluster;

/// How many of the benign functions are built, where `scripts/two-builders` does not say.
const FUNCTIONS: usize = 4;
const FUNCTIONS_VARIABLE: &str = "TWO_BUILDERS_FUNCTIONS";

/// So many of the benign packages, evenly taken from all of them.
fn packages() -> Vec<Vec<u8>> {
    let wanted = std::env::var(FUNCTIONS_VARIABLE).map_or(FUNCTIONS, |number| number.parse().unwrap());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/benign");
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.join("Cargo.toml").is_file()).collect();
    all.sort();
    assert!((1..=all.len()).contains(&wanted), "{wanted} of {}", all.len());
    let chosen = (0..wanted).map(|number| &all[number * all.len() / wanted]);
    chosen.map(|path| SourceTree::from_dir(path).unwrap().pack().unwrap().into_bytes()).collect()
}

/// The toolchain under another path, without its bytes a second time.
fn toolchain_in(home: &Path) -> PathBuf {
    let id = installed().toolchain.file_name().unwrap();
    let copied = Command::new("cp").arg("-al").arg(&installed().toolchain).arg(home).status().unwrap();
    assert!(copied.success());
    home.join(id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_builder_host_makes_the_same_images() {
    let registry = Registry::new().await;
    let packages = packages();
    // Beside the toolchain, so that it can be linked.
    let beside = installed().toolchain.parent().unwrap().parent().unwrap();
    let homes = [tempfile::tempdir_in(beside).unwrap(), tempfile::tempdir_in(beside).unwrap()];
    for (number, home) in homes.iter().enumerate() {
        let shipped = shipped_without(home.path(), "same");
        if number == 0 {
            site_on(&shipped, &registry).await;
            stored(&registry, |_| {}).await;
        }
        let role = format!("same_images_{number}");
        let made = format!("CREATE ROLE {role} LOGIN PASSWORD 'secret' IN ROLE mfaas_builder");
        assert!(Cluster::get().psql(&registry.database, &made));
        let toolchain = toolchain_in(home.path());
        let builder = registry.start_host(&format!("work-{number}"), |command| {
            command
                .env("MFAAS_DATABASE_URL", Cluster::get().url(&registry.database, &role))
                .env("MFAAS_TOOLCHAIN_DIR", toolchain)
                .env("MFAAS_DEPS_DIR", shipped)
                .env("MFAAS_SITE_DEPS_DIR", home.path().join("site-deps"));
        });
        let mut deployments = Vec::new();
        for package in &packages {
            deployments.push(registry.deploy_archive(package.clone()).await);
        }
        for id in deployments {
            let built = registry.wait_for(id, ended).await;
            assert_eq!(built.state, DeploymentState::Built, "{}: {built:?}", tenant());
        }
        let roles: Vec<String> =
            registry.catalog.builders().await.unwrap().into_iter().map(|builder| builder.role).collect();
        assert_eq!(roles, [role]);
        builder.stop();
    }
    let of = packages.len();
    let same = format!(
        "SELECT 1 / (count(*) = {of})::int FROM (
             SELECT 1 FROM deployments d JOIN builds b ON b.deployment_id = d.id
             GROUP BY d.source_digest
             HAVING count(b.claim) = 2 AND count(DISTINCT b.claim ->> 'artifact') = 1) same"
    );
    assert!(Cluster::get().psql(&registry.database, &same), "the hosts made different images");
    println!("two builder hosts made the same images of {of} of {of} functions");
}
