#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use http::HeaderMap;
use http::header::COOKIE;

use super::{Attempt, Attempts};

const NOW: Duration = Duration::from_secs(1_700_000_000);
const LIFE: Duration = Duration::from_secs(600);
const APART: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn attempts(site: &str) -> Attempts {
    Attempts::new(site.to_owned(), LIFE, APART)
}

fn headers(cookie: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(COOKIE, cookie.split(';').next().unwrap().parse().unwrap());
    headers
}

fn secrets(attempt: &Attempt) -> [String; 3] {
    [attempt.state.secret(), attempt.nonce.secret(), attempt.verifier.secret()].map(Clone::clone)
}

#[test]
fn another_server_of_the_site_knows_an_attempt_and_another_site_does_not() {
    let (begun, set) = attempts("here").begin(NOW, false).unwrap();
    let shown = |site: &str| attempts(site).shown(NOW, &headers(&set)).unwrap();
    assert_eq!((secrets(&shown("here")), shown("here").id), (secrets(&begun), begun.id));
    let elsewhere = secrets(&shown("there"));
    assert!(secrets(&begun).iter().all(|secret| !elsewhere.contains(secret)));
    assert!(begun.has_state(begun.state.secret()) && !begun.has_state(&elsewhere[0]) && !begun.has_state(""));
    let cookie = set.split(['=', ';']).nth(1).unwrap();
    let [state, nonce, verifier] = secrets(&begun);
    assert!(state != nonce && nonce != verifier && !cookie.contains(&state) && !cookie.contains(&verifier));
}

#[test]
fn an_attempt_is_over_after_its_life_and_does_not_begin_later() {
    let here = attempts("here");
    let (_, set) = here.begin(NOW, false).unwrap();
    let counts = |now: Duration| here.shown(now, &headers(&set)).is_some();
    assert!(counts(NOW) && counts(NOW + LIFE - SECOND));
    assert!(!counts(NOW + LIFE), "it is over");
    assert!(counts(NOW - APART), "the clock of another server is behind");
    assert!(!counts(NOW - APART - SECOND), "it begins later");
}

#[test]
fn what_is_no_cookie_of_ours_is_no_attempt() {
    let here = attempts("here");
    let (_, set) = here.begin(NOW, false).unwrap();
    let value = set.split(['=', ';']).nth(1).unwrap().to_owned();
    let wrong = ["", "0", &value[2..], &format!("{value}00"), &value.replacen('0', "g", 1)];
    for value in wrong {
        assert!(here.shown(NOW, &headers(&format!("mfaas_sign_in={value}"))).is_none(), "{value}");
    }
    let twice = HeaderMap::from_iter([(
        COOKIE,
        format!("mfaas_sign_in={value}; mfaas_sign_in={value}").parse().unwrap(),
    )]);
    assert!(here.shown(NOW, &twice).is_none(), "two of them");
}
