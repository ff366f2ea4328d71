#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn the_builder_is_asked_for_what_was_typed_and_nothing_else() {
    let words = |table: &Table, json| {
        let command = table.command(std::path::Path::new("/programs/mfaas-builder"), json);
        command.get_args().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let plain = Table { list: None, work: None, home: None };
    assert_eq!(words(&plain, false), ["table"]);
    let full = Table { list: Some("l".into()), work: Some("w".into()), home: Some("h".into()) };
    assert_eq!(words(&full, true), ["table", "--list", "l", "--work", "w", "--json"]);
}
