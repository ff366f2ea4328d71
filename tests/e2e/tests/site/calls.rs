//! Functions that call others: what is admitted, what they hear, and that what they do takes effect together.

use mfaas_harness::{Answer, Stack, package};

const RESERVE: &str = r#"
use mfaas::{Binding, Error, Json, Kv, Write};

pub struct Rooms;

impl Binding for Rooms {
    const NAME: &'static str = "rooms";
    type Value = i64;
}

pub async fn handle(Json(hotel): Json<String>, rooms: Kv<Rooms, Write>) -> Result<Json<i64>, Error> {
    if hotel == "loop" {
        loop {
            std::hint::black_box(0);
        }
    }
    let reserved = rooms.increment(&hotel, 1).await?;
    if hotel == "full" {
        return Err(Error::new("no room is free"));
    }
    assert!(hotel != "burnt", "there is no such hotel any more");
    Ok(Json(reserved))
}
"#;

const BOOK: &str = r#"
use mfaas::{Binding, Call, Callee, Error, Kv, join};

pub struct Reserve;

impl Callee for Reserve {
    const NAME: &'static str = "reserve";
    type Request = String;
    type Response = i64;
}

pub struct Rooms;

impl Binding for Rooms {
    const NAME: &'static str = "rooms";
    type Value = i64;
}

pub async fn handle(body: String, reserve: Call<Reserve>, rooms: Kv<Rooms>) -> Result<String, Error> {
    let (what, hotel) = body.split_once(' ').unwrap_or(("one", &body));
    let hotel = hotel.to_owned();
    match what {
        "one" => Ok(reserve.call(&hotel).await?.to_string()),
        "two" => {
            let (one, two) = join(reserve.call(&hotel), reserve.call(&hotel)).await;
            Ok(format!("{}", one?.max(two?)))
        }
        "fail" => {
            reserve.call(&hotel).await?;
            Err(Error::new("it fails after another one has reserved"))
        }
        "try" => Ok(match reserve.call(&hotel).await {
            Ok(reserved) => format!("{reserved} of {:?}", rooms.get(&hotel).await?),
            Err(error) => format!("{:?} {:?}", error.code(), error.status()),
        }),
        _ => Ok(format!("{:?}", rooms.get(&hotel).await?)),
    }
}
"#;

const DEPENDENCY: &str = "[dependencies]\nmfaas = \"0.1\"\n";

fn call(stack: &Stack, body: &str) -> Answer {
    let url = format!("{}/f/default/book", stack.ingress());
    stack.request("POST", &url, &[], body.as_bytes().to_vec())
}

#[test]
fn functions_call_each_other_and_take_effect_together() {
    let stack = Stack::start();
    stack.grant("rooms", "kv", "write");
    let rooms = |access: &str| {
        format!("[package.metadata.mfaas.bindings.rooms]\nkind = \"kv\"\naccess = \"{access}\"\n")
    };
    let budget = "[package.metadata.mfaas]\nbudget = \"200ms\"\n";
    let calls = |name: &str| format!("[package.metadata.mfaas.bindings.{name}]\nkind = \"function\"\n");
    let book = package("book", BOOK, &format!("{budget}{}{}{DEPENDENCY}", calls("reserve"), rooms("read")));
    let deployed = stack.deploy(book.path()).ok();
    assert!(deployed.stderr.contains("now also calls `reserve`"), "{}", deployed.stderr);
    assert_eq!(call(&stack, "try a").text(), "Some(1210) None", "it is not there yet");
    let reserve = package("reserve", RESERVE, &format!("{}{DEPENDENCY}", rooms("write")));
    let _ = stack.deploy(reserve.path()).ok();

    let graph = stack.cli(["graph", "book"]).ok();
    assert_eq!(graph.stdout, "book\n  reserve\n");
    assert_eq!(call(&stack, "one a").text(), "1");
    assert_eq!(call(&stack, "try a").text(), "2 of Some(2)", "what it changed is seen by its caller");
    assert_eq!(call(&stack, "two a").text(), "4", "two at once are two");
    assert_eq!(call(&stack, "fail a").status, 500);
    assert_eq!(call(&stack, "look a").text(), "Some(4)", "what was reserved for nothing is not");
    assert_eq!(call(&stack, "try full").text(), "None Some(500)");
    assert_eq!(call(&stack, "try burnt").text(), "Some(1210) None");
    assert_eq!(
        (call(&stack, "look full").text(), call(&stack, "look burnt").text()),
        ("None".into(), "None".into())
    );
    // The one that is called has a budget as well.
    assert_eq!(call(&stack, "try loop").text(), "Some(1210) None");

    // Nobody waits for itself.
    let source = RESERVE.replacen(
        "rooms: Kv<Rooms, Write>)",
        "rooms: Kv<Rooms, Write>, _book: mfaas::Call<Book>)",
        1,
    ) + "pub struct Book;\n\nimpl mfaas::Callee for Book {\n    const NAME: &'static str = \"book\";\n    type Request = String;\n    type Response = String;\n}\n";
    let cycle = package("reserve", &source, &format!("{}{}{DEPENDENCY}", calls("book"), rooms("write")));
    let report = stack.cli(["deploy", "--json", cycle.path().to_str().unwrap()]).exits(3).json();
    assert_eq!(report["diagnostics"][0]["code"], "MF1209", "{report}");
    // What the handler takes is what the manifest declares.
    let silent = package("book", BOOK, &format!("{}{DEPENDENCY}", rooms("read")));
    let report = stack.cli(["deploy", "--json", silent.path().to_str().unwrap()]).exits(5).json();
    let diagnostic = &report["diagnostics"][0];
    assert_eq!(diagnostic["code"], "MF0414", "{report}");
    assert!(diagnostic["message"].as_str().unwrap().contains("`reserve`, which Cargo.toml does not declare"));
}

const PAY: &str = r#"
use mfaas::{Binding, Error, Kv, Request, Write};

pub struct Ledger;

impl Binding for Ledger {
    const NAME: &'static str = "ledger";
    type Value = i64;
}

pub async fn handle(request: Request, ledger: Kv<Ledger, Write>) -> Result<mfaas::Json<String>, Error> {
    let paid = ledger.increment("paid", 1).await?;
    Ok(mfaas::Json(format!("{paid} by {}", request.caller().unwrap_or("nobody"))))
}
"#;

const ORDER: &str = r#"
use mfaas::{Call, Callee, Error};

pub struct Pay;

impl Callee for Pay {
    const NAME: &'static str = "pay";
    type Request = ();
    type Response = String;
}

pub async fn handle(what: String, pay: Call<Pay>) -> Result<String, Error> {
    let paid = match pay.call(&()).await {
        Ok(paid) => paid,
        Err(error) => return Ok(format!("{:?}", error.code())),
    };
    if what == "fail" { Err(Error::new("it fails after it has paid")) } else { Ok(paid) }
}
"#;

/// It is called if it lets the other tenant in, and what it changes is its own.
#[test]
fn functions_call_those_of_other_tenants_that_let_them_in() {
    let stack = Stack::start();
    let created = stack.cli(["token", "create", "bank-ci", "--role", "deployer", "--tenant", "bank"]).ok();
    let bank = created.stdout.trim();
    let _ = stack.cli(["resource", "create", "ledger", "--kind", "kv"]).ok();
    let _ = stack.cli(["resource", "grant", "ledger", "--tenant", "bank", "--access", "write"]).ok();
    let deploy_pay = |callers: &str| {
        let bindings = "[package.metadata.mfaas.bindings.ledger]\nkind = \"kv\"\naccess = \"write\"\n";
        let more = format!(
            "[package.metadata.mfaas]\naccess = \"tenant\"\ncallers = {callers}\n{bindings}{DEPENDENCY}"
        );
        let pay = package("pay", PAY, &more);
        let _ = stack.cli_with(["deploy", pay.path().to_str().unwrap()], &[("MFAAS_TOKEN", bank)]).ok();
    };
    let bindings = "[package.metadata.mfaas.bindings.pay]\nkind = \"function\"\nfunction = \"bank/pay\"\n";
    let order = package("order", ORDER, &format!("{bindings}{DEPENDENCY}"));
    let refused = || {
        let report = stack.cli(["deploy", "--json", order.path().to_str().unwrap()]).exits(3).json();
        let diagnostic = &report["diagnostics"][0];
        (diagnostic["code"].to_string(), diagnostic["message"].to_string())
    };
    let absent = refused();
    assert_eq!(absent.0, "\"MF1219\"");
    deploy_pay("[]");
    assert_eq!(refused(), absent, "one that is there and lets nobody in is answered as one that is not");
    deploy_pay("[\"default\"]");
    let deployed = stack.deploy(order.path()).ok();
    assert!(deployed.stderr.contains("now also calls `bank/pay`"), "{}", deployed.stderr);
    assert_eq!(stack.cli(["graph", "order"]).ok().stdout, "order\n  bank/pay (of another tenant)\n");
    let versions = stack.cli_with(["versions", "pay"], &[("MFAAS_TOKEN", bank)]).ok();
    assert!(versions.stdout.contains("tenant, functions of default"), "{}", versions.stdout);

    let call = |body: &str| {
        let url = format!("{}/f/default/order", stack.ingress());
        stack.request("POST", &url, &[], body.as_bytes().to_vec())
    };
    assert_eq!(call("one").text(), "1 by default/function/order");
    assert_eq!(call("fail").status, 500);
    assert_eq!(
        call("one").text(),
        "3 by default/function/order",
        "what it did stays, whatever comes of its caller"
    );
    // Nobody else can say that it is that function.
    let forged = ["token", "create", "function/order", "--call", "order"];
    assert!(stack.cli(forged).exits(1).stderr.contains("callers that are no tokens"));
    // It closes while its caller is deployed.
    deploy_pay("[\"shop\"]");
    assert_eq!(call("one").text(), "Some(1210)");
}

const SHOUT: &str = r#"
use mfaas::{Error, Json};

pub fn handle(Json(text): Json<String>) -> Result<Json<String>, Error> {
    match &*text {
        "panic" => panic!("too loud"),
        "loop" => loop {
            std::hint::black_box(0);
        },
        "log" => mfaas::log!("somebody shouts"),
        "fail" => return Err(Error::new("no voice")),
        _ => {}
    }
    Ok(Json(text.to_uppercase()))
}
"#;

const GREET: &str = r#"
use mfaas::{Call, Callee, Error};

pub struct Shout;

impl Callee for Shout {
    const NAME: &'static str = "shout";
    type Request = String;
    type Response = String;
}

pub async fn handle(body: String, shout: Call<Shout>) -> Result<String, Error> {
    let mine: Vec<String> = (0..20).map(|n| format!("{body}{n}")).collect();
    let heard = match shout.call(&body).await {
        Ok(heard) => heard,
        Err(error) => format!("{:?} {:?}", error.code(), error.status()),
    };
    let all = mfaas::join_all(mine.iter().map(|word| shout.call(word)));
    let all: Vec<String> = all.await.into_iter().filter_map(Result::ok).collect();
    let is_whole = all.iter().zip(&mine).all(|(one, word)| *one == word.to_uppercase());
    Ok(format!("{heard} and {} {is_whole}", all.len()))
}
"#;

/// Where a function that only answers is called, and what it does otherwise, its caller does not notice.
#[test]
fn a_function_that_only_answers_is_called_where_its_caller_is() {
    let stack = Stack::start();
    let budget = |of: &str| format!("[package.metadata.mfaas]\nbudget = \"{of}\"\n");
    let shout = package("shout", SHOUT, &format!("{}{DEPENDENCY}", budget("2ms")));
    let _ = stack.deploy(shout.path()).ok();
    let calls = "[package.metadata.mfaas.bindings.shout]\nkind = \"function\"\n";
    let _ =
        stack.deploy(package("greet", GREET, &format!("{}{calls}{DEPENDENCY}", budget("50ms"))).path()).ok();
    let greet = |body: &str| {
        let url = format!("{}/f/default/greet", stack.ingress());
        stack.request("POST", &url, &[], body.as_bytes().to_vec()).text()
    };
    let counted = |series: &str, label: &str| {
        let metrics = stack.request("GET", &format!("{}/metrics", stack.ingress()), &[], vec![]).text();
        let of_shout = format!("mfaas_function_{series}{{tenant=\"default\",function=\"shout\"{label}}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&of_shout));
        value.map_or(0, |value| value.parse::<u64>().unwrap())
    };
    for _ in 0..50 {
        assert_eq!(greet("hello"), "HELLO and 20 true");
    }
    // Each counts once, however it was called; a caller that outgrows its memory begins anew.
    let calls = counted("run_seconds_count", "");
    assert!((50 * 21..53 * 21).contains(&calls), "{calls}");
    assert_eq!(greet("fail"), "None Some(500) and 20 true");
    assert_eq!(greet("panic"), "Some(1210) None and 20 true");
    assert_eq!(greet("loop"), "Some(1210) None and 20 true");
    assert_eq!(greet("hello"), "HELLO and 20 true");
    assert_eq!(greet("log"), "LOG and 20 true");
    assert_eq!(greet("log"), "LOG and 20 true");
    let kills = ["panicked", "over_budget"].map(|why| counted("kills_total", &format!(",reason=\"{why}\"")));
    assert_eq!(kills, [1, 1], "each once, though they were tried twice");
    let lines = mfaas_harness::wait_for("log lines", std::time::Duration::from_secs(20), || {
        let lines = stack.cli(["logs", "shout"]).ok().stdout;
        (lines.matches("somebody shouts").count() >= 2).then_some(lines)
    });
    assert_eq!(lines.matches("somebody shouts").count(), 2, "{lines}");
}
