//! Events of objects, from the commit of a call to the call that follows from it.

use std::time::Duration;

use mfaas_harness::{Answer, Stack, package, wait_for};
use serde_json::{Value, json};

/// Puts, deletes and shows objects.
const ALBUM: &str = r#"
use mfaas::{Binding, Error, Objects, Request, Response, Write};

pub struct Photos;

impl Binding for Photos {
    const NAME: &'static str = "photos";
    type Value = ();
}

pub async fn handle(request: Request, photos: Objects<Photos, Write>) -> Result<Response, Error> {
    let name = request.query().unwrap_or_default().to_owned();
    match request.method() {
        "PUT" => {
            photos.put(&name, request.body()).await?;
            match request.header("x-then") {
                Some(_) => Err(Error::new("it fails after it has put a photo")),
                None => Ok(Response::text("put")),
            }
        }
        "DELETE" => {
            photos.delete(&name).await?;
            Ok(Response::text("gone"))
        }
        _ => match photos.get(&name).await? {
            Some(photo) => Ok(Response::new(200).with_body(photo)),
            None => Ok(Response::new(404)),
        },
    }
}
"#;

/// Is called for changes: puts a derived object beside, and one where it is called for others.
const RESIZE: &str = r#"
use mfaas::{Binding, Error, Objects, Request, Response, Write};

pub struct Photos;

impl Binding for Photos {
    const NAME: &'static str = "photos";
    type Value = ();
}

pub async fn handle(request: Request, photos: Objects<Photos, Write>) -> Result<Response, Error> {
    let event = String::from_utf8_lossy(request.body()).into_owned();
    let what = if event.contains("\"event\":\"put\"") { "put" } else { "delete" };
    photos.put(format!("out/{what}"), format!("{} {event}", request.caller().unwrap_or("nobody"))).await?;
    photos.put("in/own", what).await?;
    Ok(Response::text("resized"))
}
"#;

const MANIFEST: &str = "[package.metadata.mfaas.bindings]\nphotos = { kind = \"object\", access = \"write\" }\n\n\
                        [dependencies]\nmfaas = \"0.1\"\n";

fn album(stack: &Stack, method: &str, name: &str, headers: &[(&str, &str)]) -> Answer {
    let url = format!("{}/f/default/album?{name}", stack.ingress());
    stack.request(method, &url, headers, b"a photo".to_vec())
}

/// The event that the derived object tells of, when it is there, and who called.
fn derived(stack: &Stack, what: &str) -> (String, Value) {
    let text = wait_for("the derived object", Duration::from_secs(60), || {
        let answer = album(stack, "GET", &format!("out/{what}"), &[]);
        (answer.status == 200).then(|| answer.text())
    });
    let (caller, event) = text.split_once(' ').unwrap();
    (caller.to_owned(), serde_json::from_str(event).unwrap())
}

fn listed(stack: &Stack) -> Value {
    stack.cli(["trigger", "list", "resize", "--json"]).ok().json()["items"][0].clone()
}

#[test]
fn an_object_that_changes_below_a_prefix_is_a_call_of_the_function() {
    let stack = Stack::start();
    let refused = stack.cli(["trigger", "set", "resize", "uploads", "--resource", "photos"]);
    assert!(refused.code != 0 && refused.stderr.contains("MF0903"), "{refused:?}");
    stack.grant("photos", "object", "write");
    for (name, source) in [("album", ALBUM), ("resize", RESIZE)] {
        let _ = stack.deploy(package(name, source, MANIFEST).path()).ok();
    }
    let set = ["trigger", "set", "resize", "uploads", "--resource", "photos", "--prefix", "in/"];
    assert!(stack.cli(set).ok().stdout.contains("resize is called by uploads for put,delete of photos/in/*"));

    assert_eq!(album(&stack, "PUT", "in/never.jpg", &[("x-then", "fail")]).status, 500);
    assert_eq!(album(&stack, "PUT", "elsewhere.jpg", &[]).status, 200);
    assert_eq!(album(&stack, "PUT", "in/cat.jpg", &[]).status, 200);
    let (caller, event) = derived(&stack, "put");
    assert_eq!(caller, "default/trigger/uploads");
    assert_eq!(
        (&event["resource"], &event["name"], &event["event"], &event["size"]),
        (&json!("photos"), &json!("in/cat.jpg"), &json!("put"), &json!(7))
    );
    assert_eq!(album(&stack, "DELETE", "in/cat.jpg", &[]).status, 200);
    let (_, deleted) = derived(&stack, "delete");
    assert_eq!((&deleted["name"], deleted.get("size")), (&json!("in/cat.jpg"), None));
    assert!(deleted["id"].as_i64() > event["id"].as_i64(), "{deleted}");
    let item = wait_for("both to be on record", Duration::from_secs(30), || {
        let item = listed(&stack);
        (item["delivered"] == 2).then_some(item)
    });
    // What it has put below its own prefix calls nobody, and what has failed neither.
    assert_eq!((&item["waiting"], &item["failed"], &item["dropped"]), (&json!(0), &json!(0), &json!(0)));
    assert_eq!(album(&stack, "GET", "in/own", &[]).status, 200);
    assert!(stack.cli(["trigger", "list", "resize"]).ok().stdout.contains("answered 200"));

    let forged = stack.cli(["token", "create", "trigger/uploads", "--call", "resize"]);
    assert!(forged.code != 0 && forged.stderr.contains("MF0904"), "{forged:?}");
    let _ = stack.cli(["trigger", "delete", "resize", "uploads"]).ok();
    assert!(stack.cli(["trigger", "list", "resize"]).ok().stdout.contains("resize has no trigger"));
    stack.invariants();
}
