//! The page of a function: whom it calls, drawn and listed, and which functions call it.

use mfaas_ident::Scope;
use mfaas_server::limits::{CONSOLE_ROWS_MAX, GRAPH_FUNCTIONS_LISTED_MAX, GRAPH_FUNCTIONS_MAX};

use crate::console::{page, sign_in};
use crate::support::hostile::assert_only_our_markup;
use crate::support::{Database, Server};

/// A server where tenant `a` has a live function `hello`, and the cookie of one who may read there.
async fn server() -> (Server, String) {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    server.admitted("a", "hello", &token).await;
    let cookie = sign_in(&server, &token).await;
    (server, cookie)
}

/// Gives functions of tenant `a` a version 1 that is live and calls others, as far as the page looks.
fn calls(db: &Database, calls: &[(&str, &[&str])]) {
    let mut sql = "SET session_replication_role = replica;".to_owned();
    for (function, callees) in calls {
        sql.push_str(&format!(
            "INSERT INTO functions (tenant, name, last_version) VALUES ('a', '{function}', 1) ON CONFLICT DO NOTHING;
             INSERT INTO aliases (tenant, function, alias, version) VALUES ('a', '{function}', 'live', 1)
             ON CONFLICT DO NOTHING;"
        ));
        for (at, callee) in callees.iter().enumerate() {
            sql.push_str(&format!(
                "INSERT INTO version_calls (tenant, function, version, name, callee)
                 VALUES ('a', '{function}', 1, 'c{at}', '{callee}');"
            ));
        }
    }
    db.script(&sql);
}

async fn read(server: &Server, function: &str, cookie: &str) -> String {
    let path = format!("/functions/{function}");
    let body = page(server, &path, cookie).await.body;
    assert_only_our_markup(&path, &body);
    body
}

fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

fn drawing(page: &str) -> Option<&str> {
    page.split("<svg").nth(1).and_then(|rest| rest.split("</svg>").next())
}

#[tokio::test]
async fn the_page_draws_and_lists_whom_the_function_calls_and_names_its_callers() {
    let (server, cookie) = server().await;
    let alone = read(&server, "hello", &cookie).await;
    holds(&alone, &["It calls no other function.", "No function of this tenant calls it directly."]);
    assert_eq!(drawing(&alone), None);
    let token = server.token("a", &[Scope::Deploy]).await;
    for function in ["left", "waiting"] {
        assert_eq!(server.upload(function, &token, vec![2]).await.status, 202);
    }
    calls(
        &server.db,
        &[
            ("hello", &["left", "gone", "shop/rank", "waiting"]),
            ("left", &["bottom"]),
            ("bottom", &[]),
            ("over", &["hello"]),
            ("under", &["a/hello"]),
        ],
    );
    let body = read(&server, "hello", &cookie).await;
    let graph = drawing(&body).unwrap();
    assert_eq!(graph.matches("<line ").count(), 5, "{graph}");
    holds(
        graph,
        &[
            "<a href=\"/functions/hello\" class=\"live\">",
            "<a href=\"/functions/left\" class=\"live\">",
            "<a href=\"/functions/waiting\" class=\"absent\">",
            "<g class=\"absent\">",
            "<g class=\"foreign\">",
            ">gone</text>",
            ">no live version</text>",
            ">shop/rank</text>",
            ">of another tenant</text>",
        ],
    );
    assert!(!graph.contains("/functions/gone") && !graph.contains("/rank\""), "{graph}");
    holds(
        &body,
        &[
            "gone, left, shop/rank, waiting</td>",
            "<a href=\"/functions/left\">left</a></th><td>1</td><td class=\"reason\">bottom</td>",
            "bottom</th><td>1</td><td class=\"reason\">nothing</td>",
            "shop/rank</th><td>of another tenant</td><td class=\"reason\">–</td>",
            "<a href=\"/functions/over\">over</a>, <a href=\"/functions/under\">under</a>.",
        ],
    );
    assert!(!body.contains("MF1211"), "there is no cycle");
}

#[tokio::test]
async fn another_tenants_functions_of_the_same_names_are_on_no_page() {
    let (server, _) = server().await;
    calls(&server.db, &[("hello", &["left"]), ("over", &["hello"])]);
    let token = server.token("b", &[Scope::Read, Scope::Deploy]).await;
    assert_eq!(server.upload("hello", &token, vec![1]).await.status, 202);
    let body = read(&server, "hello", &sign_in(&server, &token).await).await;
    holds(&body, &["It calls no other function.", "No function of this tenant calls it directly."]);
    assert!(!body.contains("left") && !body.contains("over</a>"), "{body}");
}

#[tokio::test]
async fn a_cycle_is_drawn_and_told() {
    let (server, cookie) = server().await;
    calls(&server.db, &[("hello", &["back"]), ("back", &["hello"])]);
    let body = read(&server, "hello", &cookie).await;
    let graph = drawing(&body).unwrap();
    assert_eq!((graph.matches("<line ").count(), graph.matches("class=\"back\"").count()), (1, 1), "{graph}");
    holds(&body, &["<code>MF1211</code>", "<a href=\"/functions/back\">back</a>."]);
}

#[tokio::test]
async fn a_graph_without_bounds_makes_a_page_with_bounds() {
    let (server, cookie) = server().await;
    let name = |at: u32| format!("{}{at:03}", "f".repeat(60));
    let chain = |from: u32, until: u32| {
        let links: Vec<(String, String)> = (from..until).map(|at| (name(at), name(at + 1))).collect();
        let callees: Vec<[&str; 1]> = links.iter().map(|(_, callee)| [callee.as_str()]).collect();
        let rows: Vec<(&str, &[&str])> =
            links.iter().zip(&callees).map(|((caller, _), callee)| (caller.as_str(), &callee[..])).collect();
        calls(&server.db, &rows);
    };
    let boxes = |body: &str| drawing(body).map(|graph| graph.matches("<text class=\"marks\"").count());
    let listed = |body: &str| body.matches("<th scope=\"row\" class=\"mono\">").count();
    // The function itself, and as many as the rest of the drawing holds.
    let (drawn, most) = (GRAPH_FUNCTIONS_MAX, GRAPH_FUNCTIONS_LISTED_MAX as usize);
    calls(&server.db, &[("hello", &[&name(1)])]);
    let last = u32::try_from(drawn).unwrap() - 1;
    chain(1, last);
    let body = read(&server, "hello", &cookie).await;
    assert_eq!((boxes(&body), listed(&body)), (Some(drawn), drawn));
    chain(last, last + 1);
    let body = read(&server, "hello", &cookie).await;
    assert_eq!((boxes(&body), listed(&body)), (None, drawn + 1));
    holds(&body, &["than a graph can show: they are in the list."]);
    chain(last + 1, 600);
    let body = read(&server, "hello", &cookie).await;
    assert_eq!((boxes(&body), listed(&body)), (None, most));
    holds(&body, &["than this page lists"]);
    assert!(body.len() < 100_000, "{} bytes", body.len());
    // And as many callers as rows.
    let callers: Vec<String> = (0..=CONSOLE_ROWS_MAX).map(|at| format!("caller-{at:03}")).collect();
    let rows: Vec<(&str, &[&str])> = callers.iter().map(|name| (name.as_str(), &["hello"][..])).collect();
    calls(&server.db, &rows);
    let body = read(&server, "hello", &cookie).await;
    assert_eq!(body.matches("<a href=\"/functions/caller-").count(), CONSOLE_ROWS_MAX as usize);
    holds(&body, &[">caller-099</a> and more."]);
}

/// The database takes no such name; were it to, the page would show nothing of it.
#[tokio::test]
async fn what_is_no_name_is_on_no_page() {
    let (server, cookie) = server().await;
    server.db.script("ALTER TABLE version_calls DROP CONSTRAINT version_calls_callee_valid");
    calls(&server.db, &[("hello", &["<script>alert(1)</script>"])]);
    let answer = server.send(server.request("GET", "/functions/hello", "").header("cookie", cookie)).await;
    assert!(answer.status == 500 && !answer.body.contains("alert(1)"), "{answer:?}");
}
