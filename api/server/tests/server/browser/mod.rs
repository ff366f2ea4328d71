//! Hundreds of hostile strings, put everywhere where the console shows somebody else's words, and every
//! page of it opened in a real browser: no script of theirs runs, nothing leaves, the policy has nothing to
//! block, and people see them written out.
//!
//! `ablation.mjs` prints the same strings unescaped and shows that each of these would be seen.

mod inputs;
mod ledger;
mod reviews;
mod rows;
mod strings;

use std::time::Duration;

use mfaas_harness::{browse, demand_browser};
use mfaas_ident::Scope;
use mfaas_server::access::Access;
use serde_json::{Value, json};

use crate::console::sign_in;
use crate::support::Server;
use crate::support::hostile::elements;
use ledger::Ledger;

/// Time for a browser to open every page.
const LIMIT: Duration = Duration::from_secs(600);
/// Strings that the ablation's pages run, show as elements, or have blocked at least. The others only look odd,
/// are encoded, or wait for a click.
const ABLATED_MIN: u64 = 70;
/// Rules of axe that the ablation's page breaks at least: language, title, an image and a field without words.
const UNFIT_MIN: u64 = 4;
/// What was promised.
const STRINGS_MIN: usize = 200;

/// A server with strings in it.
struct Site {
    server: Server,
    token: String,
    ledger: Ledger,
}

/// Sessions of two people.
struct Cookies {
    reviewer: String,
    admin: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_strings_run_nothing_in_a_browser() {
    demand_browser();
    let strings = strings::strings();
    assert!(strings.len() >= STRINGS_MIN, "{}", strings.len());
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Admin]).await;
    let cookies = Cookies {
        reviewer: sign_in(&server, &server.token("b", &[Scope::Review]).await).await,
        admin: sign_in(&server, &token).await,
    };
    let mut site = Site { server, token, ledger: Ledger::default() };
    site.ledger.page("/sign-in", "", 200, &[]);
    inputs::types_of_names(&mut site.ledger, &strings);
    inputs::functions(&mut site, &strings, &cookies).await;
    rows::logs(&mut site, &strings, &cookies).await;
    reviews::reviews(&mut site, &strings, &cookies).await;
    rows::decisions(&mut site, &strings, &cookies);
    rows::complaints(&mut site, &strings, &cookies);
    inputs::revocations(&mut site, &strings, &cookies).await;
    inputs::tokens_and_addresses(&mut site, &strings, &cookies).await;
    let live = rows::Live::start(&mut site, &strings).await;
    // The last to write, since its pages are counted from the newest row.
    rows::audit(&mut site, &strings, &cookies);
    site.ledger.assert_complete(strings.len());

    let config = json!({
        "url": site.server.url(""),
        "elements": elements(),
        "pages": site.ledger.pages,
        "live": {
            "path": format!("/deployments/{}", live.deployment),
            "cookie": cookies.admin.split_once('=').unwrap().1,
            "texts": live.texts,
            "ended": live.ended,
        },
    });
    let found = tokio::task::block_in_place(|| {
        browse("hostile.mjs", &config, LIMIT, |word| live.happen(&site, word))
    });
    judge(&site.ledger, strings.len(), &found);
    ablate(&strings, found["policy"].as_str().unwrap());
}

fn judge(ledger: &Ledger, strings: usize, found: &Value) {
    assert_every_page_is_opened(ledger);
    let (placed, refused) = ledger.totals();
    say(&format!(
        "{strings} strings, {placed} placed and {refused} refused:\n{}{} pages, {} of {} texts seen, {} scripts ran, \
         {} violations of the policy",
        ledger.table(),
        found["pages"],
        found["shown"],
        ledger.expected,
        found["scripts"],
        found["violations"],
    ));
    let problems: Vec<&str> =
        found["problems"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!((&found["scripts"], &found["violations"]), (&json!(0), &json!(0)));
    // The page of the deployment is looked at while it runs and when it has ended.
    assert_eq!(found["pages"], json!(ledger.pages.len() + 2));
    assert_eq!(found["shown"], json!(ledger.expected));
    assert!(placed >= 40 * STRINGS_MIN / 2 && refused >= 7 * STRINGS_MIN / 2, "{placed} and {refused}");
}

/// Every address that answers a signed-in browser with a page was opened, so that a page that is made later is
/// not forgotten. The page of a deployment is opened while it runs.
fn assert_every_page_is_opened(ledger: &Ledger) {
    let opened = |template: &str| {
        ledger.pages.iter().any(|page| {
            page["status"] == 200 && fits(template, page["path"].as_str().unwrap().split('?').next().unwrap())
        })
    };
    let elsewhere = ["/deployments/{id}", "/deployments/{id}/events"];
    for (method, template, access) in mfaas_server::access::TABLE {
        let is_page =
            *method == "GET" && matches!(access, Access::Session(_)) && !elsewhere.contains(template);
        assert!(!is_page || opened(template), "no browser has opened {template}");
    }
}

/// Whether a path is one of a route's.
fn fits(template: &str, path: &str) -> bool {
    let (mut parts, mut segments) = (template.split('/'), path.split('/'));
    loop {
        match (parts.next(), segments.next()) {
            (None, None) => return true,
            (Some(part), Some(_)) if part.starts_with("{*") => return true,
            (Some(part), Some(segment)) if part == segment || part.starts_with('{') => {}
            _ => return false,
        }
    }
}

/// The same strings on pages that do not escape.
fn ablate(strings: &[strings::Hostile], policy: &str) {
    let texts: Vec<&str> = strings.iter().map(|string| string.text.as_str()).collect();
    let found = browse(
        "ablation.mjs",
        &json!({ "texts": texts, "policy": policy, "elements": elements() }),
        LIMIT,
        |_| (),
    );
    say(&format!("without escaping: {found}"));
    let count = |mode: &str, what: &str| found[mode][what].as_u64().unwrap();
    assert!(count("open", "ran") >= ABLATED_MIN, "scripts that run are not seen: {found}");
    assert!(count("open", "strange") >= ABLATED_MIN, "strange elements are not seen: {found}");
    assert_eq!(count("closed", "ran"), 0, "the policy lets scripts through: {found}");
    assert!(count("closed", "violations") >= ABLATED_MIN, "what the policy blocks is not seen: {found}");
    assert!(found["unfit"].as_u64().unwrap() >= UNFIT_MIN, "axe finds nothing: {found}");
    assert_eq!(
        count("blank", "missing"),
        count("blank", "pages"),
        "a page that shows nothing passes: {found}"
    );
}

#[allow(clippy::print_stderr, reason = "figures are for people")]
fn say(text: &str) {
    eprintln!("{text}");
}
