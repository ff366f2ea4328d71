//! Every shape, through real frames; and what waits.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::{Duration, Instant};

use mfaas_abi::frame::{Headers, RequestFrame, encode_request};
use mfaas_abi::{ContentType, Reply, Status};
use serde::{Deserialize, Serialize};

use crate::__private::{Declared, Manifest, check, invoke, taken};
use crate::testing::{block_on, cache, kv, objects, volume};
use crate::{
    Binding, Cache, Callee, DataError, Entry, Error, Handler, Http, Json, Kv, Objects, Read, Request,
    Response, Secret, TimedOut, Volume, Write, join, join_all, sleep, timeout,
};

/// A function that declares no bindings.
struct NoBindings;

impl Manifest for NoBindings {
    const BINDINGS: &'static [Declared] = &[];
}

fn call<Shape>(handler: impl Handler<Shape, Answer = Reply>, body: &[u8]) -> Reply {
    let mut frame = Vec::new();
    let headers = [("x-name", "value")];
    encode_request(&mut frame, "POST", "/a/b?c=d", headers, body).expect("a plain request");
    invoke::<_, _, NoBindings>(handler, &RequestFrame::decode(&frame).expect("our own frame"))
}

/// A handler that may wait, run to its end.
fn wait<Shape>(handler: impl Handler<Shape, Answer = mfaas_shim::Handling>, body: &[u8]) -> Reply {
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/a", [], body).expect("a plain request");
    block_on(invoke::<_, _, NoBindings>(handler, &RequestFrame::decode(&frame).expect("our own frame")))
}

fn opened(reply: &Reply) -> (Status, u16, &[u8]) {
    (reply.status, reply.http_status, &reply.body)
}

fn upper(body: &[u8]) -> Vec<u8> {
    body.to_ascii_uppercase()
}

fn show(request: Request) -> Response {
    let text = format!(
        "{} {} {:?} {:?} {:?}",
        request.method(),
        request.path(),
        request.query(),
        request.header("X-Name"),
        request.text()
    );
    Response::text(text).with_status(201).with_header("X-Out", "1")
}

#[derive(Debug, Serialize, Deserialize)]
struct Pair {
    a: u32,
    b: u32,
}

#[derive(Serialize)]
struct Quotient {
    value: u32,
}

fn divide(Json(pair): Json<Pair>) -> Result<Json<Quotient>, Error> {
    let value = pair.a.checked_div(pair.b).ok_or_else(|| Error::new("b must not be 0"))?;
    Ok(Json(Quotient { value }))
}

#[test]
fn bytes_to_bytes() {
    assert_eq!(opened(&call(upper, b"abc")), (Status::Ok, 200, &b"ABC"[..]));
}

#[test]
fn request_to_response() {
    let reply = call(show, b"text");
    let headers = Headers::decode(reply.header_count, &reply.headers).expect("headers");
    assert_eq!((headers.len(), headers.get("x-out")), (1, Some("1")));
    assert_eq!(reply.content_type, ContentType::Text);
    let (status, code, body) = opened(&reply);
    assert_eq!((status, code), (Status::Ok, 201));
    assert_eq!(body, br#"POST /a/b Some("c=d") Some("value") Ok("text")"#);
}

#[test]
fn json_to_json() {
    let reply = call(divide, br#"{"a":7,"b":2}"#);
    assert_eq!(opened(&reply), (Status::Ok, 200, &br#"{"value":3}"#[..]));
}

#[test]
fn an_error_of_the_handler_is_its_own_status() {
    let reply = call(divide, br#"{"a":7,"b":0}"#);
    assert_eq!(opened(&reply), (Status::HandlerError, 500, &b"b must not be 0"[..]));
}

#[test]
fn bad_json_is_the_callers_mistake() {
    let reply = call(divide, b"{");
    let (status, code, body) = opened(&reply);
    assert_eq!((status, code), (Status::Ok, 400));
    assert!(body.starts_with(b"EOF while parsing"));
}

#[test]
fn a_handler_takes_several_parameters_and_returns_what_becomes_a_response() {
    let two = |request: Request, Json(pair): Json<Pair>| format!("{} {}", request.path(), pair.a + pair.b);
    assert_eq!(opened(&call(two, br#"{"a":7,"b":2}"#)), (Status::Ok, 200, &b"/a/b 9"[..]));
    let copy = |body: Vec<u8>| -> Result<Vec<u8>, Error> { Ok(body) };
    assert_eq!(opened(&call(copy, b"\xff")), (Status::Ok, 200, &b"\xff"[..]));
    let text = |text: String| text;
    let (status, code, _) = opened(&call(text, b"\xff"));
    assert_eq!((status, code), (Status::Ok, 400), "the caller's mistake");
    let sum = |Json(pair): Json<Pair>| Json(Quotient { value: pair.a + pair.b });
    assert_eq!(opened(&call(sum, br#"{"a":1,"b":2}"#)), (Status::Ok, 200, &br#"{"value":3}"#[..]));
}

async fn late(Json(pair): Json<Pair>) -> Result<Json<Quotient>, Error> {
    sleep(Duration::from_millis(2)).await;
    divide(Json(pair))
}

#[test]
fn a_handler_may_wait() {
    assert_eq!(opened(&wait(late, br#"{"a":7,"b":2}"#)), (Status::Ok, 200, &br#"{"value":3}"#[..]));
    let failed = wait(late, br#"{"a":7,"b":0}"#);
    assert_eq!(opened(&failed), (Status::HandlerError, 500, &b"b must not be 0"[..]));
    assert_eq!(opened(&wait(late, b"{")).1, 400);
    let at_once = async |text: String| text;
    assert_eq!(opened(&wait(at_once, b"a")), (Status::Ok, 200, &b"a"[..]));
}

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn waits_at_the_same_time_take_as_long_as_the_longest() {
    let begin = Instant::now();
    let number = async |number: u64| {
        sleep(SHORT).await;
        number
    };
    assert_eq!(block_on(join(number(1), number(2))), (1, 2));
    // More than may be asked for at a time.
    let numbers = block_on(join_all((0..200).map(number)));
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
    let took = begin.elapsed();
    assert!(took >= 5 * SHORT && took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn what_takes_too_long_is_dropped() {
    let slow = timeout(SHORT, sleep(LONG));
    assert_eq!(block_on(slow), Err(TimedOut));
    assert_eq!(block_on(timeout(LONG, sleep(SHORT))), Ok(()), "and nobody waits for the rest");
    let both = async {
        drop(block_once(sleep(LONG)));
        sleep(SHORT).await;
    };
    block_on(both);
}

/// Polls once and gives the future back.
fn block_once<F: Future>(future: F) -> std::pin::Pin<Box<F>> {
    let mut future = Box::pin(future);
    let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(context).is_pending());
    future
}

#[test]
#[should_panic(expected = "waits for nothing that this crate offers")]
fn a_future_that_nobody_ends_is_told_of() {
    block_on(std::future::pending::<()>());
}

#[test]
fn headers_that_cannot_be_sent_are_bad_output() {
    let breaks = |_: Request| Response::new(200).with_header("a", "b\r\nc: d");
    assert_eq!(call(breaks, b"").status, Status::BadOutput);
    let long = |_: Request| Response::new(200).with_header("a", &"b".repeat(1 << 16));
    assert_eq!(call(long, b"").status, Status::BadOutput);
}

#[test]
fn the_usual_content_types_are_headers_like_others() {
    let said = Response::new(200).with_header("Content-Type", "text/plain; charset=utf-8").with_body("a");
    assert_eq!(Response::text("a"), said);
    assert_ne!(Response::html("a"), said);
    assert_eq!(
        Response::html("a").headers().collect::<Vec<_>>(),
        [("content-type", "text/html; charset=utf-8")]
    );
}

#[test]
fn local_stand_ins_serve_a_developers_tests() {
    assert!(crate::now() > std::time::UNIX_EPOCH);
    assert_ne!(crate::random::<16>(), crate::random::<16>());
    crate::log!("a line with {}", 1);
    crate::log!(crate::Level::Warn, "another");
}

struct Prices;

impl Binding for Prices {
    const NAME: &'static str = "prices";
    type Value = Pair;
}

struct Names;

impl Binding for Names {
    const NAME: &'static str = "names";
    type Value = String;
}

async fn recall(page: String, recent: Cache<Names, Write>) -> Result<String, DataError> {
    let before = recent.get(&page).await?;
    recent.put(&page, &"seen".to_owned()).await?;
    recent.put_for("gone", &page, Duration::ZERO).await?;
    let now = recent.get_many([page.as_str(), "gone"]).await?;
    recent.delete(&page).await?;
    Ok(format!("{before:?} {now:?} {:?}", recent.get(&page).await?))
}

/// The same binding, of another version.
async fn recall_number(page: String, recent: Cache<Numbers, Write>) -> Result<String, DataError> {
    Ok(format!("{:?}", recent.get(&page).await?))
}

struct Numbers;

impl Binding for Numbers {
    const NAME: &'static str = "names";
    type Value = u64;
}

#[test]
fn a_cache_gives_what_was_put_there_and_nothing_of_another_type() {
    let page = || "page".to_owned();
    let said = block_on(recall(page(), cache())).unwrap();
    assert_eq!(said, "None [Some(\"seen\"), None] None");
    block_on(cache::<Names, Write>().put("page", &"a text".to_owned())).unwrap();
    assert_eq!(block_on(recall_number(page(), cache())).as_deref(), Ok("None"));
    assert_eq!(taken(&recall), [None, Some(Declared { kind: "cache", ..NAMES })]);
}

async fn buy(_: Request, prices: Kv<Prices>, names: Kv<Names, Write>) -> Result<String, DataError> {
    names.put("last", &"Ada".to_owned()).await?;
    let (price, name) = join(prices.get("a"), names.get("last")).await;
    Ok(format!("{} {name:?}", price?.is_some(), name = name?))
}

const PRICES: Declared = Declared { name: "prices", kind: "kv", access: "read" };
const NAMES: Declared = Declared { name: "names", kind: "kv", access: "write" };

struct Shop;

impl Manifest for Shop {
    const BINDINGS: &'static [Declared] = &[NAMES, PRICES];
}

// As the generated entry has it.
const _: () = check(taken(&buy), Shop::BINDINGS);

#[test]
fn what_a_handler_takes_follows_from_its_type_and_is_what_is_declared() {
    assert_eq!(taken(&buy), [None, Some(PRICES), Some(NAMES)]);
    assert_eq!(taken(&upper), []);
    for (declared, says) in [
        (&[NAMES][..], "the handler takes the binding `prices`, which Cargo.toml does not declare"),
        (
            &[NAMES, Declared { access: "write", ..PRICES }],
            "the handler takes the binding `prices` to read, and Cargo.toml declares it to write",
        ),
        (
            &[NAMES, Declared { kind: "object", ..PRICES }],
            "the handler takes the binding `prices` as kv, and Cargo.toml declares it as object",
        ),
        (
            &[Declared { name: "more", ..NAMES }, NAMES, PRICES],
            "Cargo.toml declares the binding `more`, which the handler does not take",
        ),
    ] {
        let refused = std::panic::catch_unwind(|| check(taken(&buy), declared)).unwrap_err();
        assert_eq!(
            refused
                .downcast_ref::<&str>()
                .copied()
                .map(str::to_owned)
                .or_else(|| refused.downcast_ref::<String>().cloned())
                .as_deref(),
            Some(says)
        );
    }
}

#[test]
fn a_handler_reaches_data_that_lies_in_memory() {
    let request = Request::new("POST", "/a");
    assert_eq!(block_on(buy(request, kv(), kv())).as_deref(), Ok("false Some(\"Ada\")"));
}

#[test]
fn data_in_memory_does_what_a_nodes_does() {
    struct Numbers;
    impl Binding for Numbers {
        const NAME: &'static str = "numbers";
        type Value = i64;
    }
    let (numbers, read) = (kv::<Numbers, Write>(), kv::<Numbers, Read>());
    block_on(async {
        assert_eq!(numbers.get("a").await, Ok(None));
        numbers.put("a", &5).await.unwrap();
        assert_eq!(numbers.increment("a", 2).await, Ok(7));
        assert_eq!(numbers.increment("b", -1).await, Ok(-1));
        assert_eq!(numbers.compare_and_set("a", Some(&6), Some(&1)).await, Ok(false));
        assert_eq!(numbers.compare_and_set("a", Some(&7), Some(&1)).await, Ok(true));
        assert_eq!(numbers.compare_and_set("c", None, Some(&3)).await, Ok(true));
        assert_eq!(read.get_many(["a", "x", "c"]).await, Ok(vec![Some(1), None, Some(3)]));
        let first = read.scan("", None, 2).await.unwrap();
        assert_eq!(first.entries, [(b"a".to_vec(), 1), (b"b".to_vec(), -1)]);
        let rest = read.scan("", first.next.as_deref(), 2).await.unwrap();
        assert_eq!((rest.entries, rest.next), (vec![(b"c".to_vec(), 3)], None));
        numbers.delete("a").await.unwrap();
        numbers.put_for("b", &9, Duration::from_millis(20)).await.unwrap();
        assert_eq!(numbers.get("b").await, Ok(Some(9)));
        sleep(Duration::from_millis(40)).await;
        assert_eq!(read.get_many(["a", "b"]).await, Ok(vec![None, None]));
        assert_eq!(numbers.increment("c", i64::MAX).await.unwrap_err().code(), Some(1203));
    });
    // A value that is not of the type of the binding.
    struct Other;
    impl Binding for Other {
        const NAME: &'static str = "numbers";
        type Value = Pair;
    }
    let wrong = block_on(kv::<Other, Read>().get("c")).unwrap_err();
    assert_eq!(wrong.code(), None);
    assert!(
        wrong.to_string().starts_with("a value of `numbers` is not of the type of the binding: "),
        "{wrong}"
    );
}

/// Pieces go and come in their order, however many an object has.
#[test]
fn objects_in_memory_do_what_a_nodes_do() {
    struct Files;
    impl Binding for Files {
        const NAME: &'static str = "files";
        type Value = ();
    }
    let (files, read): (Objects<Files, Write>, Objects<Files>) = (objects(), objects());
    let piece = mfaas_abi::limits::OBJECT_PIECE_BYTES_MAX;
    block_on(async {
        assert_eq!((read.get("a").await, read.size("a").await), (Ok(None), Ok(None)));
        for bytes in [0, 1, piece - 1, piece, piece + 1, 3 * piece, 3 * piece + 7] {
            let all: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            files.put("dir/a", &all).await.unwrap();
            assert_eq!(read.size("dir/a").await, Ok(Some(bytes as u64)));
            assert_eq!(read.get("dir/a").await.as_ref(), Ok(&Some(all.clone())), "{bytes} bytes");
            let (begin, end) = (bytes / 3, bytes - bytes / 5);
            let range = read.get_range("dir/a", begin as u64..end as u64).await;
            assert_eq!(range, Ok(Some(all[begin..end].to_vec())), "{bytes} bytes");
            let behind = read.get_range("dir/a", bytes as u64 + 1..u64::MAX).await;
            assert_eq!(behind, Ok(Some(vec![])));
        }
        // Two at the same time are not mixed, of more pieces than are asked for together.
        let (one, other) = (vec![1; 9 * piece + 5], vec![2; 9 * piece + 6]);
        let (first, second) = join(files.put("one", &one), files.put("other", &other)).await;
        assert_eq!((first, second), (Ok(()), Ok(())));
        assert_eq!((read.get("one").await, read.get("other").await), (Ok(Some(one)), Ok(Some(other))));
        assert_eq!(files.put_new("one", b"x").await, Ok(false));
        assert_eq!(files.put_new("dir/b", b"x").await, Ok(true));
        let first = read.list("", None, 2).await.unwrap();
        assert_eq!(first.objects, [("dir/a".to_owned(), 3 * piece as u64 + 7), ("dir/b".to_owned(), 1)]);
        let rest = read.list("", first.next.as_deref(), 9).await.unwrap();
        assert_eq!((rest.objects.len(), rest.next), (2, None));
        assert_eq!(read.list("dir/", None, 9).await.unwrap().objects, first.objects);
        files.delete("dir/a").await.unwrap();
        assert_eq!(read.get("dir/a").await, Ok(None));
    });
}

/// Bytes go and come in pieces in their order, and paths are those of a node.
#[test]
fn files_in_memory_do_what_a_nodes_do() {
    struct Journal;
    impl Binding for Journal {
        const NAME: &'static str = "journal";
        type Value = ();
    }
    let (journal, read): (Volume<Journal, Write>, Volume<Journal>) = (volume(), volume());
    let piece = mfaas_abi::limits::VOLUME_PIECE_BYTES_MAX;
    block_on(async {
        assert!(read.open("a/b").await.unwrap().is_none());
        let file = journal.open_or_create("a/b").await.unwrap();
        for bytes in [0, 1, piece - 1, piece, piece + 1, 3 * piece, 3 * piece + 7] {
            let all: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            file.truncate(0).await.unwrap();
            assert_eq!(file.append(&all).await, Ok(0), "{bytes} bytes");
            assert_eq!(file.append("end").await, Ok(bytes as u64));
            file.write_at(bytes as u64 / 2, &all).await.unwrap();
            let end = (bytes / 2 + bytes).max(bytes + 3);
            assert_eq!(file.size().await, Ok(end as u64), "{bytes} bytes");
            let opened = read.open("a/b").await.unwrap().expect("it is there");
            assert_eq!(opened.read_at(bytes as u64 / 2, bytes).await, Ok(all), "{bytes} bytes");
            assert_eq!(opened.read_at(0, end + 9).await.unwrap().len(), end);
            assert_eq!(opened.read_at(end as u64, 1).await, Ok(vec![]));
        }
        // More pieces than are asked for together.
        let many: Vec<u8> = (0..9 * piece + 5).map(|at| (at % 241) as u8).collect();
        file.truncate(0).await.unwrap();
        file.write_at(3, &many).await.unwrap();
        for bytes in [many.len(), 8 * piece, 9 * piece, usize::MAX] {
            let found = file.read_at(3, bytes).await.unwrap();
            assert!(found == many[..bytes.min(many.len())], "{bytes} bytes: {}", found.len());
        }
        assert_eq!(file.read_at(u64::MAX, usize::MAX).await, Ok(vec![]));
        file.truncate(0).await.unwrap();
        assert_eq!(
            join(file.write_at(0, &many), file.read_at(1 << 30, 4 * piece)).await,
            (Ok(()), Ok(vec![]))
        );
        file.sync().await.unwrap();
        journal.open_or_create("c").await.unwrap();
        let entries = read.list("", None, 1).await.unwrap();
        assert_eq!(entries.entries, [("a".to_owned(), Entry::Directory)]);
        let rest = read.list("", entries.next.as_deref(), 9).await.unwrap();
        assert_eq!((&*rest.entries, rest.next), (&[("c".to_owned(), Entry::File(0))][..], None));
        assert_eq!(read.list("a", None, 9).await.unwrap().entries[0].0, "b");
        let code = |error: DataError| error.code();
        for path in ["a", "c/d"] {
            assert_eq!(read.open(path).await.map_err(code).map(drop), Err(Some(1212)), "{path}");
        }
        assert_eq!(journal.remove("c/d").await.map_err(code), Err(Some(1212)));
        assert_eq!(file.write_at(1 << 40, "x").await.map_err(code), Err(Some(1208)));
        assert_eq!(file.truncate(1 << 40).await.map_err(code), Err(Some(1208)));
        for (path, refused) in [("../a", 1202), ("/a", 1202), ("", 1202), ("a", 1212), ("c/d", 1212)] {
            assert_eq!(
                journal.open_or_create(path).await.map_err(code).map(drop),
                Err(Some(refused)),
                "{path}"
            );
        }
        assert_eq!(read.list("c", None, 9).await.map_err(code), Err(Some(1212)));
        assert_eq!(journal.remove("a").await.map_err(code), Err(Some(1212)));
        journal.remove("a/b").await.unwrap();
        journal.remove("a").await.unwrap();
        assert_eq!(file.size().await.map_err(code), Err(Some(1212)));
        assert_eq!(read.list("", None, 9).await.unwrap().entries.len(), 1);
        assert_eq!(file.append("x").await.map_err(code), Err(Some(1212)));
    });
}

/// A function that another one calls may call others itself.
#[test]
fn functions_in_memory_call_each_other() {
    struct Outer;
    struct Inner;
    impl Callee for Outer {
        const NAME: &'static str = "outer";
        type Request = u32;
        type Response = u32;
    }
    impl Callee for Inner {
        const NAME: &'static str = "inner";
        type Request = u32;
        type Response = u32;
    }
    let inner = || crate::testing::call::<Inner, u32, _>(|Json(number)| Json(number + 1));
    let outer = crate::testing::call::<Outer, u32, _>(move |Json(number)| {
        Json(block_on(inner().call(&(10 * number))).expect("it answers"))
    });
    assert_eq!(block_on(outer.call(&4)), Ok(41));
}

/// Bodies go and come in pieces in their order, and a secret is where it was asked for.
#[test]
fn servers_in_memory_hear_what_a_node_would_send() {
    struct Api;
    impl Binding for Api {
        const NAME: &'static str = "api";
        type Value = ();
    }
    struct Key;
    impl Binding for Key {
        const NAME: &'static str = "key";
        type Value = ();
    }
    let api: Http<Api, Write> = crate::testing::http(|request: Request| {
        let authorization = request.header("authorization").unwrap_or("none").to_owned();
        let target =
            format!("{} {}?{}", request.method(), request.path(), request.query().unwrap_or_default());
        Response::bytes(request.into_body())
            .with_header("x-target", &target)
            .with_header("x-had", &authorization)
    });
    let key: Secret<Key> = crate::testing::secret();
    let piece = mfaas_abi::limits::HTTP_PIECE_BYTES_MAX;
    block_on(async {
        for bytes in [0, 1, piece - 1, piece, piece + 1, 3 * piece, 3 * piece + 7] {
            let all: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            let answer = api.post("/a").body(all.clone()).send().await.unwrap();
            assert!(answer.is_success());
            assert!(answer.into_body() == all, "{bytes} bytes");
        }
        let request = api.get("/a?b=c").query("d e", "ä&/").header("authorization", "mine").secret(&key);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.header("x-target"), Some("GET /a?b=c&d%20e=%C3%A4%26%2F"));
        assert_eq!(answer.header("x-had"), Some("Bearer secret:key"));
        let answer = api.put("/").json(&[1, 2]).secret(&key).send().await.unwrap();
        assert_eq!((answer.json(), answer.header("x-had")), (Ok([1, 2]), Some("Bearer secret:key")));
        let code = |error: DataError| error.code();
        let large = api.post("/").body(vec![0; (1 << 20) + 1]).send().await;
        assert_eq!(large.map_err(code), Err(Some(1202)));
        assert_eq!(api.get("no path").send().await.map_err(code), Err(Some(1214)));
        assert_eq!(api.get("/").header("x", "a\nb").send().await.map_err(code), Err(Some(1214)));
        let unwritable = std::collections::BTreeMap::from([(vec![1], 1)]);
        assert_eq!(api.post("/").json(&unwritable).send().await.map_err(code), Err(None));
    });
    assert_eq!(format!("{key:?}"), "Secret(\"key\")");
}
