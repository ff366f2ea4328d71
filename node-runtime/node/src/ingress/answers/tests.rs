#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn passed(name: &str, value: &str) -> bool {
    let mut into = HeaderMap::new();
    let tenant = "acme".parse().unwrap();
    take_over(&mut into, [(name, value)].into_iter(), (&tenant, Some("node.example:7800")));
    !into.is_empty()
}

#[test]
fn what_is_not_on_the_list_does_not_pass() {
    for name in ["content-type", "etag", "access-control-allow-origin", "x-fn-anything", "x-request-id"] {
        assert!(passed(name, "1"), "{name}");
    }
    for name in [
        "accept-ch",
        "access-control-allow-credentials",
        "alt-svc",
        "clear-site-data",
        "connection",
        "content-length",
        "content-security-policy",
        "critical-ch",
        "cross-origin-opener-policy",
        "date",
        "link",
        "mfaas-version",
        "nel",
        "no-vary-search",
        "observe-browsing-topics",
        "origin-agent-cluster",
        "origin-trial",
        "proxy-authenticate",
        "refresh",
        "report-to",
        "secure-session-registration",
        "server",
        "service-worker-allowed",
        "set-cookie",
        "set-login",
        "sourcemap",
        "speculation-rules",
        "strict-transport-security",
        "supports-loading-mode",
        "transfer-encoding",
        "upgrade",
        "use-as-dictionary",
        "www-authenticate",
        "x-accel-redirect",
        "x-dns-prefetch-control",
        "x-envoy-immediate-health-check-fail",
        "x-sendfile",
    ] {
        assert!(!passed(name, "1"), "{name}");
    }
}

#[test]
fn a_redirect_leads_home_or_to_another_host() {
    for target in [
        "/f/acme/other",
        "/f/acme/other@3?x=../y",
        "https://elsewhere.example/f/stranger/x",
        "HTTP://elsewhere.example:7800",
        "https://[2001:db8::1]/",
    ] {
        assert!(passed("location", target), "{target}");
    }
    for target in [
        "/f/stranger/x",
        "/f/acme/../stranger/x",
        "/f/acme/%2e%2e/stranger/x",
        "/f/acme%2f..%2fstranger",
        "/f/acmex/y",
        "/metrics",
        "//node.example:7800/f/stranger/x",
        "//elsewhere.example/",
        "other",
        "../stranger/x",
        "/\\elsewhere.example",
        "/f/acme/..\\stranger",
        "http://node.example/f/stranger/x",
        "http://NODE.example.:7800/f/stranger/x",
        "http://elsewhere.example@node.example/",
        "http:/f/stranger/x",
        "http:///f/stranger/x",
        "javascript:alert(1)",
        "ht\ttp://x",
        "",
    ] {
        assert!(!passed("location", target), "{target}");
    }
}

#[test]
fn every_row_has_a_reason_and_stands_in_the_docs() {
    let page = include_str!("../../../../../docs/functions.md");
    for Row { name, why } in &ROWS {
        assert_eq!(ROWS.iter().filter(|row| row.name == *name).count(), 1, "{name}");
        assert!(
            page.contains(&format!("| `{name}` | {why} |")),
            "{name} is not in docs/functions.md as it is here"
        );
    }
    assert!(page.contains(&format!("`{OWN_PREFIX}")));
}
