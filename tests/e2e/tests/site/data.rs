//! Data of functions, from the grant to the commit: what is admitted, what takes effect, and what does not.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mfaas_harness::{Answer, Program, Stack, package, wait_for};
use mfaas_test_redis::RedisServer;

const COUNTER: &str = r#"
use std::time::Duration;

use mfaas::{Binding, Error, Kv, Write, join, join_all, sleep};

pub struct Counts;

impl Binding for Counts {
    const NAME: &'static str = "counts";
    type Value = i64;
}

pub async fn handle(body: String, counts: Kv<Counts, Write>) -> Result<String, Error> {
    let (what, key) = body.split_once(' ').unwrap_or((&body, "n"));
    match what {
        "get" => Ok(format!("{:?}", counts.get(key).await?)),
        "add" => Ok(counts.increment(key, 1).await?.to_string()),
        "slow" => {
            let sum = counts.increment(key, 1).await?;
            sleep(Duration::from_millis(20)).await;
            Ok(sum.to_string())
        }
        "fail" => {
            counts.put(key, &7).await?;
            Err(Error::new("it fails after it has changed something"))
        }
        "panic" => {
            counts.put(key, &7).await?;
            panic!("it panics after it has changed something");
        }
        "many" => {
            let puts = (0..100).map(|number| {
                let counts = &counts;
                async move { counts.put(format!("{key}-{number:03}"), &number).await }
            });
            join_all(puts).await.into_iter().collect::<Result<(), _>>()?;
            let (first, all) = join(counts.get(format!("{key}-000")), counts.scan(key, None, 256)).await;
            Ok(format!("{:?} {}", first?, all?.entries.len()))
        }
        _ => Err(Error::new("no such thing")),
    }
}
"#;

/// With time for cores that are all busy with tests.
const MANIFEST: &str = "[package.metadata.mfaas]\nbudget = \"50ms\"\n\n\
                        [package.metadata.mfaas.bindings.counts]\nkind = \"kv\"\naccess = \"write\"\n\n\
                        [dependencies]\nmfaas = \"0.1\"\n";

fn call(stack: &Stack, body: &str) -> Answer {
    let url = format!("{}/f/default/counter", stack.ingress());
    stack.request("POST", &url, &[], body.as_bytes().to_vec())
}

fn count(stack: &Stack, key: &str) -> String {
    call(stack, &format!("get {key}")).text()
}

/// What calls of the counter that succeed change takes effect, and nothing else.
fn takes_effect_at_once(stack: &Stack) {
    assert_eq!(count(stack, "n"), "None");
    assert_eq!((call(stack, "add").text(), count(stack, "n")), ("1".to_owned(), "Some(1)".to_owned()));
    assert_eq!(call(stack, "fail n").status, 500);
    assert_eq!(call(stack, "panic n").code(), "MF0802");
    assert_eq!(count(stack, "n"), "Some(1)");
    assert_eq!(call(stack, "many m").text(), "Some(0) 100");

    // Calls that meet run again, and each counts once.
    let counted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let answer = call(stack, "slow meet");
                    if answer.status == 200 {
                        counted.fetch_add(1, Ordering::Relaxed);
                    } else {
                        assert_eq!(answer.code(), "MF1204", "{}", answer.text());
                    }
                }
            });
        }
    });
    let counted = counted.into_inner();
    assert_eq!(count(stack, "meet"), format!("Some({counted})"));
    assert!(counted >= 30, "{counted} of 60 calls succeeded");
}

/// The group of the broker's user, where programs run as users of their own.
fn broker_group() -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let user = users.lines().find_map(|user| user.strip_prefix("mfaas-broker:"))?;
    user.split(':').nth(2).map(|group| group.parse().unwrap())
}

#[test]
fn data_in_redis_is_changed_as_other_data_is() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let redis = RedisServer::start(&["--port", &port, "--requirepass", "password-of-the-site"]);
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let file = directory.path().join("redis.toml");
    let lies = format!(
        "[redis.site]\nurl = \"redis://:password-of-the-site@127.0.0.1:{port}\"\nresources = [\"counts\"]\n"
    );
    std::fs::write(&file, lies).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    if rustix::process::geteuid().is_root() {
        let group = broker_group().or_else(|| {
            // The first installation of a machine makes the users.
            drop(Stack::start());
            broker_group()
        });
        std::os::unix::fs::chown(&file, None, group).unwrap();
    }
    let file: &str = file.to_str().unwrap().to_owned().leak();
    let stack = Stack::start_with(vec!["--default-access", "public", "--redis-file", file].leak());
    stack.grant("counts", "kv", "write");
    let counter = package("counter", COUNTER, MANIFEST);
    let _ = stack.deploy(counter.path()).ok();
    takes_effect_at_once(&stack);
    let in_redis = |command: &[&str]| {
        redis.cli(&[&["--no-auth-warning", "-a", "password-of-the-site"], command].concat())
    };
    assert_eq!(in_redis(&["EXISTS", "mfaas:{kv}:entry:counts:n"]), "1");
    wait_for("the audit records to be moved", Duration::from_secs(30), || {
        (in_redis(&["XLEN", "mfaas:{kv}:outbox"]) == "0").then_some(())
    });
}

#[test]
fn data_is_granted_admitted_changed_at_once_and_revoked() {
    let stack = Stack::start();
    let counter = package("counter", COUNTER, MANIFEST);
    let refused = |code: &str| {
        let report = stack.cli(["deploy", "--json", counter.path().to_str().unwrap()]).exits(3).json();
        assert_eq!(report["diagnostics"][0]["code"], code, "{report}");
    };
    refused("MF1201");
    stack.grant("counts", "kv", "read");
    refused("MF1201");
    stack.grant("counts", "kv", "write");
    let deployed = stack.deploy(counter.path()).ok();
    assert!(deployed.stderr.contains("also writes"), "{}", deployed.stderr);

    takes_effect_at_once(&stack);

    // Deleted tenants' and others' functions aside: the grant alone decides, now.
    let _ = stack.cli(["resource", "revoke", "counts", "--tenant", "default"]).ok();
    wait_for("the node to hear of it", Duration::from_secs(30), || {
        count(&stack, "n").contains("MF1201").then_some(())
    });
    stack.grant("counts", "kv", "read");
    wait_for("the node to hear of it", Duration::from_secs(30), || {
        (count(&stack, "n") == "Some(1)").then_some(())
    });
    assert!(call(&stack, "add").text().contains("MF1201"));
}

#[test]
fn what_a_handler_takes_is_what_its_manifest_declares() {
    let stack = Stack::start();
    stack.grant("counts", "kv", "write");
    let manifest = |bindings: &str| format!("{bindings}\n[dependencies]\nmfaas = \"0.1\"\n");
    for (bindings, says) in [
        ("", "the handler takes the binding `counts`, which Cargo.toml does not declare"),
        (
            "[package.metadata.mfaas.bindings.counts]\nkind = \"kv\"\n",
            "the handler takes the binding `counts` to write, and Cargo.toml declares it to read",
        ),
        (
            "[package.metadata.mfaas.bindings]\ncounts = { kind = \"kv\", access = \"write\" }\nmore = { kind = \"kv\" }\n",
            "Cargo.toml declares the binding `more`, which the handler does not take",
        ),
    ] {
        let counter = package("counter", COUNTER, &manifest(bindings));
        let report = stack.cli(["deploy", "--json", counter.path().to_str().unwrap()]).exits(5).json();
        let diagnostic = &report["diagnostics"][0];
        assert_eq!(
            (diagnostic["code"].as_str(), diagnostic["message"].as_str()),
            (Some("MF0414"), Some(says))
        );
    }
}

const RECENT: &str = r#"
use mfaas::{Binding, Cache, Error, Write};

pub struct Recent;

impl Binding for Recent {
    const NAME: &'static str = "recent";
    type Value = String;
}

pub async fn handle(body: String, recent: Cache<Recent, Write>) -> Result<String, Error> {
    let before = recent.get("last").await?;
    recent.put("last", &body).await?;
    match body.as_str() {
        "fail" => Err(Error::new("it fails after it has put something there")),
        "panic" => panic!("it panics after it has put something there"),
        "spin" => loop {
            std::hint::spin_loop();
        },
        _ => Ok(format!("{before:?}")),
    }
}
"#;

const RECENT_MANIFEST: &str = "[package.metadata.mfaas]\nbudget = \"50ms\"\n\n\
                               [package.metadata.mfaas.bindings.recent]\nkind = \"cache\"\naccess = \"write\"\n\n\
                               [dependencies]\nmfaas = \"0.1\"\n";

/// Values in the memory of the node, by the same ways as data: and without the broker.
#[test]
fn a_cache_keeps_what_calls_put_there_that_succeeded() {
    let stack = Stack::start();
    let recent = package("recent", RECENT, RECENT_MANIFEST);
    let report = stack.cli(["deploy", "--json", recent.path().to_str().unwrap()]).exits(3).json();
    assert_eq!(report["diagnostics"][0]["code"], "MF1201", "{report}");
    stack.grant("recent", "cache", "write");
    let deployed = stack.deploy(recent.path()).ok();
    assert!(deployed.stderr.contains("now also writes cache `recent`"), "{}", deployed.stderr);
    let call = |body: &str| {
        let url = format!("{}/f/default/recent", stack.ingress());
        stack.request("POST", &url, &[], body.as_bytes().to_vec())
    };
    assert_eq!(call("a").text(), "None");
    for (body, status) in [("fail", 500), ("panic", 502), ("spin", 504)] {
        assert_eq!(call(body).status, status, "{body}");
    }
    stack.kill(Program::Broker);
    assert_eq!(call("b").text(), "Some(\"a\")");
    stack.kill(Program::Node);
    wait_for("the node to serve it again", Duration::from_secs(30), || {
        let answer = call("c");
        (answer.status == 200).then(|| assert_eq!(answer.text(), "None", "it was in the memory of the node"))
    });
}

const ALBUM: &str = r#"
use mfaas::{Binding, Error, Kv, Objects, Request, Response, Write};

pub struct Photos;

impl Binding for Photos {
    const NAME: &'static str = "photos";
    type Value = ();
}

pub struct Titles;

impl Binding for Titles {
    const NAME: &'static str = "titles";
    type Value = String;
}

pub async fn handle(
    request: Request,
    photos: Objects<Photos, Write>,
    titles: Kv<Titles, Write>,
) -> Result<Response, Error> {
    let name = request.query().unwrap_or_default().to_owned();
    match request.method() {
        "PUT" => {
            photos.put(&name, request.body()).await?;
            titles.put(&name, &format!("{} bytes", request.body().len())).await?;
            match request.header("x-then") {
                Some("fail") => Err(Error::new("it fails after it has put a photo")),
                Some(_) => panic!("it panics after it has put a photo"),
                None => Ok(Response::text(format!("{:?}", photos.size(&name).await?))),
            }
        }
        "DELETE" => {
            photos.delete(&name).await?;
            titles.delete(&name).await?;
            Ok(Response::text("gone"))
        }
        _ if name.is_empty() => {
            let all = photos.list("", None, 256).await?;
            Ok(Response::text(format!("{:?}", all.objects)))
        }
        _ => match (photos.get(&name).await?, titles.get(&name).await?) {
            (Some(photo), Some(_)) => Ok(Response::new(200).with_body(photo)),
            (None, None) => Ok(Response::new(404)),
            (photo, title) => Err(Error::new(format!("{} and {title:?}", photo.is_some()))),
        },
    }
}
"#;

const ALBUM_BINDINGS: &str = "[package.metadata.mfaas.bindings]\n\
                              photos = { kind = \"object\", access = \"write\" }\n\
                              titles = { kind = \"kv\", access = \"write\" }\n\n\
                              [dependencies]\nmfaas = \"0.1\"\n";

/// Bytes by name, which change together with what else a call changes. Larger ones than a micro function holds go through a bulk one.
#[test]
fn objects_are_there_when_the_call_that_put_them_has_succeeded() {
    let stack = Stack::start();
    let of_class = |name: &str, class: &str| {
        let manifest =
            format!("[package.metadata.mfaas]\nclass = \"{class}\"\nbudget = \"1s\"\n\n{ALBUM_BINDINGS}");
        package(name, ALBUM, &manifest)
    };
    let album = of_class("album", "micro");
    stack.grant("titles", "kv", "write");
    let report = stack.cli(["deploy", "--json", album.path().to_str().unwrap()]).exits(3).json();
    assert_eq!(report["diagnostics"][0]["code"], "MF1201", "{report}");
    stack.grant("photos", "object", "write");
    let deployed = stack.deploy(album.path()).ok();
    assert!(deployed.stderr.contains("now also writes object `photos`"), "{}", deployed.stderr);
    let bulk = of_class("bulk", "bulk");
    let _ = stack.deploy(bulk.path()).ok();

    let call = |function: &str, method: &str, name: &str, headers: &[(&str, &str)], body: &[u8]| {
        let url = format!("{}/f/default/{function}?{name}", stack.ingress());
        stack.request(method, &url, headers, body.to_vec())
    };
    let bytes = |count: usize| (0..count).map(|at| (at % 251) as u8).collect::<Vec<_>>();
    for (function, count) in [("album", 0), ("album", 1), ("album", 250_000), ("bulk", 3_000_000)] {
        let (name, photo) = (format!("trip/{count}.jpg"), bytes(count));
        let put = call(function, "PUT", &name, &[], &photo);
        assert_eq!((put.status, put.text()), (200, format!("Some({count})")), "{name}");
        let got = call(function, "GET", &name, &[], b"");
        assert_eq!(got.status, 200, "{name}: {}", got.text());
        assert!(got.body == photo, "{name}");
    }
    for (then, status) in [("fail", 500), ("panic", 502)] {
        let put = call("album", "PUT", "never.jpg", &[("x-then", then)], b"never");
        assert_eq!(put.status, status, "{}", put.text());
    }
    assert_eq!(call("album", "GET", "never.jpg", &[], b"").status, 404);
    // What lies there is found by its name alone.
    assert_eq!(call("album", "PUT", "../../up.json", &[], b"mine").status, 200);
    assert_eq!(call("album", "DELETE", "trip/1.jpg", &[], b"").text(), "gone");
    assert_eq!(
        call("album", "GET", "", &[], b"").text(),
        "[(\"../../up.json\", 4), (\"trip/0.jpg\", 0), (\"trip/250000.jpg\", 250000), \
         (\"trip/3000000.jpg\", 3000000)]"
    );
    stack.kill(Program::Broker);
    let got = wait_for("the broker to be reached", Duration::from_secs(30), || {
        let got = call("album", "GET", "trip/250000.jpg", &[], b"");
        (got.status == 200).then_some(got)
    });
    assert!(got.body == bytes(250_000));
}

const JOURNAL: &str = r#"
use std::time::Duration;

use mfaas::{Binding, Error, Kv, Volume, Write, sleep};

pub struct Lines;

impl Binding for Lines {
    const NAME: &'static str = "lines";
    type Value = ();
}

pub struct Counts;

impl Binding for Counts {
    const NAME: &'static str = "counts";
    type Value = i64;
}

pub async fn handle(body: String, lines: Volume<Lines, Write>, counts: Kv<Counts, Write>) -> Result<String, Error> {
    let (what, path) = body.split_once(' ').unwrap_or((&body, "lines.txt"));
    match what {
        "read" => {
            let Some(file) = lines.open(path).await? else { return Ok("nothing".to_owned()) };
            Ok(String::from_utf8_lossy(&file.read_at(0, 100_000).await?).into_owned())
        }
        "count" => {
            let sum = counts.increment("n", 1).await?;
            lines.open_or_create(path).await?.append("line\n").await?;
            sleep(Duration::from_millis(20)).await;
            Ok(sum.to_string())
        }
        "fail" => {
            lines.open_or_create(path).await?.append("failed\n").await?;
            counts.put("n", &7).await?;
            Err(Error::new("it fails after it has written"))
        }
        _ => Err(Error::new("no such thing")),
    }
}
"#;

/// Files change at once, also where a call fails, and what a call wrote it writes once, whatever it meets.
#[test]
fn files_change_at_once_and_a_call_that_has_written_does_not_run_again() {
    let stack = Stack::start();
    let manifest = format!(
        "[package.metadata.mfaas.bindings.lines]\nkind = \"volume\"\naccess = \"write\"\n\n{MANIFEST}"
    );
    let journal = package("journal", JOURNAL, &manifest);
    stack.grant("counts", "kv", "write");
    let report = stack.cli(["deploy", "--json", journal.path().to_str().unwrap()]).exits(3).json();
    assert_eq!(report["diagnostics"][0]["code"], "MF1201", "{report}");
    stack.grant("lines", "volume", "write");
    let deployed = stack.deploy(journal.path()).ok();
    assert!(deployed.stderr.contains("also writes"), "{}", deployed.stderr);
    let call = |body: &str| {
        let url = format!("{}/f/default/journal", stack.ingress());
        stack.request("POST", &url, &[], body.as_bytes().to_vec())
    };
    assert_eq!(call("read").text(), "nothing");
    assert_eq!(call("fail a/failed.txt").status, 500);
    assert_eq!(call("read a/failed.txt").text(), "failed\n");
    // Nothing else of it is there.
    assert_eq!(call("count").text(), "1");
    let (answers, met) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let answer = call("count meet.txt");
                    match answer.status {
                        200 => answers.fetch_add(1, Ordering::Relaxed),
                        _ => {
                            assert_eq!(
                                (answer.status, answer.code().as_str()),
                                (409, "MF1213"),
                                "{}",
                                answer.text()
                            );
                            met.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
    });
    let (answers, met) = (answers.into_inner(), met.into_inner());
    assert!(met > 0, "no call met another one");
    assert_eq!(
        call("read meet.txt").text(),
        "line\n".repeat(60),
        "{answers} were answered, {met} met others"
    );
    assert_eq!(call("count").text(), (answers + 2).to_string());

    for path in ["../counts/x", "/etc/passwd", "a/../../x"] {
        assert!(call(&format!("read {path}")).text().contains("MF1202"), "{path}");
    }
    std::os::unix::fs::symlink("/etc", stack.home().join("volumes/lines/link")).unwrap();
    assert!(call("read link/passwd").text().contains("MF1212"));

    stack.kill(Program::Broker);
    let read = wait_for("the broker to be reached", Duration::from_secs(30), || {
        let read = call("read a/failed.txt");
        (read.status == 200).then(|| read.text())
    });
    assert_eq!(read, "failed\n");
}

/// Whatever happens to the broker: who was answered well has counted, once.
#[test]
fn a_broker_that_is_killed_takes_nothing_with_it_that_was_answered() {
    let stack = Stack::start();
    stack.grant("counts", "kv", "write");
    let counter = package("counter", COUNTER, MANIFEST);
    let _ = stack.deploy(counter.path()).ok();
    let keys: Vec<String> = (0..4).map(|number| format!("k{number}")).collect();
    let (counted, unknown, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for key in &keys {
            let (stack, counted, unknown, is_over) = (&stack, &counted, &unknown, &is_over);
            scope.spawn(move || {
                while is_over.load(Ordering::Relaxed) == 0 {
                    let answer = call(stack, &format!("add {key}"));
                    let text = answer.text();
                    if answer.status == 200 {
                        counted.fetch_add(1, Ordering::Relaxed);
                    } else if text.contains("MF1206") {
                        unknown.fetch_add(1, Ordering::Relaxed);
                    } else {
                        // The operation, or the commit, could not be asked for.
                        assert!(text.contains("MF1205"), "{text}");
                    }
                }
            });
        }
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(700));
            stack.kill(Program::Broker);
        }
        std::thread::sleep(Duration::from_millis(700));
        is_over.store(1, Ordering::Relaxed);
    });
    wait_for("the broker to be reached", Duration::from_secs(30), || {
        count(&stack, "k0").starts_with("Some").then_some(())
    });
    let sum: u64 = keys
        .iter()
        .map(|key| {
            count(&stack, key).trim_start_matches("Some(").trim_end_matches(')').parse::<u64>().unwrap()
        })
        .sum();
    let (counted, unknown) = (counted.into_inner(), unknown.into_inner());
    assert!(counted > 20, "{counted} calls were answered");
    assert!(
        (counted..=counted + unknown).contains(&sum),
        "{counted} counted, {unknown} unknown, {sum} there"
    );
}
