//! Uploads: stored unopened, counted, recorded once.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use mfaas_ident::{Digest, Scope};
use mfaas_server::limits;

use crate::support::Server;

const MIB: usize = 1 << 20;

/// Every file below `dir`.
fn files(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() { found.extend(files(&entry.path())) } else { found.push(entry.path()) }
    }
    found
}

/// What lies in the store beside what marks it as one.
fn blobs_of(server: &Server) -> Vec<std::path::PathBuf> {
    let mut found = files(&server.dir().join("blobs"));
    found.retain(|path| !path.ends_with("mfaas-blob-store"));
    found
}

#[tokio::test]
async fn an_upload_is_stored_by_its_digest_and_recorded_once() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    // Not an archive at all: whoever unpacks will say so; the server does not look.
    let bytes = b"not even gzip".to_vec();
    let first = server.upload("hello", &token, bytes.clone()).await;
    assert_eq!(first.status, 202, "{first:?}");
    let deployment = &first.json()["deployment"];
    assert_eq!(deployment["state"], "received");
    assert_eq!(deployment["source_digest"], Digest::of(&bytes).to_string());
    assert_eq!(deployment["source_bytes"], 13);
    let id = deployment["id"].as_str().unwrap();
    assert_eq!(first.json()["events_url"], format!("/v1/deployments/{id}/events"));
    let shown = server.get(&format!("/v1/deployments/{id}"), &token).await;
    assert_eq!(&shown.json(), deployment);
    let blobs = blobs_of(&server);
    assert_eq!(blobs.len(), 1, "{blobs:?}");
    assert_eq!(std::fs::read(&blobs[0]).unwrap(), bytes);
}

#[tokio::test]
async fn a_repeat_with_the_same_key_is_the_same_deployment() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let send = async |key: &str, bytes: &'static str, function: &str| {
        let path = format!("/v1/functions/{function}/deployments");
        server.send(server.request("POST", &path, &token).header("idempotency-key", key).body(bytes)).await
    };
    let first = send("k1", "source", "hello").await.json();
    assert_eq!(send("k1", "source", "hello").await.json(), first);
    assert_ne!(send("k2", "source", "hello").await.json()["deployment"]["id"], first["deployment"]["id"]);
    let other_bytes = send("k1", "other source", "hello").await;
    assert_eq!((other_bytes.status, other_bytes.code().as_str()), (422, "MF0905"));
    assert_eq!(send("k1", "source", "goodbye").await.code(), "MF0905");
    let blobs = blobs_of(&server);
    assert_eq!(blobs.len(), 1, "a conflict leaves none: {blobs:?}");
    assert_eq!(send(&"k".repeat(201), "source", "hello").await.code(), "MF0904");
    let list = server.get("/v1/functions/hello/deployments?limit=1", &token).await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let next = list["next"].as_str().unwrap().to_owned();
    let rest = server.get(&format!("/v1/functions/hello/deployments?after={next}"), &token).await.json();
    assert_eq!(rest["items"][0]["id"], first["deployment"]["id"]);
    assert!(rest.get("next").is_none());
}

#[tokio::test]
async fn eleven_mebibytes_are_refused_and_leave_nothing() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Deploy]).await;
    let known_length = server.upload("hello", &token, vec![0; 11 * MIB]).await;
    assert_eq!((known_length.status, known_length.code().as_str()), (413, "MF0101"));
    // Without a length the budget is found out while reading.
    let pieces = (0..11).map(|_| Ok::<_, std::io::Error>(vec![0_u8; MIB]));
    let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
    let request = server.request("POST", "/v1/functions/hello/deployments", &token).body(body);
    let streamed = server.send(request).await;
    assert_eq!((streamed.status, streamed.code().as_str()), (413, "MF0101"));
    assert_eq!(blobs_of(&server), Vec::<std::path::PathBuf>::new());
    assert_eq!(
        server.upload("hello", &token, vec![0; 10 * MIB]).await.status,
        202,
        "the limit itself passes"
    );
    assert_eq!(server.upload("hello", &token, Vec::new()).await.code(), "MF0904");
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_not_recorded() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Deploy]).await;
    let address = server.url("").trim_start_matches("http://").to_owned();
    tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST /v1/functions/hello/deployments HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-length: 1000\r\n\r\nhalf"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        // Either a refusal or a closed connection; never a 202.
        let _ = stream.read_to_string(&mut answer);
        assert!(!answer.starts_with("HTTP/1.1 202"), "{answer}");
    })
    .await
    .unwrap();
    assert_eq!(server.db.sql("SELECT count(*) FROM deployments"), "0");
}

/// What lies there for days and belongs to no row goes by itself; what somebody has just stored stays.
#[tokio::test]
async fn the_server_collects_blobs_that_nobody_needs() {
    let mut lost = std::path::PathBuf::new();
    let server = Server::start_as(&[], |config| {
        let blobs = std::path::Path::new(config.blobs_url.strip_prefix("file://").unwrap());
        let put = |bytes: &[u8]| {
            let name = Digest::of(bytes).to_string();
            let path = blobs.join("sha256").join(&name[..2]).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path
        };
        put(b"young");
        lost = put(b"lost");
        let file = std::fs::File::options().write(true).open(&lost).unwrap();
        file.set_modified(std::time::SystemTime::now() - 2 * config.blob_grace).unwrap();
    })
    .await;
    let began = Instant::now();
    while lost.exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "the server collects nothing");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(blobs_of(&server).len(), 1, "the young one");
    let recorded = "SELECT count(*) FROM audit_log WHERE action = 'blobs.collected'";
    assert_eq!(server.db.sql(recorded), "1");
}

#[tokio::test]
async fn another_tenants_deployment_is_not_found() {
    let server = Server::start().await;
    let (mine, theirs) =
        (server.token("a", &[Scope::Read, Scope::Deploy]).await, server.token("b", &[Scope::Read]).await);
    let created = server.upload("hello", &mine, vec![1]).await.json();
    let id = created["deployment"]["id"].as_str().unwrap();
    for path in [format!("/v1/deployments/{id}"), format!("/v1/deployments/{id}/events")] {
        assert_eq!(server.get(&path, &theirs).await.code(), "MF0903", "{path}");
    }
    assert_eq!(
        server.get("/v1/functions/hello/deployments", &theirs).await.json()["items"],
        serde_json::json!([])
    );
}

/// Uploads that begin and do not go on, and the first answer that comes while they wait.
async fn slow_uploads(server: &Server, token: &str, number: usize) -> (Vec<std::net::TcpStream>, String) {
    let address = server.url("").trim_start_matches("http://").to_owned();
    let head = format!(
        "POST /v1/functions/hello/deployments HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-length: 1000\r\n\r\nhalf"
    );
    let slow: Vec<_> = (0..number)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(&address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    // Nobody sends on, so whoever is answered was one too many.
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let answered = slow.iter().find_map(|mut stream| {
            let mut bytes = [0; 4_096];
            stream.read(&mut bytes).ok().map(|length| String::from_utf8_lossy(&bytes[..length]).into_owned())
        });
        if let Some(answer) = answered {
            return (slow, answer);
        }
        assert!(Instant::now() < until, "nobody was answered");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Uploads until there is a place.
async fn upload_at_last(server: &Server, token: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    while server.upload("hello", token, vec![1]).await.status != 202 {
        assert!(Instant::now() < until, "places are not given back");
    }
}

#[tokio::test]
async fn one_upload_too_many_at_once_is_told_to_come_back() {
    let most = limits::UPLOADS_MAX.to_string();
    let server = Server::start_with(&[("MFAAS_TENANT_UPLOADS", &most)]).await;
    let (token, other) =
        (server.token("a", &[Scope::Deploy]).await, server.token("b", &[Scope::Deploy]).await);
    let (slow, _) = slow_uploads(&server, &token, limits::UPLOADS_MAX + 1).await;
    let answer = server.upload("hello", &other, vec![1]).await;
    assert_eq!((answer.status, answer.code().as_str(), answer.header("retry-after")), (429, "MF0912", "1"));
    drop(slow);
    upload_at_last(&server, &other).await;
}

/// A tenant whose senders are slow keeps its own others waiting, and nobody else's.
#[tokio::test]
async fn slow_senders_keep_places_of_their_own_tenant_only() {
    let server = Server::start().await;
    let (token, other) =
        (server.token("a", &[Scope::Deploy]).await, server.token("b", &[Scope::Deploy]).await);
    let (slow, answer) = slow_uploads(&server, &token, limits::TENANT_UPLOADS_DEFAULT + 1).await;
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("MF0917"), "{answer}");
    assert!(answer.contains("retry-after: 10\r\n"), "{answer}");
    assert_eq!(server.upload("hello", &other, vec![1]).await.status, 202);
    drop(slow);
    upload_at_last(&server, &token).await;
}

/// A tenant that is full takes new versions, and another tenant new functions.
#[tokio::test]
async fn a_tenant_has_only_so_many_functions() {
    let server = Server::start_with(&[("MFAAS_TENANT_FUNCTIONS", "2")]).await;
    let (token, other) =
        (server.token("a", &[Scope::Deploy]).await, server.token("b", &[Scope::Deploy]).await);
    let send = async |name: &str, token: &str| {
        let request = server.request("POST", &format!("/v1/functions/{name}/deployments"), token);
        let key = uuid::Uuid::new_v4().to_string();
        server.send(request.header("idempotency-key", &key).body(key.clone())).await
    };
    for name in ["one", "two", "one"] {
        assert_eq!(send(name, &token).await.status, 202, "{name}");
    }
    let refused = send("three", &token).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "MF0918"));
    assert_eq!(server.db.sql("SELECT count(*) FROM deployments"), "3");
    assert_eq!(blobs_of(&server).len(), 3);
    assert_eq!(send("three", &other).await.status, 202);
    server.db.sql("UPDATE builds SET finished_at = now()");
    server.db.sql("INSERT INTO functions (tenant, name) VALUES ('a', 'one'), ('a', 'two')");
    assert_eq!((send("three", &token).await.status, send("two", &token).await.status), (403, 202));
    server.db.sql("UPDATE functions SET deleted_at = now() WHERE name = 'one'");
    assert_eq!((send("three", &token).await.status, send("one", &token).await.status), (202, 403));
}

/// Beyond a tenant's share of the queue an upload leaves neither row nor blob, and when there is room it is taken.
#[tokio::test]
async fn a_tenants_share_of_the_queue_is_bounded() {
    let bounds = [("MFAAS_TENANT_QUEUED", "3"), ("MFAAS_TENANT_QUEUED_BYTES", "20")];
    let server = Server::start_with(&bounds).await;
    let (token, other) =
        (server.token("a", &[Scope::Deploy]).await, server.token("b", &[Scope::Deploy]).await);
    let send = async |key: &str, bytes: &'static str| {
        let request = server.request("POST", "/v1/functions/hello/deployments", &token);
        server.send(request.header("idempotency-key", key).body(bytes)).await
    };
    let kept = |rows: usize, blobs: usize| {
        assert_eq!(server.db.sql("SELECT count(*) FROM deployments"), rows.to_string());
        assert_eq!(blobs_of(&server).len(), blobs);
    };
    assert_eq!(send("one", "12345678").await.status, 202);
    assert_eq!(send("two", "abcdefgh").await.status, 202);
    let large = send("three", "more than four").await;
    assert_eq!((large.status, large.code().as_str(), large.header("retry-after")), (429, "MF0917", "10"));
    kept(2, 2);
    assert_eq!(send("three", "four").await.status, 202);
    assert_eq!(send("four", "").await.code(), "MF0904");
    assert_eq!(send("four", "5").await.code(), "MF0917");
    assert_eq!(send("one", "12345678").await.status, 202, "it is there already");
    assert_eq!(send("one", "9").await.code(), "MF0905");
    kept(3, 3);
    assert_eq!(server.upload("hello", &other, b"another tenant's".to_vec()).await.status, 202);
    server.db.sql(
        "UPDATE builds SET finished_at = now() WHERE deployment_id IN
                   (SELECT id FROM deployments WHERE idempotency_key = 'two') RETURNING attempt",
    );
    assert_eq!(send("four", "5").await.status, 202);
    kept(5, 5);
}
