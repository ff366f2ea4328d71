//! The promises of the registry, checked on a whole installation.

use std::fs;

use chrono::Utc;
use mfaas_attest::TrustedRoot;
use mfaas_blobs::Blobs;
use mfaas_catalog::{Catalog, invariants};

use crate::Stack;

impl Stack {
    /// Checks I1–I4 and I8 over the database as its owner sees it and the blobs as they lie on the
    /// disk, with the trust of a node: the pinned root and the published list of keys.
    ///
    /// # Panics
    /// With every promise that is broken, and when they cannot be checked.
    pub fn invariants(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("tokio: {error}"));
        let broken =
            runtime.block_on(self.violations()).unwrap_or_else(|error| panic!("invariants: {error:#}"));
        assert!(broken.is_empty(), "broken promises:\n{broken:#?}");
    }

    async fn violations(&self) -> anyhow::Result<Vec<invariants::Violation>> {
        let home = self.home().display();
        let password = self.owner_password();
        let url = format!("postgres:///mfaas?host={home}/run/pg&user=mfaas_owner&password={password}");
        let catalog = Catalog::connect(&url, 1).await?;
        let blobs = Blobs::open(&format!("file://{home}/blobs"))?;
        let mut root = TrustedRoot::of_file(&fs::read_to_string(self.home().join("root.pub"))?)?;
        while let Some(list) = catalog.key_list_after(root.version()).await? {
            root = root.follow(list.as_bytes())?;
        }
        let broken = invariants::check(&catalog, &blobs, &root.trust(Utc::now())).await?;
        catalog.close().await;
        Ok(broken)
    }
}
