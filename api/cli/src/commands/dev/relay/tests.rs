#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect()
}

#[test]
fn functions_are_named_as_at_a_node() {
    for path in ["/f/default/hello", "/f/default/hello@3", "/f/default/hello@next", "/f/default/hello/more"] {
        assert_eq!(function_of(path).unwrap().as_str(), "hello", "{path}");
    }
    for path in
        ["/", "/f/default", "/f/default/", "/g/default/hello", "/f/default/Not_A_Name", "/v1/functions"]
    {
        assert!(function_of(path).is_err(), "{path}");
    }
}

#[test]
fn pages_of_other_sites_may_not_use_what_is_lent() {
    for own in [
        &[("host", "127.0.0.1:7900")][..],
        &[("host", "localhost:7900"), ("sec-fetch-site", "none")],
        &[("host", "localhost:7900"), ("origin", "http://localhost:5173"), ("sec-fetch-site", "same-site")],
        &[("host", "[::1]:7900"), ("origin", "http://127.0.0.1:7900"), ("sec-fetch-site", "same-origin")],
    ] {
        assert!(demand_own_program(&headers(own)).is_ok(), "{own:?}");
    }
    for other in [
        &[][..],
        &[("host", "rebound.example:7900")],
        &[("host", "127.0.0.1.example")],
        &[("host", "127.0.0.1:7900"), ("origin", "https://evil.example")],
        &[("host", "127.0.0.1:7900"), ("origin", "null")],
        &[("host", "127.0.0.1:7900"), ("sec-fetch-site", "cross-site")],
    ] {
        assert!(demand_own_program(&headers(other)).is_err(), "{other:?}");
    }
}

#[test]
fn what_is_about_one_connection_stays_there() {
    let answer = Answer {
        status: 207,
        headers: headers(&[
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("mfaas-version", "3"),
        ]),
        body: b"body".to_vec(),
        took: Duration::ZERO,
    };
    let response = response(answer);
    assert_eq!(response.status(), 207);
    assert_eq!(response.headers().len(), 1, "{:?}", response.headers());
    assert_eq!(response.headers()["mfaas-version"], "3");
}
