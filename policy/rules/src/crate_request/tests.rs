#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn of(version: &str, features: &[&str]) -> CrateRequest {
    let features: Vec<String> = features.iter().map(|feature| (*feature).to_owned()).collect();
    let name = CrateName::parse("serde").unwrap();
    CrateRequest::of_version(name, &version.parse().unwrap(), &features)
}

#[test]
fn a_version_is_asked_for_alone_and_with_its_features() {
    let request = of("1.0.0-rc.1", &["default", "derive"]);
    assert_eq!(request.requirement.to_string(), "=1.0.0-rc.1");
    assert_eq!((request.features, request.default_features), (vec!["derive".to_owned()], true));
    assert!(!of("1.0.0", &["derive"]).default_features);
    assert!(!of("1.0.0", &[]).requirement.matches(&Version::new(1, 0, 1)));
}

#[test]
fn the_same_crate_in_one_version_keeps_its_features() {
    let request = of("1.0.0", &["derive"]).exactly(&Version::new(2, 1, 0));
    assert_eq!((request.requirement.to_string().as_str(), request.features.len()), ("=2.1.0", 1));
}
