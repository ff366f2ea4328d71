//! The server's certificate on its listeners: whose names it has, who has made it, and what becomes of one that is renewed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;

use crate::support::Server;

/// An authority of the site's own, as cert-manager would have.
struct Site(CertifiedIssuer<'static, KeyPair>);

impl Site {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Puts a pair for `name` into `dir`, the key first as a secret is written.
    fn issue(&self, dir: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(dir.join("tls.key"), key.serialize_pem()).unwrap();
        std::fs::write(dir.join("tls.crt"), certificate.pem()).unwrap();
    }

    /// A client that trusts this authority alone and asks the server under `name`, on a connection of its own.
    fn client(&self, name: &str, port: u16) -> reqwest::Client {
        reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(self.0.pem().as_bytes()).unwrap()])
            .resolve(name, ([127, 0, 0, 1], port).into())
            .build()
            .unwrap()
    }

    /// Whether the server proves to be `name` on that port.
    async fn proves(&self, name: &str, port: u16, path: &str) -> bool {
        self.client(name, port).get(format!("https://{name}:{port}{path}")).send().await.is_ok()
    }
}

/// A server with the certificate of `site` for `name`, whose files lie in the directory that is given too.
async fn server_of(site: &Site, name: &str) -> (Server, PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    site.issue(dir.path(), name);
    let path = |file: &str| dir.path().join(file).display().to_string();
    let variables = [
        ("MFAAS_LISTEN_TLS", "1"),
        ("MFAAS_HOSTS", "one.example,two.example"),
        ("MFAAS_TLS_CERTIFICATE_FILE", &path("tls.crt")),
        ("MFAAS_TLS_KEY_FILE", &path("tls.key")),
    ];
    let server =
        Server::start_as(&variables, |config| config.certificate_look_every = Duration::from_millis(50))
            .await;
    let files = dir.path().to_owned();
    (server, files, dir)
}

#[tokio::test]
async fn rest_and_nodes_show_a_certificate_from_outside_and_a_renewed_one_without_a_restart() {
    let site = Site::new();
    let (server, files, _dir) = server_of(&site, "one.example").await;
    let (http, nodes) = (server.ports().0, server.ports().1);
    for (port, path) in [(http, "/healthz"), (nodes, "/node/v1/report")] {
        assert!(site.proves("one.example", port, path).await);
        assert!(!site.proves("two.example", port, path).await, "it has another name");
    }
    let client = site.client("one.example", http);
    let answer = client.get(format!("https://one.example:{http}/healthz")).send().await.unwrap();
    assert_eq!(answer.json::<Value>().await.unwrap()["status"], "ok");
    let plain = client.get(format!("http://127.0.0.1:{http}/healthz")).send().await;
    assert!(plain.is_err(), "it speaks no plain HTTP there: {plain:?}");

    // A key without its certificate is not shown, and what was shown before is.
    std::fs::write(files.join("tls.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(site.proves("one.example", http, "/healthz").await);

    site.issue(&files, "two.example");
    let begun = Instant::now();
    while !site.proves("two.example", http, "/healthz").await {
        assert!(begun.elapsed() < Duration::from_secs(20), "the renewed certificate is not shown");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(site.proves("two.example", nodes, "/node/v1/report").await);
}

#[tokio::test]
async fn readiness_on_a_listener_of_its_own_is_asked_under_any_name_and_nothing_else_is_there() {
    let server = Server::start_with(&[("MFAAS_HEALTH_LISTEN", "127.0.0.1:0")]).await;
    let address = server.health();
    let ask = async |path: &str| {
        let request =
            reqwest::Client::new().get(format!("http://{address}{path}")).header("host", "10.9.8.7:1");
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    assert_eq!(ask("/healthz").await.0, 200);
    let (status, ready) = ask("/readyz").await;
    assert_eq!((status, ready["status"].is_string()), (200, true), "{ready}");
    for path in ["/metrics", "/v1/whoami", "/sign-in", "/openapi.json", "/"] {
        let (status, problem) = ask(path).await;
        assert_eq!((status, &problem["code"]), (404, &"MF0911".into()), "{path}");
    }
    let elsewhere = server.request("GET", "/readyz", "").header("host", "10.9.8.7:1");
    assert_eq!(server.send(elsewhere).await.code(), "MF0906", "the HTTP listener still knows its names");
}
