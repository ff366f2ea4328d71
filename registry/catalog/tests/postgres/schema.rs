//! `migrations/schema.sql` shows what the migrations make. `MFAAS_UPDATE=1` writes it anew.

use mfaas_catalog::{Catalog, RolePasswords, describe_schema, migrate};

use crate::fixture::World;
use mfaas_test_postgres::{Cluster, OWNER};

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
    migrate(&url, &RolePasswords::default()).await.unwrap();
    let empty = Catalog::connect(&cluster.url(&cluster.create_database(), OWNER), 1).await.unwrap();
    let error = empty.ready().await.unwrap_err();
    assert_eq!(error.to_string(), "the database schema is not current: it was never migrated");
}

/// As managed databases have it: nobody there is a superuser.
#[tokio::test]
async fn an_owner_who_may_create_roles_needs_to_be_no_superuser() {
    let cluster = Cluster::start();
    assert!(cluster.psql("postgres", "CREATE ROLE site LOGIN CREATEROLE"));
    assert!(cluster.psql("postgres", "CREATE DATABASE managed OWNER site"));
    let password = || Some("secret".to_owned());
    let passwords =
        RolePasswords { server: password(), builder: password(), signer: password(), acquirer: password() };
    migrate(&cluster.url("managed", "site"), &passwords).await.unwrap();
    for role in ["mfaas_server", "mfaas_builder", "mfaas_acquirer"] {
        let catalog = Catalog::connect(&cluster.url("managed", role), 1).await.unwrap();
        catalog.ready().await.unwrap();
    }
    assert!(!cluster.psql("managed", "SET ROLE site; CREATE ROLE other SUPERUSER"), "site is a superuser");
}
