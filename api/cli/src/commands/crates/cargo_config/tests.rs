#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::settings;

#[test]
fn the_file_is_toml_that_names_the_index_of_the_server() {
    let found = settings("http://127.0.0.1:7700/").unwrap();
    let table: toml::Table = found.config.parse().unwrap();
    assert_eq!(table["registries"]["mfaas"]["index"].as_str(), Some("sparse+http://127.0.0.1:7700/index/"));
    assert_eq!(table["source"]["crates-io"]["replace-with"].as_str(), Some("mfaas"));
    assert!(settings("http://x\"\n[evil]").is_err());
}
