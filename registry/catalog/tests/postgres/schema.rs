//! `migrations/schema.sql` shows what the migrations make. `MFAAS_UPDATE=1` writes it anew.

use mfaas_catalog::{Catalog, describe_schema};

use crate::cluster::{Cluster, OWNER};
use crate::fixture::World;

#[tokio::test]
async fn schema_sql_is_what_the_migrations_make() {
    let world = World::new().await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/schema.sql");
    let made = format!(
        "-- The whole schema, as the migrations make it. Written by the catalog's schema test with\n\
         -- MFAAS_UPDATE=1; never applied.\n\n{}",
        describe_schema(&world.owner).await.unwrap()
    );
    if std::env::var_os("MFAAS_UPDATE").is_some() {
        std::fs::write(file, &made).unwrap();
    }
    let shown = std::fs::read_to_string(file).unwrap();
    let difference = similar::TextDiff::from_lines(&shown, &made);
    assert!(shown == made, "schema.sql is stale:\n{}", difference.unified_diff().context_radius(1));
}

#[tokio::test]
async fn migrating_again_changes_nothing_and_an_empty_database_is_not_ready() {
    let world = World::new().await;
    world.server.ready().await.unwrap();
    world.builder.ready().await.unwrap();
    let cluster = Cluster::get();
    let url = cluster.url(&world.database, OWNER);
    mfaas_catalog::migrate(&url, &mfaas_catalog::RolePasswords::default()).await.unwrap();
    let empty = Catalog::connect(&cluster.url(&cluster.create_database(), OWNER), 1).await.unwrap();
    let error = empty.ready().await.unwrap_err();
    assert_eq!(error.to_string(), "the database schema is not current: it was never migrated");
}
