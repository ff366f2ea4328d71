//! Charts: from the node listener to the API and the console. The API's numbers are the table's; each tenant sees its own;
//! drawings are well-formed XML.

use std::time::Duration;

use mfaas_harness::{browse, demand_browser, pictures};
use mfaas_ident::{Role, Scope};
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::{Value, json};

use crate::console::{page, sign_in};
use crate::nodes::{joined, post};
use crate::support::{Server, admitted_version};

const BOOT: &str = "7f2c0e52-6a3e-4d7c-9b45-0e1c3fd0a001";
/// Time for a browser to look at eight pages four times.
const LIMIT: Duration = Duration::from_secs(180);

/// `tenant/hello@1`.
async fn version(server: &Server, tenant: &str) {
    let token = server.token(tenant, &[Scope::Deploy]).await;
    let created = server.upload("hello", &token, vec![1]).await.json();
    let deployment = created["deployment"]["id"].as_str().unwrap();
    admitted_version(&server.db, tenant, "hello", deployment, &"a".repeat(64));
}

fn usage(sequence: u64, calls: u64, runs: &[u64]) -> Value {
    json!({"protocol": 3, "boot": BOOT, "sequence": sequence, "rows": [{
        "tenant": "a", "function": "hello", "version": 1, "calls": calls, "cpu_ns": calls * 1_000, "run_ns": calls * 2_000,
        "queue_ns": calls, "run_ns_max": 2_000, "memory_bytes_max": 4_096, "kills": {}, "runs": runs,
    }]})
}

fn load(cpu_ns: u64) -> Value {
    json!({
        "protocol": 3, "interval_ms": 10_000, "cpu_ns": cpu_ns, "cores": 2, "running": 1, "waiting": 0, "processes": 3,
        "pools": 2, "pools_busy": 1, "resident": 4, "resident_bytes": 65_536, "from_a_later_node": true,
    })
}

/// The last points of a list, which is the step that is not over, and the one before.
fn told<'a>(view: &'a Value, list: &str, field: &str) -> Vec<&'a Value> {
    let points = view[list].as_array().unwrap();
    points.iter().rev().take(2).map(|point| &point[field]).filter(|value| !value.is_null()).collect()
}

fn sum(values: &[&Value]) -> u64 {
    values.iter().map(|value| value.as_u64().unwrap()).sum()
}

#[tokio::test]
async fn what_nodes_tell_is_drawn_and_each_tenant_sees_its_own() {
    let server = Server::start().await;
    version(&server, "a").await;
    let node = joined(&server, "node-1").await;
    assert_eq!(post(&node, &server.node_url("/node/v1/load"), &load(2_000_000_000)).await.0, 204);
    let impossible = post(&node, &server.node_url("/node/v1/load"), &json!({"cores": 0})).await;
    assert_eq!(impossible.1["code"], "MF0904");
    for told in [usage(1, 90, &[0, 90]), usage(2, 100, &[0, 90, 0, 10])] {
        assert_eq!(post(&node, &server.node_url("/node/v1/usage"), &told).await.0, 204);
    }

    let viewer = server.token_of("a", Role::Viewer).await;
    let seen = server.get("/v1/functions/hello/series", &viewer).await.json();
    assert_eq!((&seen["step_s"], seen["points"].as_array().unwrap().len()), (&json!(60), 61), "{seen}");
    assert_eq!(sum(&told(&seen, "points", "calls")), 100);
    assert_eq!(
        (&seen["versions"][0]["version"], seen["run_edges_ns"].as_array().unwrap().len()),
        (&json!(1), 20)
    );
    assert!(seen["points"][0]["calls"].is_null(), "an hour ago no node was heard: {seen}");
    // 90 of 100 took more than 1 µs and at most 2 µs, ten more than 5 µs and at most 10 µs. A minute may end between two reports.
    let p99 = told(&seen, "points", "run_ns_p99");
    assert_eq!(p99[0], &json!({"above": 5_000, "up_to": 10_000}), "{seen}");
    assert!(
        told(&seen, "points", "run_ns_p50").contains(&&json!({"above": 1_000, "up_to": 2_000})),
        "{seen}"
    );
    for (since, step_s) in [("24h", 900), ("30d", 21_600)] {
        let path = format!("/v1/functions/hello/series?since={since}&version=1");
        let seen = server.get(&path, &viewer).await.json();
        assert_eq!((&seen["step_s"], sum(&told(&seen, "points", "calls"))), (&json!(step_s), 100), "{seen}");
    }
    let of_no_version = server.get("/v1/functions/hello/series?version=2", &viewer).await.json();
    assert_eq!(sum(&told(&of_no_version, "points", "calls")), 0);

    let seen = server.get("/v1/series/tenants", &viewer).await.json();
    assert_eq!(
        (sum(&told(&seen, "points", "cpu_ns")), &seen["tenants"][0]["tenant"]),
        (100_000, &json!("a"))
    );
    let operator = server.token_of("b", Role::Operator).await;
    let seen = server.get("/v1/series/nodes", &operator).await.json();
    let points = seen["nodes"][0]["points"].as_array().unwrap();
    let point = points.iter().rev().find(|point| !point.is_null()).unwrap();
    assert_eq!(
        (&point["load"], &point["pools_busy_max"]),
        (&json!(0.1), &json!(1)),
        "2 of 20 seconds of CPU: {point}"
    );
    assert!(points[0].is_null());
    for path in ["/v1/functions/hello/series?tenant=a", "/v1/series/tenants", "/v1/series/tenants?tenant=a"] {
        assert_eq!(sum(&told(&server.get(path, &operator).await.json(), "points", "calls")), 100, "{path}");
    }

    let other = server.token_of("b", Role::Viewer).await;
    for path in
        ["/v1/functions/hello/series?tenant=a", "/v1/functions/hello/series", "/v1/series/tenants?tenant=a"]
    {
        assert_eq!(server.get(path, &other).await.code(), "MF0903", "{path}");
    }
    let seen = server.get("/v1/series/tenants", &other).await.json();
    assert_eq!(
        (sum(&told(&seen, "points", "calls")), &seen["tenants"][0]["tenant"]),
        (0, &json!("b")),
        "{seen}"
    );
    for path in ["/v1/series/builds", "/v1/series/nodes"] {
        assert_eq!(server.get(path, &other).await.code(), "MF0902", "{path}");
    }
    let cookie = sign_in(&server, &other).await;
    let body = page(&server, "/charts", &cookie).await.body;
    assert!(body.contains("of b<") && !body.contains("/charts/nodes") && !body.contains("others"), "{body}");
    for path in ["/charts?tenant=a", "/functions/hello/charts?tenant=a"] {
        assert_eq!(
            server.send(server.request("GET", path, "").header("cookie", &cookie)).await.status,
            404,
            "{path}"
        );
    }
}

/// What is too long, too long ago, backwards or no time at all is refused, by name, whoever asks for whatever.
#[tokio::test]
async fn a_time_that_no_chart_covers_is_refused() {
    let server = Server::start().await;
    version(&server, "a").await;
    let operator = server.token_of("a", Role::Operator).await;
    for path in ["/v1/functions/hello/series", "/v1/series/tenants", "/v1/series/builds", "/v1/series/nodes"]
    {
        for wrong in [
            "since=38d",
            "since=399d",
            "since=1h&until=2h",
            "since=tomorrow",
            "until=40d&since=41d",
            "since=500d",
        ] {
            let answer = server.get(&format!("{path}?{wrong}"), &operator).await;
            assert_eq!((answer.status, answer.code()), (400, "MF0904".to_owned()), "{path}?{wrong}");
        }
        for right in ["since=37d", "since=90m", "since=0m", "since=3d&until=2d"] {
            let answer = server.get(&format!("{path}?{right}"), &operator).await;
            assert_eq!(answer.status, 200, "{path}?{right}: {answer:?}");
        }
    }
    let cookie = sign_in(&server, &operator).await;
    for path in ["/charts", "/charts/builds", "/charts/nodes", "/functions/hello/charts"] {
        let path = format!("{path}?since=38d");
        let answer = server.send(server.request("GET", &path, "").header("cookie", &cookie)).await;
        assert!(
            answer.status == 400 && answer.body.contains("MF0904") && answer.body.contains("37 days"),
            "{answer:?}"
        );
    }
}

/// Three weeks of a site: two versions, three nodes of which one was silent for a while, builds of all lengths.
const FILLED: &str = "
    INSERT INTO series_calls (step_s, at, tenant, function, version, calls, cpu_ns, memory_bytes_max, runs)
        SELECT step_s, at, 'a', 'hello', version, calls, calls * 300000, 65536 * (2 + n % 5),
               ARRAY[0, calls / 20, calls / 3, calls / 2, calls / 10, calls / 50, (n % 7)::bigint, 0, (n % 3)::bigint]
        FROM (SELECT step_s, n, version, date_bin(make_interval(secs => step_s), now(), 'epoch') - make_interval(secs => step_s * n) AS at,
                     (step_s * (20 + 12 * sin(n / 9.0) + 6 * random()) / version)::bigint AS calls
              FROM unnest(ARRAY[60, 900, 21600]) step_s, generate_series(0, 140) n, generate_series(1, 2) version
              WHERE n NOT BETWEEN 20 AND 27 AND (version = 2 OR n > 12)) told;
    INSERT INTO series_tenants (step_s, at, tenant, calls, cpu_ns, memory_bytes_max, calls_left_out)
        SELECT step_s, at, t.tenant, sum(calls / i), sum(cpu_ns / i), max(memory_bytes_max * i), 0
        FROM series_calls, LATERAL (SELECT CASE WHEN i = 1 THEN 'a' ELSE 'team-' || i END AS tenant, i FROM generate_series(1, 8) i) t
        GROUP BY step_s, at, t.tenant;
    INSERT INTO series_nodes (step_s, at, node, interval_ms, cpu_ns, cores, running_max, waiting_max, processes_max, pools_max,
                              pools_busy_max, resident_max, resident_bytes_max)
        SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch') - make_interval(secs => step_s * n), 'node-' || node,
               step_s * 1000, step_s * 1e9 * (0.4 + 0.3 * sin(n / 11.0 + node) + 0.1 * random()), 4, 3, n % 4, 9 + n % 3, 6, 1 + (n + node) % 5,
               40, 4000000
        FROM unnest(ARRAY[60, 900, 21600]) step_s, generate_series(0, 140) n, generate_series(1, 3) node
        WHERE n NOT BETWEEN 20 AND 27 AND (node < 3 OR n NOT BETWEEN 40 AND 55);
    INSERT INTO series_builds (step_s, at, builds, queue_counts, build_counts)
        SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch') - make_interval(secs => step_s * n), 20,
               ARRAY[5, 5, 4, (n % 4), 1, (n % 11) / 9], ARRAY[0, 0, 0, 1, 6, 8, 3, (n % 5) / 2, (n % 13) / 11]
        FROM unnest(ARRAY[60, 900, 21600]) step_s, generate_series(0, 140) n WHERE n % 9 > 1;";

const PAGES: [(&str, &str); 8] = [
    ("tenants-hour", "/charts"),
    ("tenants-day", "/charts?since=24h"),
    ("tenants-month", "/charts?since=30d"),
    ("builds-day", "/charts/builds?since=24h"),
    ("nodes-hour", "/charts/nodes?since=1h"),
    ("function-hour", "/functions/hello/charts?tenant=a&since=1h"),
    ("function-day", "/functions/hello/charts?tenant=a&since=24h"),
    ("function-month", "/functions/hello/charts?tenant=a&version=1&since=30d"),
];

async fn filled() -> (Server, String) {
    let server = Server::start().await;
    version(&server, "a").await;
    for node in ["node-1", "node-2", "node-3"] {
        joined(&server, node).await;
    }
    server.db.script(FILLED);
    let cookie = sign_in(&server, &server.token("a", &[Scope::Admin]).await).await;
    (server, cookie)
}

/// Every drawing of a page.
fn drawings(body: &str) -> Vec<&str> {
    let begins = body.match_indices("<svg").map(|(begin, _)| begin);
    begins.map(|begin| &body[begin..begin + body[begin..].find("</svg>").unwrap() + "</svg>".len()]).collect()
}

#[tokio::test]
async fn drawings_are_well_formed_and_their_tables_say_what_the_api_says() {
    let (server, cookie) = filled().await;
    let token = server.token("a", &[Scope::Admin]).await;
    for (name, path) in PAGES {
        let body = page(&server, path, &cookie).await.body;
        crate::support::hostile::assert_only_our_markup(path, &body);
        let drawings = drawings(&body);
        let charts = drawings.iter().filter(|drawing| drawing.contains("role=\"img\""));
        assert!(charts.clone().count() >= 3, "{name}");
        for drawing in &drawings {
            let mut reader = Reader::from_str(drawing);
            reader.config_mut().check_end_names = true;
            while !matches!(
                reader.read_event().unwrap_or_else(|error| panic!("{name}: {error}: {drawing}")),
                Event::Eof
            ) {}
        }
        for chart in charts {
            assert!(
                chart.contains("<title") && chart.contains("<desc") && chart.contains(" UTC"),
                "{name}: {chart}"
            );
        }
    }
    // The table of a function's run times, row by row.
    let view = server.get("/v1/functions/hello/series?since=24h", &token).await.json();
    let body = page(&server, PAGES[6].1, &cookie).await.body;
    let table = body.split("Run time by step").nth(1).unwrap().split("</table>").next().unwrap();
    let rows: Vec<Vec<&str>> = table
        .split("<tr>")
        .skip(2)
        .map(|row| {
            row.split("</td>")
                .filter_map(|cell| cell.rsplit('>').next())
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    let points = view["points"].as_array().unwrap();
    assert_eq!(rows.len(), points.len());
    let (mut known, mut unknown) = (0, 0);
    for (row, point) in rows.iter().zip(points) {
        let told = point["calls"].as_u64().map_or("no data".to_owned(), |calls| calls.to_string());
        assert!(row.contains(&told.as_str()), "{row:?} {point}");
        if told == "no data" { unknown += 1 } else { known += 1 }
    }
    // Eight, and the step that has begun since.
    assert!(known > 80 && (8..=9).contains(&unknown), "{known} {unknown}");
}

/// On two screens, light and dark, with script and without: nothing is outside of its drawing, axe objects to nothing, and the
/// browser is asked for nothing that it refuses.
#[tokio::test(flavor = "multi_thread")]
async fn charts_are_seen_in_a_browser() {
    demand_browser();
    let (server, cookie) = filled().await;
    let directory = pictures(env!("CARGO_TARGET_TMPDIR"), "charts");
    let config = json!({
        "url": server.url(""),
        "cookie": cookie.split_once('=').unwrap().1,
        "pages": PAGES.map(|(name, path)| json!({ "name": name, "path": path })),
        "pictures": directory,
    });
    let found = tokio::task::block_in_place(|| browse("charts.mjs", &config, LIMIT, |_| ()));
    assert_eq!(found["violations"], json!([]));
    assert!(found["rules"].as_u64().unwrap() > 10, "{found}");
    let seen = found["seen"].as_array().unwrap().iter().flat_map(|seen| seen.as_object().unwrap().values());
    assert!(seen.flat_map(|list| list.as_array().unwrap()).next().is_none(), "{}", found["seen"]);
    let drawn = found["drawn"].as_array().unwrap();
    assert_eq!((drawn.len(), &found["pictures"]), (PAGES.len() * 2, &json!(PAGES.len() * 4)));
    for page in drawn {
        assert!(page["drawings"].as_u64().unwrap() >= 3, "{page}");
        assert!(page["fills"].as_u64().unwrap() >= 1, "{page}");
        assert_eq!((&page["outside"], &page["wider"]), (&json!([]), &json!(false)), "{page}");
    }
    for (name, rows) in found["unscripted"].as_object().unwrap() {
        assert!((60..=150).contains(&rows.as_u64().unwrap()), "{name}: {rows}");
    }
}
