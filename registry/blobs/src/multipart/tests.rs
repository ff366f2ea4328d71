//! A bucket of a real S3-compatible server, `versitygw`, which `scripts/prepare --tests` installs.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt as _, stream};

use crate::{BlobError, Blobs, Kind};

const START_MAX: Duration = Duration::from_secs(30);
/// Set for the program that has the variables of the server: those of a process are read once and never changed.
const INNER: &str = "MFAAS_TEST_S3";
const BUCKET: &str = "site";

/// A server with one bucket; killed when dropped.
struct Server {
    program: Child,
    _files: tempfile::TempDir,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

impl Server {
    fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let [objects, metadata] = ["objects", "metadata"].map(|name| files.path().join(name));
        std::fs::create_dir_all(objects.join(BUCKET)).unwrap();
        std::fs::create_dir(&metadata).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let program = Command::new(server())
            .args(["--port", &format!("127.0.0.1:{port}"), "posix", "--sidecar"])
            .args([metadata, objects])
            .env("ROOT_ACCESS_KEY", "test")
            .env("ROOT_SECRET_KEY", "hidden-secret")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { program, _files: files, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < START_MAX, "the S3 server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Runs one test of this file as a program that is let in with `secret`.
    fn run(&self, test: &str, secret: &str) {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(INNER, "1")
            .env("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
        assert!(said.contains("1 passed"), "{test} is no test: {said}");
    }
}

/// Where `scripts/prepare --tests` puts it, or where the search path has it.
fn server() -> PathBuf {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let installed = Path::new(&home).join(".cache/mfaas-tests/bin/versitygw");
    if installed.exists() { installed } else { PathBuf::from("versitygw") }
}

/// The store, in a program that has the variables of a server.
fn blobs() -> Option<Blobs> {
    std::env::var_os(INNER)?;
    mfaas_startup::install_tls_provider().unwrap();
    Some(Blobs::open(&format!("s3://{BUCKET}/some/prefix")).unwrap())
}

fn pieces(count: usize) -> impl stream::Stream<Item = Result<Bytes, std::io::Error>> {
    stream::iter((0..count).map(|number| Ok(Bytes::from(vec![number as u8; 1 << 20]))))
}

#[test]
fn a_bucket_is_a_store_and_uploads_that_nobody_finished_go() {
    let server = Server::start();
    server.run("multipart::tests::in_a_bucket", "hidden-secret");
    server.run("multipart::tests::with_a_wrong_secret", "another-secret");
}

#[tokio::test]
async fn in_a_bucket() {
    let Some(blobs) = blobs() else { return };
    assert!(matches!(blobs.ready().await.unwrap_err(), BlobError::Unmarked { .. }));
    blobs.mark().await.unwrap();
    blobs.writable().await.unwrap();
    let small = blobs.put(Bytes::from_static(b"small")).await.unwrap();
    assert_eq!(blobs.get(&small, 10).await.unwrap(), "small");
    // More than what is held back: in parts.
    let incoming = blobs.receive(pieces(20), 1 << 30).await.unwrap();
    blobs.publish(&incoming).await.unwrap();
    assert_eq!(blobs.get(&incoming.digest(), 1 << 30).await.unwrap().len(), 20 << 20);

    // A writer that is gone after some parts.
    let endless = pieces(20).chain(stream::pending());
    let gone = tokio::time::timeout(Duration::from_secs(2), blobs.receive(endless, 1 << 30)).await;
    assert!(gone.is_err(), "an endless stream has ended");
    let Kind::Bucket(uploads) = &blobs.kind else { panic!("no bucket") };
    let (incoming, first) = (blobs.prefix.clone().join("incoming"), Default::default());
    assert_eq!(uploads.list(&incoming, &first).await.unwrap().uploads.len(), 1);
    assert_eq!(blobs.sweep().await.unwrap(), 0, "it may be in use");
    assert_eq!(blobs.sweep_bucket(uploads, Duration::ZERO).await.unwrap(), 1);
    assert!(uploads.list(&incoming, &first).await.unwrap().uploads.is_empty());
    assert_eq!(blobs.get(&small, 10).await.unwrap(), "small", "what is stored stays");
}

#[tokio::test]
async fn with_a_wrong_secret() {
    let Some(blobs) = blobs() else { return };
    let error = blobs.ready().await.unwrap_err();
    assert!(error.is_transient() && !matches!(error, BlobError::Unmarked { .. }), "{error}");
    let error = blobs.sweep().await.unwrap_err().to_string();
    assert!(!error.contains("Signature="), "{error}");
}

#[test]
fn another_document_is_no_list_without_uploads() {
    let read = |text: &str| quick_xml::de::from_str::<super::Listing>(text);
    assert!(read("<Error><Code>NotImplemented</Code></Error>").is_err());
    let empty = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>";
    assert!(read(empty).unwrap().uploads.is_empty());
}
