//! Requests of functions to servers, from the grant to the answer: with a secret that no function sees, and nowhere that the site does not
//! say.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mfaas_harness::{Program, Stack, package, wait_for};

const KEY: &str = "key-of-the-site-0123";
/// A trace that a caller is in.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

const SHOP: &str = r#"
use mfaas::{Binding, Error, Http, Kv, Secret, Write, join_all};

pub struct Payments;

impl Binding for Payments {
    const NAME: &'static str = "payments";
    type Value = ();
}

pub struct Inside;

impl Binding for Inside {
    const NAME: &'static str = "inside";
    type Value = ();
}

pub struct Plain;

impl Binding for Plain {
    const NAME: &'static str = "plain";
    type Value = ();
}

pub struct Key;

impl Binding for Key {
    const NAME: &'static str = "payments-key";
    type Value = ();
}

pub struct Counts;

impl Binding for Counts {
    const NAME: &'static str = "counts";
    type Value = i64;
}

pub async fn handle(
    body: String,
    payments: Http<Payments, Write>,
    inside: Http<Inside>,
    plain: Http<Plain>,
    key: Secret<Key>,
    counts: Kv<Counts, Write>,
) -> Result<String, Error> {
    let (what, rest) = body.split_once(' ').unwrap_or((&body, ""));
    match what {
        "pay" => {
            let answer = payments.post("/charges").query("of", rest).secret(&key).json(rest).send().await?;
            Ok(format!("{} {}", answer.status(), answer.text()?))
        }
        "large" => {
            let answer = payments.put("/large").body(vec![b'x'; 200_000]).send().await?;
            Ok(format!("{} {}", answer.status(), answer.body().len()))
        }
        "echo" => {
            let answer = payments.get("/echo").secret(&key).send().await?;
            Ok(answer.text()?.to_owned())
        }
        "trace" => {
            let answer = plain.get("/echo").send().await?;
            Ok(answer.text()?.to_owned())
        }
        "inside" => {
            let answer = inside.get("/").send().await?;
            Ok(answer.text()?.to_owned())
        }
        "elsewhere" => {
            let answer = inside.get("/").secret(&key).send().await?;
            Ok(answer.text()?.to_owned())
        }
        "many" => {
            let asked = (0..20).map(|number| payments.get(format!("/slow/{number}")).send());
            let answers = join_all(asked).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            Ok(answers.iter().filter(|answer| answer.is_success()).count().to_string())
        }
        "count" => {
            let sum = counts.increment("n", 1).await?;
            payments.post("/count").send().await?;
            Ok(sum.to_string())
        }
        _ => Err(Error::new("no such thing")),
    }
}
"#;

const BINDINGS: &str = "[package.metadata.mfaas]\nbudget = \"50ms\"\n\n\
     [package.metadata.mfaas.bindings.payments]\nkind = \"http\"\naccess = \"write\"\n\n\
     [package.metadata.mfaas.bindings.inside]\nkind = \"http\"\n\n\
     [package.metadata.mfaas.bindings.plain]\nkind = \"http\"\n\n\
     [package.metadata.mfaas.bindings.payments-key]\nkind = \"secret\"\n\n\
     [package.metadata.mfaas.bindings.counts]\nkind = \"kv\"\naccess = \"write\"\n\n\
     [dependencies]\nmfaas = \"0.1\"\n";

/// A server that the site asks: what came, by its first line and its header `authorization`.
#[derive(Clone, Default)]
struct Upstream(Arc<Mutex<Vec<(String, String)>>>);

impl Upstream {
    fn start() -> (Self, SocketAddr) {
        let upstream = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let of_thread = upstream.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let upstream = of_thread.clone();
                std::thread::spawn(move || upstream.answer(stream.unwrap()));
            }
        });
        (upstream, address)
    }

    fn answer(&self, mut stream: TcpStream) {
        let (mut bytes, mut piece) = (Vec::new(), [0; 64 << 10]);
        let (head, body) = loop {
            let count = stream.read(&mut piece).unwrap_or(0);
            if count == 0 {
                return;
            }
            bytes.extend_from_slice(&piece[..count]);
            let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = value(&head, "content-length").map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                break (head, bytes[end + 4..].to_vec());
            }
        };
        let line = head.lines().next().unwrap().to_owned();
        self.0
            .lock()
            .unwrap()
            .push((line.clone(), value(&head, "authorization").unwrap_or_default().to_owned()));
        if line.contains("/slow") {
            std::thread::sleep(Duration::from_millis(300));
        }
        let body = if line.contains("/echo") { head.into_bytes() } else { body };
        let head =
            format!("HTTP/1.1 201 Created\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(&[head.as_bytes(), &body].concat());
    }

    fn had(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// A site that may ask this server as `payments`, and as `inside` what is at a private address. The broker's user reads the file.
fn site(upstream: SocketAddr) -> (Stack, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = directory.path().join("http.toml");
    let text = format!(
        "[http.payments]\norigin = \"http://{upstream}\"\ncleartext = true\nnetworks = [\"127.0.0.1/32\"]\n\n\
         [http.plain]\norigin = \"http://{upstream}\"\ncleartext = true\nnetworks = [\"127.0.0.1/32\"]\n\n\
         [http.inside]\norigin = \"http://localhost:{}\"\ncleartext = true\n\n\
         [secret.payments-key]\nfile = \"payments-key\"\nhttp = [\"payments\"]\n",
        upstream.port()
    );
    std::fs::write(&file, text).unwrap();
    std::fs::write(directory.path().join("payments-key"), format!("{KEY}\n")).unwrap();
    let file: &'static str = file.to_str().unwrap().to_owned().leak();
    (Stack::start_with(vec!["--default-access", "public", "--http-file", file].leak()), directory)
}

#[test]
fn a_function_asks_servers_that_the_site_names_with_secrets_that_it_does_not_see() {
    let (upstream, address) = Upstream::start();
    let (stack, directory) = site(address);
    let shop = package("shop", SHOP, BINDINGS);
    for (resource, kind, access) in [
        ("counts", "kv", "write"),
        ("payments", "http", "write"),
        ("inside", "http", "read"),
        ("plain", "http", "read"),
    ] {
        stack.grant(resource, kind, access);
    }
    let report = stack.cli(["deploy", "--json", shop.path().to_str().unwrap()]).exits(3).json();
    assert_eq!(report["diagnostics"][0]["code"], "MF1201", "{report}");
    stack.grant("payments-key", "secret", "read");
    let deployed = stack.deploy(shop.path()).ok();
    for line in [
        "now also sends anything to http `payments`",
        "now also sends GET to http `inside`",
        "now also uses secret `payments-key`",
    ] {
        assert!(deployed.stderr.contains(line), "{line}: {}", deployed.stderr);
    }
    let call = |body: &str| {
        let url = format!("{}/f/default/shop", stack.ingress());
        stack.request("POST", &url, &[], body.as_bytes().to_vec())
    };
    assert_eq!(call("pay order 7").text(), "201 \"order 7\"");
    let bearer = format!("Bearer {KEY}");
    assert_eq!(upstream.had(), [("POST /charges?of=order%207 HTTP/1.1".to_owned(), bearer)]);
    let url = format!("{}/f/default/shop", stack.ingress());
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let traced = stack.request("POST", &url, &[("traceparent", &parent)], b"trace".to_vec()).text();
    let is_part = |value: &str| {
        value.len() == parent.len() && value.starts_with(&format!("00-{TRACE}-")) && value != parent
    };
    assert!(value(&traced, "traceparent").is_some_and(is_part), "{traced}");
    assert_eq!(call("large").text(), "201 200000");
    assert_eq!(call("many").text(), "20");
    assert_eq!(upstream.had().len(), 22);

    // The secret is not shown, and goes nowhere else; and no function reaches what is inside.
    let echo = call("echo").text();
    assert!(echo.contains("MF1216") && !echo.contains(KEY), "{echo}");
    assert_eq!(upstream.had().len(), 1);
    for (what, code) in [("inside", "MF1217"), ("elsewhere", "MF1201")] {
        let answer = call(what).text();
        assert!(answer.contains(code), "{what}: {answer}");
    }
    assert_eq!(upstream.had(), []);

    // Another value counts from the next request on.
    std::fs::write(directory.path().join("payments-key"), "another-value-0123").unwrap();
    assert_eq!(call("pay 8").text(), "201 \"8\"");
    assert_eq!(upstream.had()[0].1, "Bearer another-value-0123");
    for program in [Program::Broker, Program::Node] {
        let log = stack.log(program);
        assert!(!log.contains(KEY) && !log.contains("another-value"), "{log}");
    }

    stack.kill(Program::Broker);
    let paid = wait_for("the broker to be reached", Duration::from_secs(30), || {
        let paid = call("pay 9");
        (paid.status == 200).then(|| paid.text())
    });
    assert_eq!(paid, "201 \"9\"");
}

/// A call that has asked a server for a change is sent once, whatever it meets.
#[test]
fn a_request_that_changes_something_is_sent_once() {
    let (upstream, address) = Upstream::start();
    let (stack, _directory) = site(address);
    for (resource, kind, access) in [
        ("counts", "kv", "write"),
        ("payments", "http", "write"),
        ("inside", "http", "read"),
        ("plain", "http", "read"),
        ("payments-key", "secret", "read"),
    ] {
        stack.grant(resource, kind, access);
    }
    let _ = stack.deploy(package("shop", SHOP, BINDINGS).path()).ok();
    let (answered, met) = (Mutex::new(0), Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let url = format!("{}/f/default/shop", stack.ingress());
                    let answer = stack.request("POST", &url, &[], b"count".to_vec());
                    match (answer.status, answer.code().as_str()) {
                        (200, _) => *answered.lock().unwrap() += 1,
                        (409, "MF1213") => *met.lock().unwrap() += 1,
                        _ => panic!("{}", answer.text()),
                    }
                }
            });
        }
    });
    let (answered, met) = (*answered.lock().unwrap(), *met.lock().unwrap());
    assert!(met > 0, "no call met another one");
    assert_eq!((answered + met, upstream.had().len()), (60, 60));
}
