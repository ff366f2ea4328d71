//! Who may call, with the site's default as it is and tokens as the server issues them.

use std::time::Duration;

use mfaas_harness::{Answer, Stack, package, wait_for};
use serde_json::{Value, json};

/// Answers with the name of its caller.
const WHO: &str = "use mfaas::{Request, Response};\n\npub fn handle(request: Request) -> Response {\n    \
                   let seen: Vec<&str> = request.headers().map(|(name, _)| name).filter(|name| name.contains(\"auth\") || name.contains(\"mfaas\")).collect();\n    \
                   Response::text(format!(\"{:?} {}\", request.caller(), seen.join(\",\")))\n}\n";

#[test]
fn callers_show_tokens_unless_the_function_is_public() {
    let stack = Stack::start_with(&[]);
    for (name, manifest) in [
        ("silent", ""),
        ("public", "[package.metadata.mfaas]\naccess = \"public\"\n\n"),
        ("named", "[package.metadata.mfaas]\naccess = \"token\"\n\n"),
    ] {
        let manifest = format!("{manifest}[dependencies]\nmfaas = \"0.1\"\n");
        let _ = stack.deploy(package(name, WHO, &manifest).path()).ok();
    }
    what_is_signed_and_shown(&stack);
    without_a_token(&stack);
    with_tokens(&stack);
    what_is_refused(&stack);
    beyond_the_share(&stack);
    schedules_call(&stack);
    tokens_are_revoked(&stack);
    keys_rotate(&stack);
    stack.invariants();
}

fn call(stack: &Stack, function: &str, headers: &[(&str, &str)]) -> Answer {
    stack.request("POST", &format!("{}/f/default/{function}", stack.ingress()), headers, Vec::new())
}

fn with(stack: &Stack, function: &str, token: &str) -> Answer {
    call(stack, function, &[("authorization", &format!("Bearer {token}"))])
}

/// `mfaas token create` with these arguments.
fn token(stack: &Stack, arguments: &str) -> String {
    let arguments = ["token", "create"].into_iter().chain(arguments.split_whitespace());
    stack.cli(arguments).ok().stdout.trim().to_owned()
}

fn what_is_signed_and_shown(stack: &Stack) {
    for (name, access) in [("silent", "tenant"), ("public", "public"), ("named", "token")] {
        let proof = stack.cli(["verify", name, "--json"]).ok().json();
        let shown = stack.cli(["versions", name, "--json"]).ok().json();
        assert_eq!((&proof["access"], &shown["items"][0]["access"]), (&json!(access), &json!(access)));
    }
    let wrong = package("wrong", WHO, "[package.metadata.mfaas]\naccess = \"everybody\"\n");
    let report = stack.cli(["deploy", "--json", wrong.path().to_str().unwrap()]).exits(3).json();
    assert_eq!(report["diagnostics"][0]["code"], "MF0207", "{report}");
    assert_eq!(report["diagnostics"][0]["span"]["line"], 7, "{report}");
}

fn without_a_token(stack: &Stack) {
    let answer =
        call(stack, "public", &[("mfaas-caller", "default/admin"), ("Mfaas_Caller", "default/admin")]);
    assert_eq!((answer.status, answer.text().as_str()), (200, "None "));
    for name in ["silent", "named", "missing"] {
        let answer = call(stack, name, &[]);
        assert_eq!((answer.status, answer.code().as_str()), (401, "MF0816"), "{name}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer", "{name}");
    }
}

fn with_tokens(stack: &Stack) {
    let shop = token(stack, "shop --call silent,named");
    for name in ["silent", "named", "public"] {
        let answer = with(stack, name, &shop);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "Some(\"default/shop\") mfaas-caller"),
            "{name}"
        );
    }
    let all = token(stack, "shop --call *");
    assert_eq!(with(stack, "silent", &all).status, 200);
    assert_eq!(with(stack, "named", &all).code(), "MF0801", "it has to be named");
    // The command gets a token by itself, for whoever may deploy, and calls as nobody otherwise.
    for name in ["silent", "named", "public"] {
        assert!(stack.invoke(name, "").ok().stdout.starts_with("Some(\"default/"), "{name}");
    }
    let viewer = token(stack, "looks --role viewer");
    let as_viewer =
        |name| stack.cli_with(["invoke", name, "--data", ""], &[("MFAAS_TOKEN", viewer.as_str())]);
    assert_eq!(as_viewer("public").ok().stdout, "None ");
    let refused = as_viewer("silent");
    assert!(refused.code != 0 && refused.stderr.contains("MF0816"), "{refused:?}");
    assert!(refused.stderr.contains("mfaas token create --call"), "{refused:?}");
}

fn schedules_call(stack: &Stack) {
    let set = ["schedule", "set", "named", "nightly", "--cron", "0 3 * * *", "--data", "all"];
    assert!(stack.cli(set).ok().stdout.contains("named is called by nightly next at 2"), "it says when");
    let _ = stack.sql().execute("UPDATE schedules SET due_at = now()", &[]).unwrap();
    let item = wait_for("the call of a schedule", Duration::from_secs(30), || {
        let page = stack.cli(["schedule", "list", "named", "--json"]).ok().json();
        let item = page["items"][0].clone();
        item["last"]["ended_at"].is_string().then_some(item)
    });
    assert_eq!(
        (&item["last"]["outcome"], &item["last"]["status"]),
        (&json!("answered"), &json!(200)),
        "{item}"
    );
    assert!(stack.cli(["schedule", "list", "named"]).ok().stdout.contains("answered 200"));
    let bad = stack.cli(["schedule", "set", "named", "nightly", "--cron", "every night"]);
    assert!(bad.code != 0 && bad.stderr.contains("MF0904") && bad.stderr.contains("0 3 * * *"), "{bad:?}");
    let _ = stack.cli(["schedule", "delete", "named", "nightly"]).ok();
    assert!(stack.cli(["schedule", "list", "named"]).ok().stdout.contains("named has no schedule"));
}

fn what_is_refused(stack: &Stack) {
    let other = token(stack, "shop --call other");
    let _ = token(stack, "umbrella-ci --role deployer --tenant umbrella");
    let stranger = token(stack, "shop --call * --tenant umbrella");
    for text in [&other, &stranger] {
        for name in ["silent", "named", "missing"] {
            let answer = with(stack, name, text);
            assert_eq!((answer.status, answer.code().as_str()), (403, "MF0817"), "{name}");
        }
        assert_eq!(with(stack, "public", text).status, 200);
    }
    let brief = token(stack, "shop --call silent --ttl 1s");
    let expired = wait_for("the token's end", Duration::from_secs(5), || {
        let answer = with(stack, "silent", &brief);
        (answer.status != 200).then_some(answer)
    });
    assert_eq!((expired.status, expired.code().as_str()), (401, "MF0816"));
    let good = token(stack, "shop --call silent");
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJ0ZW5hbnQiOiJkZWZhdWx0In0.".to_owned();
    for forged in [none, good.replacen("v4.public.e", "v4.public.f", 1), stack.token()] {
        for name in ["silent", "public"] {
            let answer = with(stack, name, &forged);
            assert_eq!((answer.status, answer.code().as_str()), (401, "MF0816"), "{forged}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer error=\"invalid_token\"");
        }
    }
}

fn beyond_the_share(stack: &Stack) {
    let slow = token(stack, "slow --call silent --rate 1");
    assert_eq!(with(stack, "silent", &slow).status, 200);
    let refused: Vec<Answer> = (0..5).map(|_| with(stack, "silent", &slow)).collect();
    let refused = refused.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!((refused.code().as_str(), refused.headers["retry-after"].as_str()), ("MF0818", "1"));
}

/// A call token of `shop` for `silent`, and its id.
fn named_token(stack: &Stack) -> (String, String) {
    let created = stack.cli(["token", "create", "shop", "--call", "silent", "--json"]).ok().json();
    let text = |field: &str| created[field].as_str().unwrap().to_owned();
    (text("token"), text("id"))
}

fn tokens_are_revoked(stack: &Stack) {
    let ((one, id), (two, _)) = (named_token(stack), named_token(stack));
    let status = |token: &str| with(stack, "silent", token).status;
    assert_eq!((status(&one), status(&two)), (200, 200));
    let refused = |token: &str| {
        wait_for("the set that revokes the token", Duration::from_secs(20), || {
            let answer = with(stack, "silent", token);
            (answer.status != 200).then_some(answer)
        })
    };
    let told = stack.cli(["token", "revoke", &id, "--call"]).ok().stdout;
    assert!(told.contains(&id) && told.contains("shop"), "{told}");
    let answer = refused(&one);
    assert_eq!((answer.status, answer.code().as_str()), (401, "MF0920"));
    assert_eq!(answer.headers["www-authenticate"], "Bearer error=\"invalid_token\"");
    assert_eq!(with(stack, "public", &one).code(), "MF0920");
    assert_eq!(status(&two), 200, "the other one of the same caller goes on");
    let list = stack.cli(["token", "list", "--call"]).ok().stdout;
    let line = list.lines().find(|line| line.contains(&id)).unwrap();
    assert!(line.trim_end().ends_with("revoked"), "{list}");
    // Once more is no other answer; what nobody issued is not there.
    let _ = stack.cli(["token", "revoke", &id, "--call"]).ok();
    let missing = stack.cli(["token", "revoke", "0193a5d0-0000-7000-8000-000000000001", "--call"]);
    assert!(missing.code != 0 && missing.stderr.contains("MF0903"), "{missing:?}");

    let (three, _) = named_token(stack);
    let told = stack.cli(["token", "revoke", "--caller", "shop"]).ok().stdout;
    assert!(told.contains("default/shop"), "{told}");
    for token in [&two, &three] {
        assert_eq!(refused(token).code(), "MF0920");
    }
    let new = token(stack, "shop --call silent");
    assert_eq!(status(&new), 200, "what is issued afterwards counts");
    assert_eq!(status(&one), 401);
    let unknown = stack.cli(["token", "revoke", "--caller", "nobody"]);
    assert!(unknown.code != 0 && unknown.stderr.contains("MF0903"), "{unknown:?}");
    let rows: Value = stack.api("GET", "/v1/audit?limit=1000", Vec::new()).json();
    let revoked = |action: &str, subject: &str| {
        let rows = rows["items"].as_array().unwrap().iter();
        rows.filter(|row| row["action"] == action && row["subject"] == subject).count()
    };
    assert_eq!(
        (revoked("call_token.revoked", &id), revoked("call_tokens.revoked", "shop")),
        (1, 1),
        "{rows}"
    );
}

fn keys_rotate(stack: &Stack) {
    let before = token(stack, "shop --call silent");
    let key = |stack: &Stack| {
        let created =
            stack.api("POST", "/v1/call-tokens", json!({"functions": ["silent"]}).to_string().into());
        created.json()["key_id"].as_str().unwrap().to_owned()
    };
    let first = key(stack);
    let second = stack.cli(["token", "rotate-key"]).ok().stdout.trim().to_owned();
    assert_ne!(first, second);
    assert_eq!(key(stack), first, "nodes get a minute to hear of it");
    assert_eq!(with(stack, "silent", &before).status, 200, "until the last token of its key is over");
    let third = stack.cli(["token", "rotate-key", "--leaked"]).ok().stdout.trim().to_owned();
    assert_eq!(key(stack), third, "used at once");
    let answer = wait_for("the set without the leaked keys", Duration::from_secs(20), || {
        let answer = with(stack, "silent", &before);
        (answer.status != 200).then_some(answer)
    });
    assert_eq!(answer.code(), "MF0816");
    let new = token(stack, "shop --call silent");
    assert_eq!(with(stack, "silent", &new).status, 200);
    let rows: Value = stack.api("GET", "/v1/audit?limit=1000", Vec::new()).json();
    let made = rows["items"].as_array().unwrap().iter().filter(|row| row["action"] == "call_key.made");
    assert!(made.count() >= 3, "{rows}");
}
