//! Certificates of nodes: what the signer issues to whom, whatever a server writes.

use mfaas_ident::Digest;
use postgres::Client;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use uuid::Uuid;

use crate::world::{World, wait_for};

/// What a server does, with the rights that it has.
struct Server(Client);

impl Server {
    /// A join token for so many nodes, of any name.
    fn join_token(&mut self, uses: i32) -> String {
        let secret = Digest::of(Uuid::new_v4().as_bytes()).to_string();
        let sql = "INSERT INTO join_tokens (secret_sha256, uses_max, expires_at, created_by)
                   VALUES ($1, $2, now() + interval '1 hour', 'admin')";
        self.0.execute(sql, &[&secret, &uses]).unwrap();
        secret
    }

    fn ask(&mut self, node: &str, csr: &str, secret: Option<&str>, shown: Option<&[u8]>) -> Uuid {
        let sql = "INSERT INTO certificate_requests (node, csr, secret_sha256, shown) VALUES ($1, $2, $3, $4) RETURNING id";
        let id = self.0.query_one(sql, &[&node, &csr, &secret, &shown]).unwrap().get(0);
        self.0.batch_execute("NOTIFY mfaas_signer").unwrap();
        id
    }

    /// The certificate, or why there is none.
    fn answer(&mut self, id: Uuid) -> Result<String, String> {
        let sql = "SELECT certificate, refusal FROM certificate_requests WHERE id = $1";
        wait_for("the signer's answer", || {
            let row = self.0.query_one(sql, &[&id]).unwrap();
            let refusal: Option<String> = row.get(1);
            row.get::<_, Option<String>>(0).map(Ok).or(refusal.map(Err))
        })
    }

    fn join(&mut self, node: &str, key: &KeyPair, secret: &str) -> Result<String, String> {
        let id = self.ask(node, &csr(key), Some(secret), None);
        self.answer(id)
    }

    fn renew(&mut self, node: &str, key: &KeyPair, shown: &str) -> Result<String, String> {
        let id = self.ask(node, &csr(key), None, Some(&der(shown)));
        self.answer(id)
    }

    /// The digest of the certificate that opens for the node.
    fn opens(&mut self, node: &str) -> String {
        self.0.query_one("SELECT certificate_sha256 FROM nodes WHERE name = $1", &[&node]).unwrap().get(0)
    }
}

fn csr(key: &KeyPair) -> String {
    CertificateParams::default().serialize_request(key).unwrap().pem().unwrap()
}

fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

/// A world whose signer has the authority.
fn world() -> (World, String) {
    let world = World::new();
    let ca_dir = world.dir.path().join("ca").display().to_string();
    let made = world.run(&["init-authority", "--ca-dir", &ca_dir]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (world, ca_dir)
}

fn refused(answer: Result<String, String>) -> String {
    answer.expect_err("no certificate is issued")
}

#[test]
fn a_node_joins_by_the_row_of_its_token_and_renews_by_the_certificate_that_it_has() {
    let (mut world, ca_dir) = world();
    let _signer = world.signer_with(&[("MFAAS_CA_DIR", &ca_dir)]);
    let mut server = Server(world.connect("mfaas_server"));
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let secret = server.join_token(1);
    let first = server.join("node-1", &key, &secret).unwrap();
    assert_eq!(server.opens("node-1"), Digest::of(&der(&first)).to_string());
    assert_eq!(refused(server.join("node-2", &other, &secret)), "unknown", "the token is used up");
    assert_eq!(refused(server.join("node-2", &other, &"0".repeat(64))), "unknown", "no such token");
    let taken = server.join_token(1);
    assert_eq!(refused(server.join("node-1", &other, &taken)), "taken");
    let again = server.join("node-1", &key, &secret).unwrap();
    assert_eq!(server.opens("node-1"), Digest::of(&der(&again)).to_string(), "its answer was lost");

    let renewed = server.renew("node-1", &key, &again).unwrap();
    assert_eq!(server.opens("node-1"), Digest::of(&der(&renewed)).to_string());
    assert_eq!(refused(server.renew("node-1", &key, &renewed)), "again", "a moment ago");
    world.sql.batch_execute("UPDATE nodes SET renewed_at = NULL").unwrap();
    assert_eq!(refused(server.renew("node-1", &other, &renewed)), "unusable", "another key");
    assert_eq!(refused(server.renew("node-2", &key, &renewed)), "unusable", "another name");
    assert_eq!(refused(server.renew("node-1", &key, &first)), "again", "one that opens nothing any more");
    let told = "SELECT string_agg(actor || ' ' || action || ' ' || subject, ', ' ORDER BY seq) FROM audit_log
                WHERE action LIKE 'node.%'";
    let told: String = world.sql.query_one(told, &[]).unwrap().get(0);
    let (joined, renewed) = ("mfaas-signer node.joined node-1", "mfaas-signer node.renewed node-1");
    assert_eq!(told, format!("{joined}, {joined}, {renewed}"));
}

/// A server that is broken into writes what it likes: it gets no certificate for nothing, none of its own making opens, and of
/// what it can ask for by a token that it makes there is a bound.
#[test]
fn a_taken_over_server_gets_certificates_by_tokens_alone_and_only_so_many() {
    let (mut world, ca_dir) = world();
    let _signer = world.signer_with(&[("MFAAS_CA_DIR", &ca_dir), ("MFAAS_JOINS_PER_HOUR", "2")]);
    let mut server = Server(world.connect("mfaas_server"));
    let key = KeyPair::generate().unwrap();
    // Of an authority of its own, for a node whose row it has written to fit.
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "node-1");
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let forged = params.self_signed(&key).unwrap().pem();
    let sql = "INSERT INTO nodes (name, certificate_sha256) VALUES ('node-1', $1)";
    server.0.execute(sql, &[&Digest::of(&der(&forged)).to_string()]).unwrap();
    assert_eq!(refused(server.renew("node-1", &key, &forged)), "unusable");
    for answer in ["certificate = 'mine'", "refusal = 'taken'"] {
        let sql = format!("UPDATE certificate_requests SET {answer}");
        let denied = server.0.batch_execute(&sql).unwrap_err();
        assert!(denied.to_string().contains("db error"), "{denied}");
    }
    for (csr, node) in [("nothing", "node-2"), (csr(&key).as_str(), "not a name")] {
        let id = server.ask(node, csr, Some(&server_secret()), None);
        assert_eq!(refused(server.answer(id)), "unusable", "{node}");
    }
    let secret = server.join_token(1_000);
    for node in ["node-2", "node-3"] {
        server.join(node, &KeyPair::generate().unwrap(), &secret).unwrap();
    }
    assert_eq!(refused(server.join("node-4", &key, &secret)), "too_many");
    assert_eq!(world.count("SELECT count(*) FROM nodes WHERE name = 'node-4'"), 0);
    assert_eq!(world.count("SELECT uses::bigint FROM join_tokens"), 2, "a refusal uses nothing");
}

fn server_secret() -> String {
    "0".repeat(64)
}

/// What a server asked for that has given up since uses no token, and a signer without the authority answers nothing.
#[test]
fn a_request_that_nobody_waits_for_is_not_met() {
    let (mut world, ca_dir) = world();
    let mut server = Server(world.connect("mfaas_server"));
    let key = KeyPair::generate().unwrap();
    let secret = server.join_token(1);
    let old = server.ask("node-1", &csr(&key), Some(&secret), None);
    let without = world.signer();
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let waits = "SELECT count(*) FROM certificate_requests WHERE certificate IS NULL AND refusal IS NULL";
    assert_eq!(world.count(waits), 1, "it has no authority");
    without.stop();
    world
        .sql
        .batch_execute("UPDATE certificate_requests SET asked_at = now() - interval '2 minutes'")
        .unwrap();
    let _signer = world.signer_with(&[("MFAAS_CA_DIR", &ca_dir)]);
    let id = server.ask("node-2", &csr(&key), Some(&secret), None);
    server.answer(id).unwrap();
    let row =
        server.0.query_one("SELECT certificate FROM certificate_requests WHERE id = $1", &[&old]).unwrap();
    assert_eq!(row.get::<_, Option<String>>(0), None);
}

#[test]
fn the_authority_is_made_once_taken_over_from_a_server_and_names_servers() {
    let (world, ca_dir) = world();
    let path = |name: &str| world.dir.path().join(name).display().to_string();
    let (tls, taken) = (path("tls"), path("taken"));
    let run = |arguments: &[&str]| {
        let output = world.run(arguments);
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let certify = ["certify-server", "--ca-dir", &ca_dir, "--tls-dir", &tls, "--name", "mfaas.example"];
    let (done, said) = run(&certify);
    assert!(done && said.contains("is in"), "{said}");
    assert!(!std::path::Path::new(&path("tls/ca.key")).exists(), "a server gets no key of the authority");
    let (done, said) = run(&certify);
    assert!(done && said.contains("nothing was changed"), "{said}");
    let (done, said) = run(&["certify-server", "--ca-dir", &ca_dir, "--tls-dir", &tls, "--name", "a_b"]);
    assert!(!done && said.contains("--name a_b"), "{said}");
    // As a server of release 0.2 has it.
    std::fs::copy(path("ca/ca.key"), path("tls/ca.key")).unwrap();
    let (done, said) = run(&["init-authority", "--ca-dir", &taken, "--from", &tls]);
    assert!(done && said.contains("remove") && said.contains("tls/ca.key"), "{said}");
    let bytes = |name: &str| std::fs::read(path(name)).unwrap();
    assert_eq!((bytes("taken/ca.key"), bytes("taken/ca.pem")), (bytes("ca/ca.key"), bytes("ca/ca.pem")));
    let told = world.refuses_to_serve("MFAAS_CA_DIR", &path("nowhere"));
    assert!(told.contains("MFAAS_CA_DIR") && told.contains("init-authority"), "{told}");
}
