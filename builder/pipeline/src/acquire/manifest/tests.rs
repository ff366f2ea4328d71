#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use toml::Table;

use super::{CrateRequest, parse_request, with};
use crate::deps::Lockfile;

const LOCK: &str = "version = 4\n[[package]]\nname = \"a\"\nversion = \"1.4.0\"\n\
                    source = \"registry+https://example.com/index\"\nchecksum = \"aa\"\n";
const SEED: &str = "[package]\nname = \"seed\"\n[dependencies]\na = \"1.2\"\nb = { version = \"2\", default-features = false, features = [\"x\"] }\n";

fn request(text: &str, features: &[&str], default_features: bool) -> CrateRequest {
    parse_request(text, features.iter().map(|name| (*name).to_owned()).collect(), default_features).unwrap()
}

fn dependencies(requests: &[CrateRequest]) -> Table {
    let text = with(SEED, &Lockfile::parse(LOCK).unwrap(), requests).unwrap();
    text.parse::<Table>().unwrap()["dependencies"].as_table().unwrap().clone()
}

#[test]
fn an_offered_version_keeps_its_entry_and_gets_the_features() {
    let found = dependencies(&[request("a@^1.3", &["f"], true)]);
    assert_eq!(found.len(), 2);
    assert_eq!(found["a"]["version"].as_str(), Some("1.2"));
    assert_eq!(found["a"]["features"].as_array().unwrap().len(), 1);
}

#[test]
fn another_version_gets_an_entry_of_its_own() {
    let found = dependencies(&[request("a@^0.9", &[], false), request("new@3.1.4", &["f"], true)]);
    assert_eq!(found["a"].as_str(), Some("1.2"));
    assert_eq!(
        (found["a-2"]["package"].as_str(), found["a-2"]["version"].as_str()),
        (Some("a"), Some("^0.9"))
    );
    assert_eq!(found["a-2"]["default-features"].as_bool(), Some(false));
    assert_eq!(found["new"]["version"].as_str(), Some("=3.1.4"));
}

#[test]
fn default_features_are_switched_on_and_never_off() {
    let twice = [request("c@1.0.0", &["p"], false), request("c@1.0.0", &["q"], true)];
    let found = dependencies(&twice);
    assert_eq!(found["c"]["features"].as_array().unwrap().len(), 2);
    assert!(found["c"].get("default-features").is_none());
    assert!(dependencies(&twice[..1])["c"].get("default-features").is_some());
}

#[test]
fn a_request_is_a_name_a_requirement_and_plain_features() {
    for bad in ["a b", "../x", "a@one", "a@1.0 || 2", ""] {
        assert!(parse_request(bad, Vec::new(), true).is_err(), "{bad}");
    }
    for bad in ["dep:x", "x/y", "", "a\"b", "x?/y"] {
        assert!(parse_request("a", vec![bad.to_owned()], true).is_err(), "{bad}");
    }
    assert_eq!(request("a@1.2.3-rc.1", &[], true).requirement.to_string(), "=1.2.3-rc.1");
    assert_eq!(request("a", &[], true).requirement.to_string(), "*");
}
