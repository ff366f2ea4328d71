//! The list of functions that a deploy goes through, in ARCHITECTURE.md, names functions that are there.

use mfaas_architecture::read;

/// File and function of each row.
fn rows(text: &str) -> Vec<(String, String)> {
    let section = text.split("### Function by function").nth(1).and_then(|rest| rest.split("\n## ").next());
    let cells = |line: &str| -> Option<(String, String)> {
        let mut cells = line.strip_prefix("| `")?.split(" | ").map(|cell| cell.trim_matches('`').to_owned());
        Some((cells.next()?, cells.next()?))
    };
    section.unwrap_or_default().lines().filter_map(cells).collect()
}

/// What the rows name and the files do not have.
fn missing(rows: &[(String, String)], read: impl Fn(&str) -> String) -> Vec<String> {
    let is_there = |(file, function): &&(String, String)| {
        let begins = format!("fn {function}");
        let text = read(file);
        text.match_indices(&begins).any(|(at, _)| text[at + begins.len()..].starts_with(['(', '<']))
    };
    let gone = rows.iter().filter(|row| !is_there(row));
    gone.map(|(file, function)| format!("{file} has no function `{function}`")).collect()
}

#[test]
fn every_function_of_the_walk_is_there() {
    let rows = rows(&read("ARCHITECTURE.md"));
    assert!(rows.len() >= 40, "the walk has {} functions, from upload to answer", rows.len());
    let gone = missing(&rows, read);
    assert!(gone.is_empty(), "{}", gone.join("\n"));
}

#[test]
fn a_function_that_is_gone_is_named() {
    let text = "### Function by function\n\n| where | function | does |\n| --- | --- | --- |\n\
                | `a.rs` | `go` | goes |\n| `a.rs` | `come` | comes |\n\n## Else\n| `b.rs` | `no` | not |\n";
    let rows = rows(text);
    assert_eq!(rows.len(), 2);
    let gone = missing(&rows, |_| "pub fn going() {}\nfn go<T>() {}".to_owned());
    assert_eq!(gone, ["a.rs has no function `come`"]);
}
