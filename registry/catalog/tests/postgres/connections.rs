//! How programs get to the database: encrypted, to the server that takes writes, and when it comes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mfaas_catalog::{Catalog, CatalogError, RolePasswords, migrate};

use crate::certificates::Certificates;
use mfaas_test_postgres::{Cluster, OWNER};

const WAIT_MAX: Duration = Duration::from_secs(30);

/// A file with the authority in it.
fn file(directory: &Path, name: &str, authority: &str) -> PathBuf {
    let file = directory.join(name);
    std::fs::write(&file, authority).unwrap();
    file
}

/// What an error says, with its causes.
fn said(error: &CatalogError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn a_connection_is_encrypted_to_a_server_whose_certificate_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let (own, others) = (Certificates::of("localhost"), Certificates::of("localhost"));
    let (cluster, port) = Cluster::start_with_tls(&own.certificate, &own.key);
    let own = file(directory.path(), "own.pem", &own.authority);
    let others = file(directory.path(), "others.pem", &others.authority);
    let url = |host: &str, roots: &Path| {
        format!(
            "postgres://{OWNER}@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={}",
            roots.display()
        )
    };

    let catalog = Catalog::connect(&url("localhost", &own), 1).await.unwrap();
    let encrypted = "SELECT 1 / count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'mfaas' AND ssl";
    // The pool opens its connection with the first question.
    let _ = catalog.ready().await;
    assert!(cluster.psql("postgres", encrypted), "the connection is not encrypted");
    catalog.close().await;

    let error = Catalog::connect(&url("localhost", &others), 1).await.unwrap_err();
    assert!(said(&error).contains("invalid peer certificate: BadSignature"), "{}", said(&error));
    let error = Catalog::connect(&url("127.0.0.1", &own), 1).await.unwrap_err();
    assert!(said(&error).contains("not valid for name"), "{}", said(&error));
    let missing = Path::new("/nowhere/ca.pem");
    let error = Catalog::connect(&url("localhost", missing), 1).await.unwrap_err();
    assert!(error.is_transient(), "the file may come: {}", said(&error));
}

#[tokio::test]
async fn one_to_a_server_without_tls_is_refused_unless_the_address_says_so() {
    let cluster = Cluster::get();
    let url = |mode: &str| format!("{}&sslmode={mode}", cluster.url("postgres", OWNER));
    Catalog::connect(&url("disable"), 1).await.unwrap();
    let error = Catalog::connect(&url("verify-full"), 1).await.unwrap_err();
    assert!(said(&error).contains("does not support TLS"), "{}", said(&error));
    let error = Catalog::connect(&url("require"), 1).await.unwrap_err();
    assert!(matches!(error, CatalogError::Address(_)), "{error}");
}

#[tokio::test]
async fn a_program_that_starts_waits_until_the_owner_has_migrated_the_database() {
    let cluster = Cluster::get();
    let url = cluster.url(&cluster.create_database(), OWNER);
    let started = tokio::spawn({
        let url = url.clone();
        async move { Catalog::connect_when_ready(&url, 1).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!started.is_finished(), "it did not wait");
    crate::fixture::migrate_alone(&url, &RolePasswords::default()).await;
    started.await.unwrap().unwrap().ready().await.unwrap();
}

/// It takes the connection, and nothing more.
#[tokio::test]
async fn a_server_that_never_answers_is_passed_over() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let alone = format!("postgres://{OWNER}@127.0.0.1:{port}/postgres");
    let error = Catalog::connect(&alone, 1).await.unwrap_err();
    assert!(error.is_transient() && said(&error).contains("does not answer"), "{}", said(&error));
    let sockets = Cluster::get().sockets().display();
    let both = format!("postgres:///postgres?host=127.0.0.1,{sockets}&port={port},5432&user={OWNER}");
    Catalog::connect(&both, 1).await.unwrap();
}

#[tokio::test]
async fn one_that_may_not_come_in_does_not_wait() {
    let cluster = Cluster::get();
    let error = Catalog::connect_when_ready(&cluster.url("postgres", "nobody_here"), 1).await.unwrap_err();
    assert!(said(&error).contains("does not exist"), "{}", said(&error));
}

#[tokio::test]
async fn of_several_servers_the_one_that_takes_writes_is_used_also_after_another_one_does() {
    let primary = Cluster::start();
    migrate(&primary.url("postgres", OWNER), &RolePasswords::default()).await.unwrap();
    let standby = primary.standby();
    let error = Catalog::connect(&standby.url("postgres", OWNER), 1).await.unwrap_err();
    assert!(error.to_string().contains("standby"), "{error}");

    let hosts = format!("{},{}", standby.sockets().display(), primary.sockets().display());
    let url = format!("postgres:///postgres?host={hosts}&user={OWNER}");
    migrate(&url, &RolePasswords::default()).await.unwrap();
    let catalog = Catalog::connect(&url, 2).await.unwrap();
    catalog.ready().await.unwrap();
    drop(primary);
    assert!(standby.psql("postgres", "SELECT pg_promote()"), "it is not promoted");
    let begun = Instant::now();
    while let Err(error) = catalog.ready().await {
        assert!(error.is_transient(), "{error}");
        assert!(begun.elapsed() < WAIT_MAX, "the other server is not found: {}", said(&error));
    }
}
