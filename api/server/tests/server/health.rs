//! Readiness with its parts, and the numbers with their listener.

use std::time::{Duration, Instant};

use mfaas_ident::{Role, Scope};
use serde_json::{Value, json};

use crate::support::{Answer, Server, admitted_version};

const WAIT_MAX: Duration = Duration::from_secs(20);

/// What the server answers once that fits.
async fn wait_until(server: &Server, path: &str, fits: impl Fn(&Answer) -> bool) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = server.get(path, "").await;
        if fits(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < WAIT_MAX, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn soon() -> Server {
    Server::start_as(&[], |config| {
        config.parts_look_every = Duration::from_millis(50);
        config.stages_look_every = Duration::from_millis(50);
        config.stages_settle = Duration::ZERO;
        config.counts_life = Duration::ZERO;
    })
    .await
}

fn part<'a>(readiness: &'a Value, name: &str) -> &'a Value {
    let parts = readiness["parts"].as_array().unwrap();
    parts.iter().find(|part| part["name"] == name).unwrap()
}

#[tokio::test]
async fn without_a_database_a_server_is_not_ready_and_without_other_parts_it_is_degraded() {
    let server = soon().await;
    let alone = server.get("/readyz", "").await;
    assert_eq!(alone.status, 200);
    assert_eq!(alone.json()["status"], "degraded");
    assert_eq!(part(&alone.json(), "blobs"), &json!({"name": "blobs", "status": "ok"}));
    assert_eq!(part(&alone.json(), "builders")["cause"], "no builder was seen for half a minute");
    server.db.sql("INSERT INTO builders (instance) VALUES ('one')");
    assert_eq!(server.get("/readyz", "").await.json()["status"], "ok");
    server.db.sql("UPDATE builders SET unwell = '/srv/work: 5 bytes are free, 9 are needed'");
    let unwell = server.get("/readyz", "").await;
    assert_eq!(
        part(&unwell.json(), "builders")["cause"],
        "1 of 1 take no builds: 5 bytes are free, 9 are needed"
    );
    assert!(!unwell.body.contains("/srv"), "{}", unwell.body);

    server.db.sql("DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)");
    let answer = server.get("/readyz", "").await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "MF0910"));
    assert!(!answer.body.contains("migrations ["), "a cause reached the caller: {}", answer.body);
    assert_eq!(answer.header("retry-after"), "5");
}

/// No write reaches the store, and every read is answered.
#[tokio::test]
async fn a_blob_store_that_takes_no_bytes_is_a_degraded_part_until_it_does() {
    let server = soon().await;
    server.db.sql("INSERT INTO builders (instance) VALUES ('one')");
    let token = server.token_of("a", Role::Deployer).await;
    let (incoming, aside) = (server.dir().join("blobs/incoming"), server.dir().join("aside"));
    if incoming.exists() {
        std::fs::rename(&incoming, &aside).unwrap();
    }
    std::fs::write(&incoming, "in the way of every write").unwrap();
    let answer = wait_until(&server, "/readyz", |answer| answer.json()["status"] == "degraded").await;
    assert_eq!(answer.status, 200);
    let blobs = part(&answer.json(), "blobs").clone();
    assert_eq!(blobs["status"], "degraded");
    assert!(!blobs["cause"].as_str().unwrap().is_empty());
    assert!(
        !answer.body.contains(server.dir().to_str().unwrap()),
        "a path reached the caller: {}",
        answer.body
    );
    assert_eq!(part(&answer.json(), "builders")["status"], "ok");
    assert_eq!(server.get("/v1/functions", &token).await.status, 200, "it reads");
    assert_eq!(server.upload("hello", &token, vec![1; 10]).await.status, 503, "it cannot write");
    std::fs::remove_file(&incoming).unwrap();
    wait_until(&server, "/readyz", |answer| answer.json()["status"] == "ok").await;
    assert_eq!(server.upload("hello", &token, vec![1; 10]).await.status, 202);
}

#[tokio::test]
async fn operators_see_each_builder_with_its_cause_and_how_many_have_to_agree() {
    let server = soon().await;
    let operator = server.token_of("a", Role::Operator).await;
    let view = server.get("/v1/builders", &operator).await.json();
    assert_eq!(view, json!({"identities": 0, "builders": []}));
    server.db.sql("UPDATE agreement SET builders = 2");
    server.db.sql("INSERT INTO builders (instance) VALUES ('one'), ('two')");
    server.db.sql("UPDATE builders SET unwell = '/srv/work: no room' WHERE instance = 'two'");
    let view = server.get("/v1/builders", &operator).await.json();
    assert_eq!((&view["agreement"], &view["identities"]), (&json!(2), &json!(1)), "{view}");
    assert_eq!(view["builders"][1]["unwell"], "/srv/work: no room");
    let told = server.get("/readyz", "").await.json();
    let cause = part(&told, "builders")["cause"].as_str().unwrap().to_owned();
    assert!(cause.ends_with("2 with identities of their own have to agree, and 1 take builds"), "{cause}");
}

#[tokio::test]
async fn numbers_tell_of_requests_builds_stages_connections_and_the_process() {
    let server = soon().await;
    let token = server.token("a", &[Scope::Deploy]).await;
    let first = server.upload("hello", &token, vec![1; 10]).await;
    assert_eq!(first.status, 202);
    let id = first.json()["deployment"]["id"].as_str().unwrap().to_owned();
    server.db.sql(&format!(
        "INSERT INTO deployment_events (deployment_id, seq, body)
         VALUES ('{id}', 90, '{{\"stage\": \"compile\", \"kind\": \"finished\", \"wall_ms\": 1500}}')"
    ));
    admitted_version(&server.db, "a", "hello", &id, &"a".repeat(64));
    server.db.sql("UPDATE builds SET finished_at = now()");
    assert_eq!(server.upload("hello", &token, vec![2; 10]).await.status, 202);
    server.db.sql(
        "UPDATE builds SET queued_at = now() - interval '90 seconds', rounds = 1 WHERE finished_at IS NULL",
    );
    server.db.sql("UPDATE agreement SET builders = 3");
    server.db.sql("INSERT INTO builders (instance) VALUES ('one')");
    // All servers of this process share one recorder: what another one has counted is counted over by the next look.
    let expected = [
        "mfaas_deployments{state=\"received\"} 1",
        "route=\"/v1/functions/{name}/deployments\",method=\"POST\",status=\"202\"",
        "mfaas_build_stage_seconds_bucket{stage=\"compile\",le=\"1\"} 0",
        "mfaas_build_stage_seconds_bucket{stage=\"compile\",le=\"5\"} 1",
        "mfaas_builds_queued 1",
        "mfaas_builds_running 0",
        "mfaas_builds_awaiting_agreement 1",
        "mfaas_builds_oldest_queued_seconds 9",
        "mfaas_builds_agreement 3",
        "mfaas_builders_identities 1",
        "mfaas_database_connections{state=\"idle\"}",
        "mfaas_database_connections_max 16",
        "mfaas_blob_request_seconds_bucket{operation=\"publish\",le=\"60\"}",
        "mfaas_build_info{program=\"mfaas-server\",version=",
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
        "process_open_fds ",
        "process_max_fds ",
    ];
    let whole = |numbers: &Answer| expected.iter().all(|series| numbers.body.contains(series));
    let body = wait_until(&server, "/metrics", whole).await.body;
    assert!(!body.contains("hello"), "a label tells a tenant's name");
    for series in body.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = series.split(' ').nth(2).unwrap();
        assert!(body.contains(&format!("# HELP {name} ")), "{name} has no HELP");
    }
}

#[tokio::test]
async fn numbers_with_a_listener_of_their_own_are_nowhere_else() {
    let server = Server::start_with(&[("MFAAS_METRICS_LISTEN", "127.0.0.1:0")]).await;
    let numbers = server.numbers("/metrics", None).await;
    assert_eq!(numbers.status, 200);
    assert!(numbers.body.contains("mfaas_http_connections{listener=\"metrics\"}"), "{}", numbers.body);
    assert_eq!(numbers.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    for path in ["/healthz", "/readyz", "/v1/functions", "/", "/openapi.json"] {
        assert_eq!(server.numbers(path, None).await.status, 404, "{path}");
    }
    assert_eq!(server.numbers("/metrics", Some("evil.example")).await.status, 421, "a page of a stranger");
    assert_eq!(server.get("/metrics", "").await.status, 404);
    let description = server.get("/openapi.json", "").await.json();
    assert!(description["paths"]["/metrics"].is_null() && description["paths"]["/readyz"].is_object());
    // Off the loopback nobody knows under which names a scraper comes.
    let server = Server::start_with(&[("MFAAS_METRICS_LISTEN", "0.0.0.0:0")]).await;
    assert_eq!(server.numbers("/metrics", Some("server.monitoring.example")).await.status, 200);
}
