//! How the signer gets to its database: encrypted, and when it comes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use postgres::{Client, NoTls};

use crate::certificates::Certificates;
use crate::world::{MANIFEST, Signer, World, migrate, wait_for};
use crate::{SOURCE, outcome};
use mfaas_test_postgres::{Cluster, OWNER};

/// What a signer says for which it waits, with that address of its database.
fn waits_for(world: &World, url: &str) -> String {
    let mut command = world.command(&["serve"]);
    let mut child = command.env("MFAAS_DATABASE_URL", url).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let _signer = Signer(child);
    let mut lines = lines.map(Result::unwrap);
    lines
        .find(|line| line.contains("waits for its database"))
        .unwrap_or_else(|| panic!("it does not wait with {url}"))
}

#[test]
fn a_connection_is_encrypted_to_a_server_whose_certificate_names_it() {
    let world = World::new();
    let (own, others) = (Certificates::of("localhost"), Certificates::of("localhost"));
    let (_cluster, port) = Cluster::start_with_tls(&own.certificate, &own.key);
    let file = |name: &str, authority: &str| {
        let file = world.dir.path().join(name);
        std::fs::write(&file, authority).unwrap();
        file
    };
    let url = |host: &str, roots: &Path| {
        format!(
            "postgres://{OWNER}@{host}:{port}/postgres?sslrootcert={}&sslmode=verify-full",
            roots.display()
        )
    };
    let (own, others) = (file("own.pem", &own.authority), file("others.pem", &others.authority));
    let said = waits_for(&world, &url("localhost", &own));
    assert!(said.contains("never migrated"), "it did not come in: {said}");
    let said = waits_for(&world, &url("localhost", &others));
    assert!(said.contains("invalid peer certificate"), "{said}");
    let said = waits_for(&world, &url("127.0.0.1", &own));
    assert!(said.contains("invalid peer certificate"), "{said}");

    let refused = |url: &str| world.refuses_to_serve("MFAAS_DATABASE_URL", url);
    let said = refused(&url("localhost", Path::new("/nowhere/ca.pem")));
    assert!(said.contains("/nowhere/ca.pem"), "{said}");
    let said = refused(&format!("postgres://{OWNER}@localhost:{port}/postgres?sslmode=require"));
    assert!(said.contains("verify-full"), "{said}");
}

#[test]
fn of_several_servers_the_one_that_takes_writes_is_used_and_what_is_wrong_with_it_said() {
    let world = World::new();
    let primary = Cluster::start();
    let standby = primary.standby();
    let hosts = format!("{},{}", standby.sockets().display(), primary.sockets().display());
    let url = |user: &str| format!("postgres:///postgres?host={hosts}&user={user}");
    let said = waits_for(&world, &url(OWNER));
    assert!(said.contains("never migrated"), "it did not come to the primary: {said}");
    let said = waits_for(&world, &standby.url("postgres", OWNER));
    assert!(said.contains("standby"), "{said}");
    let said = world.refuses_to_serve("MFAAS_DATABASE_URL", &url("nobody_here"));
    assert!(said.contains("does not exist"), "{said}");
    let gone = format!("postgres:///postgres?host=/nowhere,{}&user={OWNER}", standby.sockets().display());
    let said = waits_for(&world, &gone);
    assert!(said.contains("/nowhere") && !said.contains("standby"), "{said}");
}

#[test]
fn a_signer_that_starts_waits_until_the_owner_has_migrated_the_database() {
    let world = World::new();
    let cluster = Cluster::get();
    let database = cluster.create_database();
    let ready = world.dir.path().join("ready.json");
    let mut command = world.command(&["serve"]);
    command.env("MFAAS_DATABASE_URL", cluster.url(&database, "mfaas_signer")).env("MFAAS_READY_FILE", &ready);
    let mut signer = Signer(command.stderr(Stdio::null()).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(signer.0.try_wait().unwrap().is_none() && !ready.exists(), "it did not wait");
    migrate(&mut Client::connect(&cluster.url(&database, OWNER), NoTls).unwrap());
    wait_for("the ready file", || ready.exists().then_some(()));
    signer.stop();
}

/// A wake-up is a hint: without it a deployment waits for a moment, and not for the next one that is said.
#[test]
fn a_deployment_of_which_the_signer_is_not_told_is_signed() {
    let mut world = World::new();
    let _signer = world.signer();
    world.set_after(0);
    let id = world.built_unsaid(MANIFEST, SOURCE, |_| {});
    assert_eq!(world.ended(id), outcome("admitted", &[]));
}
