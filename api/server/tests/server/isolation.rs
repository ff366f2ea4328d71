//! Performance isolation: from the node listener to the API and the console, and from an operator to the nodes.

use std::time::Duration;

use mfaas_harness::{browse, demand_browser, pictures};
use mfaas_ident::Role;
use serde_json::{Value, json};

use crate::console::{page, sign_in};
use crate::nodes::{joined, post, report};
use crate::support::Server;

/// Time for a browser to look at two pages four times.
const LIMIT: Duration = Duration::from_secs(120);

fn told(controller: &Value, refused: &Value) -> Value {
    json!({ "protocol": 3, "controller": controller, "refused": refused, "from_a_later_node": true })
}

fn blind() -> Value {
    json!({
        "mode": "blind", "off": false, "cores": 8, "buffer_cores": 2, "idle_cores": 3, "secondary_cores": 5, "killed": 4,
        "used": {"interval_ms": 10_000, "primary_us": 4_200_000, "secondary_us": 30_000_000},
        "memory_bytes": 1_073_741_824, "revision": 7,
    })
}

#[tokio::test]
async fn what_a_machine_says_is_shown_and_what_the_site_wants_is_answered() {
    let server = Server::start().await;
    let node = joined(&server, "node-1").await;
    let url = server.node_url("/node/v1/isolation");
    assert_eq!(post(&node, &server.node_url("/node/v1/report"), &report(1, 0)).await.0, 204);
    let operator = server.token_of("b", Role::Operator).await;
    let shown = async || server.get("/v1/nodes", &operator).await.json()["items"][0]["isolation"].clone();
    assert_eq!(shown().await, Value::Null, "a node without a controller, or of the release before");

    let none = json!({"protocol": 2, "revision": 0, "settings": {}});
    assert_eq!(post(&node, &url, &told(&blind(), &Value::Null)).await, (200, none));
    let view = shown().await;
    let said = &view["controller"];
    assert_eq!(
        (&said["mode"], &said["primary_used_cores"], &said["secondary_used_cores"]),
        (&json!("blind"), &json!(0.42), &json!(3.0)),
        "{view}"
    );
    assert_eq!(
        (&said["idle_cores"], &said["killed"], &view["refused"]),
        (&json!(3), &json!(4), &Value::Null)
    );
    let mut impossible = blind();
    impossible["secondary_cores"] = json!(9);
    assert_eq!(post(&node, &url, &told(&impossible, &Value::Null)).await.1["code"], "MF0904");

    // An operator changes what is named; the nodes are told all of it.
    let put = async |token: &str, body: &Value| {
        server.send(server.request("PUT", "/v1/isolation", token).json(body)).await
    };
    let set = put(&operator, &json!({"mode": "real-time", "buffer_cores": 3})).await.json();
    let revision = set["revision"].as_u64().unwrap();
    assert!(set["set_by"].as_str().unwrap().starts_with("token:"), "{set}");
    let set = put(&operator, &json!({"off": true, "memory_bytes": 0})).await.json();
    let settings = json!({"off": true, "mode": "real-time", "buffer_cores": 3, "memory_bytes": 0});
    assert!(set["settings"] == settings && set["revision"].as_u64() > Some(revision), "{set}");
    assert_eq!(server.get("/v1/isolation", &operator).await.json(), set);
    let refused = json!({"revision": set["revision"], "code": "MF1103", "message": "3 buffer cores\u{1b}[2J<img src=x>"});
    let answer = post(&node, &url, &told(&Value::Null, &refused)).await.1;
    assert_eq!((&answer["revision"], &answer["settings"]), (&set["revision"], &settings));
    for wrong in [
        json!({}),
        json!({"mode": "polite"}),
        json!({"buffer_cores": 0}),
        json!({"buffer_cores": 1_025}),
        json!({"memory_bytes": -1}),
    ] {
        assert_eq!(put(&operator, &wrong).await.code(), "MF0904", "{wrong}");
    }
    let viewer = server.token_of("b", Role::Viewer).await;
    assert_eq!(put(&viewer, &json!({"off": true})).await.code(), "MF0902");
    let audit = "SELECT count(*) FROM audit_log WHERE action = 'isolation.set' AND actor LIKE 'token:%'";
    assert_eq!(server.db.sql(audit), "2");

    // The last word of the node: its controller is silent, and had refused before.
    let view = shown().await;
    assert_eq!((&view["controller"], &view["refused"]["code"]), (&Value::Null, &json!("MF1103")), "{view}");
    let history = server.get("/v1/nodes/node-1/isolation", &operator).await.json();
    assert_eq!(history["items"].as_array().unwrap().last(), Some(&view), "{history}");
    assert_eq!(server.get("/v1/nodes/node-9/isolation", &operator).await.code(), "MF0903");
    let cookie = sign_in(&server, &operator).await;
    let body = page(&server, "/nodes/node-1", &cookie).await.body;
    crate::support::hostile::assert_only_our_markup("/nodes/node-1", &body);
    for part in [
        "MF1103 3 buffer cores\\u{1b}[2J&#60;img",
        "the controller is silent",
        "real-time",
        "pulled: nothing is limited",
    ] {
        assert!(body.contains(part), "{part}:\n{body}");
    }
    assert!(page(&server, "/nodes", &cookie).await.body.contains("href=\"/nodes/node-1\""));
}

/// Half an hour of a machine whose controller was away for five minutes.
const FILLED: &str = "
    INSERT INTO isolation_samples (node, slot, at, body)
        SELECT 'node-1', (extract(epoch FROM at)::bigint / 10) % 360, at, jsonb_build_object('protocol', 3, 'controller',
            CASE WHEN n BETWEEN 60 AND 90 THEN NULL ELSE jsonb_build_object(
                'mode', 'blind', 'off', false, 'cores', 8, 'buffer_cores', 2, 'idle_cores', 3, 'secondary_cores', 4, 'killed', 1,
                'used', jsonb_build_object('interval_ms', 10000, 'primary_us', (1e7 * (1 + sin(n / 20.0)))::bigint,
                                           'secondary_us', (1e7 * (3 + cos(n / 9.0)))::bigint)) END)
        FROM (SELECT n, now() - make_interval(secs => 10 * n) AS at FROM generate_series(1, 180) n) told;";

/// On two screens, light and dark, with script and without.
#[tokio::test(flavor = "multi_thread")]
async fn cores_of_a_machine_are_seen_in_a_browser() {
    demand_browser();
    let server = Server::start().await;
    joined(&server, "node-1").await;
    server.db.script(FILLED);
    let cookie = sign_in(&server, &server.token_of("a", Role::Operator).await).await;
    let body = page(&server, "/nodes/node-1", &cookie).await.body;
    assert!(
        body.contains("primary: at most") && body.contains("secondary: at most"),
        "in words, too: {body}"
    );
    let config = json!({
        "url": server.url(""),
        "cookie": cookie.split_once('=').unwrap().1,
        "pages": [{ "name": "isolation", "path": "/nodes/node-1" }],
        "pictures": pictures(env!("CARGO_TARGET_TMPDIR"), "isolation"),
    });
    let found = tokio::task::block_in_place(|| browse("charts.mjs", &config, LIMIT, |_| ()));
    assert_eq!(found["violations"], json!([]));
    let seen = found["seen"].as_array().unwrap().iter().flat_map(|seen| seen.as_object().unwrap().values());
    assert!(seen.flat_map(|list| list.as_array().unwrap()).next().is_none(), "{}", found["seen"]);
    let drawn = found["drawn"].as_array().unwrap();
    assert_eq!((drawn.len(), &found["unscripted"]["isolation"]), (2, &json!(60)));
    for page in drawn {
        assert_eq!((&page["drawings"], &page["fills"]), (&json!(1), &json!(2)), "{page}");
        assert_eq!((&page["outside"], &page["wider"]), (&json!([]), &json!(false)), "{page}");
    }
}
