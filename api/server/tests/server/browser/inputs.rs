//! Strings that come through the API and the forms, which refuse what no name or note can be.

use mfaas_ident::{
    AliasName, CrateName, FunctionName, HandlerPath, NodeName, PersonName, TenantName, sanitise_line,
};
use serde_json::json;

use super::ledger::{Ledger, escaped, lines};
use super::strings::{Hostile, as_sent};
use super::{Cookies, Site};
use crate::console::{csrf_of, page, sign_in};

/// An address that no route has: its page knows no session.
const NOWHERE: &str = "/nowhere/{}";
/// Addresses with a string in them; each string goes into one.
const ADDRESSES: &[&str] = &[
    "/functions/{}",
    "/deployments/{}",
    "/crates?q={}",
    "/crates/{}",
    "/crates/{}/1.0.0/revocation",
    "/crates/serde/{}/revocation",
    "/reviews/{}",
    "/reviews?after={}",
    "/reviews/1/files/{}",
    "/reviews/1/files/src/lib.rs?line={}",
    "/audit?before={}",
    NOWHERE,
];

/// The types of names: what one of them takes is harmless by its looks.
pub(super) fn types_of_names(ledger: &mut Ledger, strings: &[Hostile]) {
    type Parses = fn(&str) -> bool;
    let types: [(&'static str, Parses); 7] = [
        ("type: tenant name", |text| TenantName::parse(text).is_ok()),
        ("type: function name", |text| FunctionName::parse(text).is_ok()),
        ("type: alias", |text| AliasName::parse(text).is_ok()),
        ("type: node name", |text| NodeName::parse(text).is_ok()),
        ("type: crate name", |text| CrateName::parse(text).is_ok()),
        ("type: handler", |text| HandlerPath::parse(text).is_ok()),
        ("type: person", |text| PersonName::parse(text).is_ok()),
    ];
    for string in strings {
        for (place, parses) in types {
            let taken = parses(&string.text);
            ledger.tried(place, taken);
            let plain = |c: char| c.is_ascii_alphanumeric() || "._@+:/-".contains(c);
            assert!(!taken || string.text.chars().all(plain), "{place} takes {:?}", string.text);
        }
    }
}

/// Uploads under every string as the function's name.
pub(super) async fn functions(site: &mut Site, strings: &[Hostile], cookies: &Cookies) {
    let mut texts = Vec::new();
    for (byte, string) in (0_u32..).zip(strings) {
        let name = escaped(&string.text);
        let answer = site.server.upload(&name, &site.token, byte.to_le_bytes().to_vec()).await;
        let taken = answer.status == 202;
        assert!(taken || (400..500).contains(&answer.status), "{:?}: {answer:?}", string.text);
        site.ledger.tried("API: function name", taken);
        if taken {
            texts.push(string.text.clone());
        }
    }
    site.ledger.page("/functions", &cookies.admin, 200, &[]);
    site.ledger.page("/", &cookies.admin, 200, &texts);
}

/// Names tokens with every string, signs in with each, and opens an address with the string in it: the frame
/// shows the token's name, the page what it makes of the address.
pub(super) async fn tokens_and_addresses(site: &mut Site, strings: &[Hostile], cookies: &Cookies) {
    for string in strings {
        let body = json!({ "name": string.text, "scopes": ["admin"] });
        let request = site.server.request("POST", "/v1/tokens", &site.token).json(&body);
        let answer = site.server.send(request).await;
        let taken = answer.status == 201;
        assert!(taken || (400..500).contains(&answer.status), "{:?}: {answer:?}", string.text);
        site.ledger.tried("API: name of a token", taken);
        let (cookie, texts) = if taken {
            let secret = answer.json()["secret"].as_str().unwrap().to_owned();
            (sign_in(&site.server, &secret).await, vec![sanitise_line(&string.text, 200)])
        } else {
            (cookies.admin.clone(), Vec::new())
        };
        let address = ADDRESSES[string.number % ADDRESSES.len()];
        let path = address.replace("{}", &escaped(&string.text));
        let request =
            site.server.request("GET", &path, "").header("cookie", &cookie).header("accept", "text/html");
        let answer = site.server.send(request).await;
        assert!(answer.status == 200 || (400..500).contains(&answer.status), "{path}: {answer:?}");
        site.ledger.tried("address", answer.status == 200);
        let texts = if address == NOWHERE { Vec::new() } else { texts };
        site.ledger.page(&path, &cookie, answer.status, &texts);
    }
}

/// Takes a crate back for every string as the reason.
pub(super) async fn revocations(site: &mut Site, strings: &[Hostile], cookies: &Cookies) {
    let rows: Vec<String> = strings
        .iter()
        .map(|string| {
            format!(
                "('taken-back', '1.0.{}', repeat('0', 64), '{{}}', true, 'allowed', 'seed', 'shipped')",
                string.number
            )
        })
        .collect();
    site.server.db.script(&format!(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason) VALUES {};",
        rows.join(", ")
    ));
    let first = page(&site.server, "/crates/taken-back/1.0.0/revocation", &cookies.reviewer).await.body;
    let affected = first.split("name=\"affected\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let csrf = csrf_of(&first);
    let mut texts = Vec::new();
    for string in strings {
        let reason = string.at("revocation");
        let path = format!("/crates/taken-back/1.0.{}/revocation", string.number);
        let fields = [("severity", "block"), ("reason", &reason), ("affected", affected), ("csrf", &csrf)];
        let request =
            site.server.request("POST", &path, "").header("cookie", &cookies.reviewer).form(&fields);
        let status = site.server.send(request).await.status;
        assert_eq!(status, if string.is_visible() { 303 } else { 400 }, "{:?}", string.text);
        site.ledger.tried("form: reason of a revocation", status == 303);
        if status == 303 {
            texts.push(lines(&as_sent(&reason)));
        } else {
            // What was not revoked still can be: its page is there.
            site.ledger.page(&path, &cookies.reviewer, 200, &[]);
        }
    }
    site.ledger.page("/crates/taken-back", &cookies.reviewer, 200, &texts);
}
