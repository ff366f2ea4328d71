//! The page of a function: who may call it, and the form that does.

use std::collections::BTreeMap;

use chrono::Utc;
use mfaas_attest::{
    Admission, BuildDefinition, BuildMetadata, Builder, DecisionUsed, Declared, Fields, PrivateKey,
    Provenance, ResourceDescriptor, RunDetails, SandboxLevel, Statement, sign,
};
use mfaas_ident::{
    Access, Budget, Digest, HandlerPath, MemoryLimit, Role, Scope, ToolchainId, VersionNumber,
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::console::{csrf_of, page, sign_in};
use crate::nodes::listening_node;
use crate::support::{Answer, Server, admitted_version};

/// A signed statement about version 1 of a function of tenant `a`.
fn statement(function: &str, access: Access) -> String {
    signed(admission(function, access))
}

fn signed(admission: Admission) -> String {
    let envelope = sign(&Statement::new(admission), &[&PrivateKey::generate().unwrap()]).unwrap();
    String::from_utf8(envelope).unwrap()
}

fn admission(function: &str, access: Access) -> Admission {
    let artifact = Digest::of(b"so");
    Admission {
        tenant: "a".parse().unwrap(),
        function: function.parse().unwrap(),
        version: VersionNumber::FIRST,
        deployment: "00000000-0000-4000-8000-000000000000".parse().unwrap(),
        artifact,
        artifact_bytes: 2,
        handler: HandlerPath::parse("handle").unwrap(),
        budget_us: Budget::DEFAULT,
        memory_bytes: MemoryLimit::DEFAULT,
        declared: Some(Declared { access: None, ..Declared::default() }),
        fields: Some(Fields::new(access)),
        source_upload: Digest::of(b"tar"),
        source_tree: Digest::of(b"tree"),
        toolchain: ToolchainId(Digest::of(b"rustc")),
        abi_version: 1,
        lints: Vec::new(),
        policy_version: 1,
        policy_revision: "r".to_owned(),
        decisions: Vec::new(),
        elf_facts: Digest::of(b"facts"),
        sandbox_level: SandboxLevel::Full,
        checks: Vec::new(),
        bindings: Vec::new(),
        calls: Vec::new(),
        provenance: Provenance {
            build_definition: BuildDefinition {
                build_type: Provenance::BUILD_TYPE.to_owned(),
                external_parameters: BTreeMap::new(),
                internal_parameters: BTreeMap::new(),
                resolved_dependencies: vec![ResourceDescriptor::sha256("mfaas:source-upload", &artifact)],
            },
            run_details: RunDetails {
                builder: Builder { id: Provenance::BUILDER_ID.to_owned() },
                metadata: BuildMetadata {
                    invocation_id: "x#1".to_owned(),
                    started_on: Utc::now(),
                    finished_on: Utc::now(),
                },
            },
        },
    }
}

#[tokio::test]
async fn the_page_says_who_may_call_in_the_words_of_the_signed_statement() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let created = server.upload("hello", &token, vec![1]).await.json();
    let cookie = sign_in(&server, &token).await;
    let body = page(&server, "/functions/hello", &cookie).await.body;
    assert!(body.contains("Nobody: no version is live."), "{body}");
    admitted_version(
        &server.db,
        "a",
        "hello",
        created["deployment"]["id"].as_str().unwrap(),
        &"a".repeat(64),
    );
    let shown = async |envelope: String| {
        server.db.sql(&format!("UPDATE statements SET envelope = '{}'", envelope.replace('\'', "''")));
        page(&server, "/functions/hello", &cookie).await.body
    };
    // The row says `tenant`; what is signed counts.
    for (access, word, meaning) in [
        (Access::Public, "public", "Anybody who reaches a node"),
        (Access::Tenant, "tenant", "or all of them (*)."),
        (Access::Token, "token", "one for all (*) is not enough"),
    ] {
        let body = shown(statement("hello", access)).await;
        assert!(body.contains(&format!("access = \"{word}\"</code>")) && body.contains(meaning), "{body}");
    }
    for foreign in [statement("other", Access::Public), "{}".to_owned()] {
        let body = shown(foreign).await;
        assert!(body.contains("cannot be read: nodes refuse") && !body.contains("access = \""), "{body}");
    }
}

/// A server with a live function of tenant `a`, and what is asked of its one node, which answers `answer` once.
async fn with_node(answer: Vec<u8>) -> (Server, tokio::task::JoinHandle<String>) {
    let server = Server::start().await;
    let deployer = server.token_of("a", Role::Deployer).await;
    server.admitted("a", "hello", &deployer).await;
    let listener = listening_node(&server).await;
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"the body") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request ends early");
        }
        stream.write_all(&answer).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    (server, asked)
}

async fn call(server: &Server, token: &str, fields: &[(&str, &str)]) -> Answer {
    let cookie = sign_in(server, token).await;
    let csrf = csrf_of(&page(server, "/functions/hello", &cookie).await.body);
    let mut form = vec![("csrf", csrf.as_str()), ("method", "POST"), ("version", ""), ("query", "")];
    form.extend([("headers", ""), ("body", "the body")]);
    form.retain(|(name, _)| !fields.iter().any(|(other, _)| other == name));
    form.extend(fields);
    let request = server.request("POST", "/functions/hello/calls", "").header("cookie", cookie).form(&form);
    server.send(request).await
}

#[tokio::test]
async fn a_deployer_calls_the_function_and_reads_the_answer_as_text() {
    let answer = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/elsewhere\r\nmfaas-version: 1\r\nmfaas-start: warm\r\n\
                  server-timing: queue;dur=0.020, run;dur=1.5000\r\nx-fn-a: <img src=x>\r\ncontent-length: 36\r\n\r\n\
                  <script>alert(1)</script>\u{1b}[2J\u{202e}end";
    assert_eq!(answer.split("\r\n\r\n").nth(1).unwrap().len(), 35);
    let (server, asked) = with_node(answer.replace("length: 36", "length: 35").into_bytes()).await;
    let deployer = server.token_of("a", Role::Deployer).await;
    let fields = [("version", "next"), ("query", "a=1&b= #x"), ("headers", "X-Own: yes")];
    let page = call(&server, &deployer, &fields).await;
    assert_eq!(page.status, 200, "{page:?}");
    let request = asked.await.unwrap();
    assert!(request.starts_with("POST /f/a/hello@next?a=1&b=%20%23x HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("x-own: yes\r\n"), "{request}");
    let token = request.split("authorization: Bearer ").nth(1).unwrap().split("\r\n").next().unwrap();
    // The redirect was not followed, and nothing of the answer is markup.
    for shown in
        ["302 Found", "node-1", "warm", "queue;dur=0.020, run;dur=1.5000", "&#60;script&#62;alert(1)"]
    {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    assert!(
        page.body.contains("\\u{1b}[2J\\u{202e}end") && page.body.contains("x-fn-a: &#60;img src=x&#62;")
    );
    assert!(!page.body.contains("<script>") && !page.body.contains(['\u{1b}', '\u{202e}']));
    assert!(page.body.contains("value=\"a=1&#38;b= #x\""), "what was typed is kept: {}", page.body);
    assert!(!page.body.contains(token) && !page.body.contains("v4.public"), "the token is on the page");
    let log = server.get("/v1/audit?limit=1000", &server.token_of("a", Role::Admin).await).await.json();
    let row =
        log["items"].as_array().unwrap().iter().find(|row| row["action"] == "call_token.issued").unwrap();
    assert_eq!(row["detail"]["functions"], serde_json::json!(["hello"]));
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_cut() {
    let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_vec();
    answer.extend(vec![b'y'; 100_000]);
    let (server, asked) = with_node(answer).await;
    let page = call(&server, &server.token_of("a", Role::Deployer).await, &[]).await;
    asked.await.unwrap();
    assert_eq!(page.status, 200);
    assert!(page.body.contains("65536 bytes of text, the rest is left out"), "{}", page.body);
}

#[tokio::test]
async fn what_does_not_come_off_is_said_beside_what_was_typed() {
    let (server, asked) = with_node(Vec::new()).await;
    let deployer = server.token_of("a", Role::Deployer).await;
    let refused = call(&server, &deployer, &[("headers", "Authorization: Bearer mine")]).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.body.contains("this header is set by the server")
            && refused.body.contains("the body</textarea>")
    );
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled(), "a refused form was sent");
    let away = call(&server, &deployer, &[]).await;
    assert_eq!(away.status, 503, "{away:?}");
    assert!(away.body.contains("The node did not answer in time, or not at all."), "{}", away.body);
    // Viewers may issue no call token: they are told another way.
    let cookie = sign_in(&server, &server.token_of("a", Role::Viewer).await).await;
    let body = page(&server, "/functions/hello", &cookie).await.body;
    assert!(body.contains("mfaas invoke hello") && !body.contains("/calls?"), "{body}");
}

#[tokio::test]
async fn two_versions_are_compared_by_what_is_signed() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let mut ids = Vec::new();
    for n in [1, 2] {
        let created = server.upload("hello", &token, vec![n]).await.json();
        ids.push(created["deployment"]["id"].as_str().unwrap().to_owned());
    }
    admitted_version(&server.db, "a", "hello", &ids[0], &"a".repeat(64));
    let cookie = sign_in(&server, &token).await;
    let functions = page(&server, "/functions/hello", &cookie).await.body;
    assert!(!functions.contains("/comparison"), "one version has none to be compared with");
    let mut old = admission("hello", Access::Tenant);
    let used = |name: &str, version: &str| DecisionUsed {
        name: name.parse().unwrap(),
        version: version.to_owned(),
        checksum: Digest::of(name.as_bytes()).to_string(),
        decided_by: "seed".to_owned(),
    };
    old.decisions = vec![used("gone", "1.0.0"), used("kept", "1.1.1"), used("newer", "1.0.0")];
    let mut new = admission("hello", Access::Public);
    new.version = VersionNumber::parse("2").unwrap();
    new.decisions = vec![used("came", "0.3.0"), used("kept", "1.1.1"), used("newer", "2.0.0")];
    (new.artifact_bytes, new.source_tree) = (4_096, Digest::of(b"another"));
    let quoted = |said| signed(said).replace('\'', "''");
    server.db.sql(&format!(
        "UPDATE statements SET envelope = '{}';
         INSERT INTO artifacts (digest, bytes, toolchain) SELECT repeat('b', 64), 4096, toolchain FROM artifacts;
         INSERT INTO statements (digest, artifact, envelope) VALUES (repeat('6', 64), repeat('b', 64), '{}');
         UPDATE deployments SET state = 'building' WHERE id = '{id}';
         UPDATE deployments SET state = 'built' WHERE id = '{id}';
         UPDATE deployments SET state = 'admitted', version = 2 WHERE id = '{id}';
         INSERT INTO versions (tenant, function, version, deployment_id, artifact, statement, source_digest, handler,
                               budget_us, memory_bytes, toolchain, abi_version, policy_version, idempotent, isolation)
         SELECT tenant, function, 2, '{id}', repeat('b', 64), repeat('6', 64), source_digest, handler, budget_us,
                memory_bytes, toolchain, 1, 1, true, 'process' FROM versions",
        quoted(old),
        quoted(new),
        id = ids[1],
    ));
    let functions = page(&server, "/functions/hello", &cookie).await.body;
    assert!(functions.contains("action=\"/functions/hello/comparison\""), "{functions}");
    let body = page(&server, "/functions/hello/comparison?from=1&to=2", &cookie).await.body;
    let changed = "<td><span class=\"state wait\">";
    for row in [
        format!("Who may call</th><td>tenant</td><td>public</td>{changed}changed"),
        format!("Image</th><td>2 bytes</td><td>4096 bytes</td>{changed}changed"),
        format!(
            "Source</th><td>{}</td><td>{}</td>{changed}changed",
            Digest::of(b"tree").short(),
            Digest::of(b"another").short()
        ),
        "Memory</th><td>4MiB</td><td>4MiB</td><td><span class=\"quiet\">the same".to_owned(),
        format!("came</th><td class=\"mono\">–</td><td class=\"mono\">0.3.0</td>{changed}added"),
        format!("gone</th><td class=\"mono\">1.0.0</td><td class=\"mono\">–</td>{changed}removed"),
        format!("newer</th><td class=\"mono\">1.0.0</td><td class=\"mono\">2.0.0</td>{changed}changed"),
    ] {
        assert!(body.contains(&row), "{row}: {body}");
    }
    assert!(!body.contains("kept"), "what is the same is listed");
    let other = sign_in(&server, &server.token("b", &[Scope::Read]).await).await;
    for (cookie, query) in [(&cookie, "from=1&to=3"), (&other, "from=1&to=2")] {
        let path = format!("/functions/hello/comparison?{query}");
        assert_eq!(server.send(server.request("GET", &path, "").header("cookie", cookie)).await.status, 404);
    }
    server.db.sql("UPDATE statements SET envelope = '{}'");
    let body = page(&server, "/functions/hello/comparison?from=1&to=2", &cookie).await.body;
    assert!(body.contains("cannot be read: there is nothing to compare"), "{body}");
}
