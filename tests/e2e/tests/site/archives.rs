//! Uploads that no directory can hold, and doors that must stay shut.

use mfaas_harness::{Archive, Stack, package};
use tar::EntryType;

#[test]
fn archives_and_doors() {
    let stack = Stack::start();
    refused_archives(&stack);
    too_large(&stack);
    wrong_tokens(&stack);
    other_tenants_see_nothing(&stack);
    idempotency(&stack);
    host_names(&stack);
    stack.invariants();
}

fn refused_archives(stack: &Stack) {
    let with = |change: fn(&mut Archive)| {
        let mut archive = Archive::with_function();
        change(&mut archive);
        archive.finish()
    };
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        (
            "traversal",
            "MF0105",
            with(|a| {
                a.file("../escape", b"x");
            }),
        ),
        (
            "absolute",
            "MF0105",
            with(|a| {
                a.file("/etc/escape", b"x");
            }),
        ),
        (
            "symlink",
            "MF0106",
            with(|a| {
                a.entry(EntryType::Symlink, "src/passwd", Some("/etc/passwd"), b"");
            }),
        ),
        (
            "hard link",
            "MF0106",
            with(|a| {
                a.entry(EntryType::Link, "src/passwd", Some("/etc/passwd"), b"");
            }),
        ),
        (
            "device",
            "MF0106",
            with(|a| {
                a.entry(EntryType::Char, "src/null", None, b"");
            }),
        ),
        (
            "twins",
            "MF0107",
            with(|a| {
                a.file("src/LIB.rs", b"");
            }),
        ),
        ("100,000 empty files", "MF0104", {
            let mut archive = Archive::with_function();
            for number in 0..100_000 {
                archive.file(&format!("src/empty{number}"), b"");
            }
            archive.finish()
        }),
        ("no manifest", "MF0108", {
            let mut archive = Archive::default();
            archive.file("src/lib.rs", b"");
            archive.finish()
        }),
        (
            "bomb",
            "MF0103",
            with(|a| {
                a.file("src/zeros", &vec![0; 80 << 20]);
            }),
        ),
        ("not an archive", "MF0102", b"PK\x03\x04 this is no tar".to_vec()),
        ("trailing bytes", "MF0102", {
            let mut bytes = Archive::with_function().finish();
            bytes.extend_from_slice(b"more");
            bytes
        }),
        ("truncated", "MF0102", {
            let mut bytes = Archive::with_function().finish();
            bytes.truncate(bytes.len() - 10);
            bytes
        }),
    ];
    for (name, code, bytes) in cases {
        let view = stack.settled(&stack.upload("archived", bytes));
        assert_eq!(view["state"], "refused", "{name}: {view}");
        assert_eq!(view["diagnostics"][0]["code"], code, "{name}: {view}");
        assert_eq!(view["diagnostics"][0]["layer"], "archive", "{name}: {view}");
    }
    let view = stack.settled(&stack.upload("archived", Archive::with_function().finish()));
    assert_eq!(view["state"], "admitted", "{view}");
}

fn too_large(stack: &Stack) {
    let answer = stack.api("POST", "/v1/functions/large/deployments", vec![0; 11 << 20]);
    assert_eq!((answer.status, answer.code().as_str()), (413, "MF0101"));
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    let problem = answer.json();
    for key in ["title", "detail", "hint", "request_id"] {
        assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {problem}");
    }
    let mut sql = stack.sql();
    let rows: i64 =
        sql.query_one("SELECT count(*) FROM deployments WHERE function = 'large'", &[]).unwrap().get(0);
    assert_eq!(rows, 0);
}

fn wrong_tokens(stack: &Stack) {
    let bundle = Archive::with_function().finish();
    for header in ["", "Bearer nonsense", "Bearer mfaas_00000000-0000-0000-0000-000000000000_x", "Basic YTpi"]
    {
        let url = format!("{}/v1/functions/door/deployments", stack.server());
        let answer = stack.request("POST", &url, &[("authorization", header)], bundle.clone());
        assert_eq!((answer.status, answer.code().as_str()), (401, "MF0901"), "{header}");
    }
    let package = package("door", "pub fn handle(r: &[u8]) -> Vec<u8> {\n    r.to_vec()\n}\n", "");
    let arguments = ["deploy", package.path().to_str().unwrap()];
    let run = stack.cli_with(arguments, &[("MFAAS_TOKEN", "mfaas_wrong")]).exits(4);
    assert!(run.stderr.contains("MF0901"), "{}", run.stderr);
}

/// A token for another tenant.
fn other_token(stack: &Stack, scopes: &str) -> String {
    let run = stack.cli(["token", "create", "other", "--tenant", "other", "--scopes", scopes, "--json"]).ok();
    let created = run.json();
    created["secret"].as_str().or(created["token"].as_str()).unwrap_or_else(|| panic!("{created}")).to_owned()
}

fn other_tenants_see_nothing(stack: &Stack) {
    let header = format!("Bearer {}", other_token(stack, "read,deploy"));
    let ask = |method: &str, path: &str, body: &[u8]| {
        stack.request(
            method,
            &format!("{}{path}", stack.server()),
            &[("authorization", &header), ("content-type", "application/json")],
            body.to_vec(),
        )
    };
    let mut sql = stack.sql();
    let id: String = sql
        .query_one("SELECT id::text FROM deployments WHERE function = 'archived' AND state = 'admitted'", &[])
        .unwrap()
        .get(0);
    let digest: String =
        sql.query_one("SELECT artifact FROM versions WHERE function = 'archived'", &[]).unwrap().get(0);
    for path in [
        "/v1/functions/archived".to_owned(),
        "/v1/functions/archived/versions".to_owned(),
        "/v1/functions/archived/aliases".to_owned(),
        "/v1/functions/archived/logs".to_owned(),
        format!("/v1/deployments/{id}"),
        format!("/v1/deployments/{id}/events"),
        format!("/v1/artifacts/{digest}"),
        format!("/v1/artifacts/{digest}/statement"),
    ] {
        let answer = ask("GET", &path, b"");
        assert_eq!((answer.status, answer.code().as_str()), (404, "MF0903"), "{path}");
    }
    let moved = ask("PUT", "/v1/functions/archived/aliases/live", b"{\"version\":1}");
    assert_eq!((moved.status, moved.code().as_str()), (404, "MF0903"));
    let deleted = ask("DELETE", "/v1/functions/archived", b"");
    assert_eq!((deleted.status, deleted.code().as_str()), (404, "MF0903"));
    let nodes = ask("GET", "/v1/nodes", b"");
    assert_eq!((nodes.status, nodes.code().as_str()), (403, "MF0902"));
    // The same name is free for another tenant.
    let _ = stack
        .cli_with(
            [
                "deploy",
                package(
                    "archived",
                    "pub fn handle(_: &[u8]) -> Vec<u8> {\n    b\"theirs\".to_vec()\n}\n",
                    "",
                )
                .path()
                .to_str()
                .unwrap(),
            ],
            &[("MFAAS_TOKEN", header.trim_start_matches("Bearer ")), ("MFAAS_TENANT", "other")],
        )
        .ok();
    let theirs = stack.request("POST", &format!("{}/f/other/archived", stack.ingress()), &[], b"x".to_vec());
    let ours = stack.request("POST", &format!("{}/f/default/archived", stack.ingress()), &[], b"x".to_vec());
    assert_eq!((theirs.text().as_str(), ours.text().as_str()), ("theirs", "x"));
}

/// One admission per key, the same answer for a repeat, a refusal for another body.
fn idempotency(stack: &Stack) {
    let token = format!("Bearer {}", stack.token());
    let url = format!("{}/v1/functions/twice/deployments", stack.server());
    let send = |bytes: Vec<u8>| {
        stack.request("POST", &url, &[("authorization", &token), ("idempotency-key", "one-key")], bytes)
    };
    let bundle = Archive::with_function().finish();
    let (first, second) = (send(bundle.clone()), send(bundle));
    assert_eq!((first.status, second.status), (202, 202), "{} {}", first.text(), second.text());
    assert_eq!(first.json()["deployment"]["id"], second.json()["deployment"]["id"]);
    let mut other = Archive::with_function();
    other.file("src/more.rs", b"");
    let conflict = send(other.finish());
    assert_eq!((conflict.status, conflict.code().as_str()), (422, "MF0905"));
}

fn host_names(stack: &Stack) {
    let answer = stack.request(
        "GET",
        &format!("{}/v1/functions", stack.server()),
        &[("host", "evil.example")],
        vec![],
    );
    assert_eq!((answer.status, answer.code().as_str()), (421, "MF0906"));
}
