//! Requests to servers: over a server of this process, and a database.

use std::sync::Mutex;
use std::time::Duration;

use mfaas_abi::frame::encode_request;
use mfaas_abi::limits::HTTP_PIECE_BYTES_MAX;
use mfaas_abi::{HttpReply, HttpRequest};
use mfaas_outbound::Outbound;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::*;

const KEY: &str = "key-of-the-site-0123";

/// A broker with a database of its own, and the server that the resource of these tests is.
struct World {
    broker: Arc<Broker>,
    database: String,
    requests: Arc<Mutex<Vec<String>>>,
    /// As many requests of `/held` are answered as it has permits.
    answers: Arc<Semaphore>,
    _directory: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| mfaas_startup::install_tls_provider().unwrap());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let answers = Arc::new(Semaphore::new(0));
        let address = serve_http(Arc::clone(&requests), Arc::clone(&answers)).await;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("http.toml");
        std::fs::write(directory.path().join("key"), KEY).unwrap();
        let text = format!(
            "[http.orders]\norigin = \"http://{address}\"\ncleartext = true\nnetworks = [\"127.0.0.1/32\"]\n\
             [http.private]\norigin = \"http://localhost:{}\"\ncleartext = true\n\
             [secret.key]\nfile = \"key\"\nhttp = [\"orders\"]\n",
            address.port()
        );
        std::fs::write(&file, text).unwrap();
        let database = Cluster::get().create_database();
        let store = Store::open(&Cluster::get().url(&database, OWNER), 8, 4).await.unwrap();
        let outbound = Some(Outbound::open(&file).unwrap());
        let stores = Stores { outbound, ..Stores::of(store) };
        let bounds = Bounds { audited_reads: 1, ..BOUNDS };
        let broker = Arc::new(Broker::here(stores, 8, &bounds));
        Self { broker, database, requests, answers, _directory: directory }
    }

    async fn holds(&self, condition: &str) -> bool {
        self.broker.audit.write(self.broker.store()).await;
        self.broker.reads.write(self.broker.store()).await;
        let check = format!("SET search_path = mfaas_data; DO $$ BEGIN ASSERT {condition}; END $$");
        Cluster::get().psql(&self.database, &check)
    }

    fn had(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    /// Until the server has had so many requests.
    async fn until_had(&self, requests: usize) {
        let had = async {
            while self.requests.lock().unwrap().len() < requests {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), had).await.expect("requests do not come");
    }
}

/// Answers each request with its body, or as its path says; and keeps their first lines.
async fn serve_http(requests: Arc<Mutex<Vec<String>>>, answers: Arc<Semaphore>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (requests, answers) = (Arc::clone(&requests), Arc::clone(&answers));
            tokio::spawn(async move {
                let (mut bytes, mut head) = (Vec::new(), None);
                let (text, length) = loop {
                    if stream.read_buf(&mut bytes).await.unwrap() == 0 {
                        return;
                    }
                    if head.is_none() {
                        head = bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
                    }
                    let Some(head) = head else { continue };
                    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
                    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
                    let length: usize = length.map_or(0, |length| length.parse().unwrap());
                    if bytes.len() >= head + length {
                        break (text, length);
                    }
                };
                let line = text.lines().next().unwrap().to_owned();
                requests.lock().unwrap().push(line.clone());
                if line.contains("/held") {
                    answers.acquire().await.unwrap().forget();
                }
                let body = match () {
                    () if line.contains("/cut") => return,
                    () if line.contains("/echo") => text.into_bytes(),
                    () => bytes[bytes.len() - length..].to_vec(),
                };
                let head =
                    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
            });
        }
    });
    address
}

/// A request as a function writes it.
fn send(method: &str, path: &str, secrets: usize, upload: Option<u32>, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request(&mut frame, method, path, [], body).unwrap();
    let secrets = vec![1; secrets];
    HttpRequest::Send { exchange: 1, upload, secrets, frame: &frame }.encode(0)
}

impl TestNode {
    async fn begin_request(
        &mut self,
        call: u64,
        id: u32,
        resource: &str,
        access: DataAccess,
        operation: &[u8],
    ) {
        let (resource, request) = (resource.parse().unwrap(), operation[4..].to_vec());
        let secrets = match HttpRequest::decode(&request) {
            Some(HttpRequest::Send { secrets, .. }) => vec!["key".parse().unwrap(); secrets.len()],
            _ => vec![],
        };
        let kind = ResourceKind::Http;
        self.tell(ToBroker::Operate { call, id, resource, kind, access, secrets, request }).await;
    }

    async fn request(&mut self, call: u64, access: DataAccess, operation: &[u8]) -> Result<Vec<u8>, u32> {
        self.begin_request(call, 7, "orders", access, operation).await;
        self.outcome(call).await.0
    }
}

/// Bytes of the whole body, and its first piece.
fn answered(reply: &[u8]) -> (u32, Vec<u8>) {
    let send = HttpRequest::Send { exchange: 1, upload: None, secrets: vec![], frame: b"" };
    match HttpReply::decode(reply, &send) {
        Some(HttpReply::Answer { bytes, frame }) => (bytes, frame.body.to_vec()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_request_is_sent_once_and_answered_in_pieces() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, caller) = node.begin("acme").await;
    let body: Vec<u8> = (0..3 * HTTP_PIECE_BYTES_MAX + 5).map(|at| (at % 251) as u8).collect();
    let (before, last) = body.split_at(3 * HTTP_PIECE_BYTES_MAX);
    for bytes in before.chunks(HTTP_PIECE_BYTES_MAX) {
        let append = HttpRequest::Append { upload: 3, bytes }.encode(0);
        assert_eq!(node.request(call, WRITE, &append).await, Ok(vec![]));
    }
    assert_eq!(world.broker.uploading.of(&caller.tenant), before.len());
    let reply = node.request(call, WRITE, &send("POST", "/a?b", 0, Some(3), last)).await.unwrap();
    assert_eq!(world.broker.uploading.of(&caller.tenant), 0);
    let (bytes, mut got) = answered(&reply);
    assert_eq!(bytes as usize, body.len());
    assert!(world.broker.held.of(&caller.tenant) >= body.len());
    while got.len() < body.len() {
        let rest = HttpRequest::Rest { exchange: 1, offset: got.len() as u32 }.encode(0);
        got.extend(node.request(call, WRITE, &rest).await.unwrap());
    }
    assert!(got == body);
    assert_eq!(world.broker.held.of(&caller.tenant), 0, "nothing is held of what was read");
    let rest = HttpRequest::Rest { exchange: 1, offset: 0 }.encode(0);
    assert_eq!(node.request(call, WRITE, &rest).await, Err(1207));
    assert_eq!(world.had(), ["POST /a?b HTTP/1.1"]);
}

#[tokio::test]
async fn every_request_that_may_change_something_is_audited_before() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    node.request(call, WRITE, &send("POST", "/x/../pay?of=1", 1, None, b"12345")).await.unwrap();
    assert_eq!(node.request(call, WRITE, &send("PUT", "/cut", 0, None, b"1")).await, Err(1215));
    node.request(call, READ, &send("GET", "/look", 0, None, b"")).await.unwrap();
    assert_eq!(node.request(call, READ, &send("POST", "/pay", 0, None, b"")).await, Err(1201));
    assert_eq!(node.request(call, WRITE, &send("POST", "/echo", 1, None, b"")).await, Err(1216));
    let of = |target: &str| {
        format!(
            "tenant = 'acme' AND function = 'shop' AND resource = 'orders' AND key_sha256 = sha256('{target}')"
        )
    };
    for (target, columns) in [
        ("POST /pay", "operation = 'request' AND file_bytes = 5 AND outcome = 'done'"),
        ("PUT /cut", "operation = 'request' AND file_bytes = 1 AND outcome = 'failed'"),
        ("POST /echo", "operation = 'request' AND outcome = 'failed'"),
        ("GET /look", "operation = 'get' AND outcome = 'done'"),
    ] {
        let condition = format!("(SELECT count(*) FROM audit WHERE {} AND {columns}) = 1", of(target));
        assert!(world.holds(&condition).await, "{target}");
    }
    assert!(world.holds("(SELECT count(*) FROM audit) = 4").await);
    assert_eq!(world.had().len(), 4);
    // What cannot be audited is not sent.
    assert!(Cluster::get().psql(&world.database, "ALTER TABLE mfaas_data.audit RENAME TO elsewhere"));
    assert_eq!(node.request(call, WRITE, &send("POST", "/pay", 0, None, b"")).await, Err(1205));
    assert_eq!(world.had(), Vec::<String>::new());
    node.request(call, READ, &send("GET", "/look", 0, None, b"")).await.unwrap();
}

#[tokio::test]
async fn what_a_function_may_not_ask_of_servers_is_refused() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    for (resource, operation, code) in [
        ("private", send("GET", "/", 0, None, b""), 1217),
        ("private", send("GET", "/", 1, None, b""), 1201),
        ("none", send("GET", "/", 0, None, b""), 1205),
        ("orders", send("TRACE", "/", 0, None, b""), 1214),
        ("orders", send("POST", "/", 0, Some(9), b""), 1202),
        ("orders", send("GET", "/", 0, None, b"x"), 1214),
        ("orders", vec![0, 0, 0, 0, 99], 1207),
        (
            "orders",
            HttpRequest::Send { exchange: 1, upload: None, secrets: vec![], frame: b"x" }.encode(0),
            1214,
        ),
    ] {
        node.begin_request(call, 7, resource, WRITE, &operation).await;
        assert_eq!(node.outcome(call).await.0, Err(code), "{resource} {operation:?}");
    }
    // As many secrets as the node names, and no more.
    let request = send("GET", "/", 1, None, b"")[4..].to_vec();
    let (resource, kind, secrets) = ("orders".parse().unwrap(), ResourceKind::Http, vec![]);
    node.tell(ToBroker::Operate { call, id: 7, resource, kind, access: READ, secrets, request }).await;
    assert_eq!(node.outcome(call).await.0, Err(1207));
    node.operate(call, 7, ResourceKind::Secret, READ, vec![0; 8]).await;
    assert_eq!(node.outcome(call).await.0, Err(1207));
    assert_eq!(world.had(), Vec::<String>::new());
}

/// Nobody waits for a server who wants something else, nor for another server.
#[tokio::test]
async fn requests_of_a_call_are_on_their_way_together() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    for id in 10..18 {
        node.begin_request(call, id, "orders", READ, &send("GET", "/held", 0, None, b"")).await;
    }
    assert_eq!(node.does(call, WRITE, &put("a", b"1")).await.0, Ok(KvReply::Done.encode()));
    // None of them is answered yet.
    world.until_had(8).await;
    world.answers.add_permits(8);
    for _ in 10..18 {
        assert!(matches!(node.next().await, FromBroker::Outcome { code: 0, needs_commit: true, .. }));
    }
    assert_eq!(node.commits(call).await, CommitResult::Done);
}

/// What a call has not read of answers is bounded, and gone with it.
#[tokio::test]
async fn answers_that_nobody_reads_are_given_up() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, caller) = node.begin("acme").await;
    let body = vec![7; HTTP_PIECE_BYTES_MAX + 1];
    let mut kept = 0;
    for exchange in 0..100 {
        let append = HttpRequest::Append { upload: exchange, bytes: &body[1..] }.encode(0);
        node.request(call, WRITE, &append).await.unwrap();
        let mut frame = Vec::new();
        encode_request(&mut frame, "POST", "/", [], &body[..1]).unwrap();
        let send = HttpRequest::Send { exchange, upload: Some(exchange), secrets: vec![], frame: &frame };
        match node.request(call, WRITE, &send.encode(0)).await {
            Ok(_) => kept += 1,
            Err(code) => assert_eq!(code, 1202),
        }
    }
    assert_eq!(kept, (4 << 20) / (HTTP_PIECE_BYTES_MAX + 1));
    node.tell(ToBroker::Forget { call }).await;
    let since = Instant::now();
    while world.broker.held.of(&caller.tenant) > 0 {
        assert!(since.elapsed() < Duration::from_secs(10), "it is held of a call that is over");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a call that another one has made was answered is held once, and not any more when both are over.
#[tokio::test]
async fn an_answer_of_a_call_that_another_one_has_made_is_held_once() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (root, caller) = node.begin("acme").await;
    let (made, _) = node.begin_child("acme", Some(root)).await;
    let body = vec![7; HTTP_PIECE_BYTES_MAX + 1];
    let append = HttpRequest::Append { upload: 1, bytes: &body[1..] }.encode(0);
    node.request(made, WRITE, &append).await.unwrap();
    node.request(made, WRITE, &send("POST", "/", 0, Some(1), &body[..1])).await.unwrap();
    node.does(made, READ, &get("a")).await.0.unwrap();
    assert!((body.len()..body.len() + 4_096).contains(&world.broker.held.of(&caller.tenant)));
    assert_eq!(node.commits(made).await, CommitResult::Done);
    assert_eq!(node.commits(root).await, CommitResult::Done);
    assert_eq!(world.broker.held.of(&caller.tenant), 0);
}

/// So many requests of a tenant are on their way at a time; what it has of answers already it gets meanwhile.
#[tokio::test]
async fn requests_wait_for_their_tenants_turn_and_pieces_do_not() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    for id in 100..133 {
        node.begin_request(call, id, "orders", READ, &send("GET", "/held", 0, None, b"")).await;
    }
    world.until_had(32).await;
    let append = HttpRequest::Append { upload: 1, bytes: b"x" }.encode(0);
    assert_eq!(node.request(call, READ, &append).await, Ok(vec![]));
    let (other, _) = node.begin("evil").await;
    node.begin_request(other, 200, "orders", READ, &send("GET", "/", 0, None, b"")).await;
    assert!(matches!(node.next().await, FromBroker::Outcome { id: 200, code: 0, .. }));
    assert_eq!(
        world.had().len(),
        32 + 1,
        "the last one waits for one of them, and the other tenant's for none"
    );
    world.answers.add_permits(1);
    world.until_had(1).await;
    world.answers.add_permits(32);
    for _ in 100..133 {
        assert!(matches!(node.next().await, FromBroker::Outcome { code: 0, .. }));
    }
}
