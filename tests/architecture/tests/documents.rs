//! What the documents promise about the code.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_architecture::{read, tracked_files};
use mfaas_rules::codes;

/// Every code has a page with the sentence and the hint of the table, and no page lacks its code.
#[test]
fn every_code_has_its_page_and_every_page_its_code() {
    let index = read("docs/errors/README.md");
    for code in codes::ALL {
        let page = read(&format!("docs/errors/{code}.md"));
        assert!(page.starts_with(&format!("# {code}\n\n{}\n", code.title())), "docs/errors/{code}.md: title");
        assert!(page.contains(code.hint()), "docs/errors/{code}.md: hint");
        assert!(
            index.contains(&format!("[{code}]({code}.md) {}", code.title())),
            "docs/errors/README.md: {code}"
        );
    }
    for file in tracked_files() {
        if let Some(id) = file.strip_prefix("docs/errors/").and_then(|name| name.strip_suffix(".md")) {
            assert!(id == "README" || codes::ALL.iter().any(|code| code.id() == id), "{file} has no code");
        }
    }
}

/// The map of ARCHITECTURE.md names every crate's directory.
#[test]
fn the_map_names_every_crate() {
    let map = read("ARCHITECTURE.md");
    for read_crate in mfaas_architecture::crates().values() {
        let (folder, name) = read_crate.directory.split_once('/').unwrap();
        let section = map.split(&format!("\n{folder}/")).nth(1).unwrap_or_default();
        assert!(
            section.lines().any(|line| line.trim_start().starts_with(&format!("{name}/"))),
            "ARCHITECTURE.md does not show {}",
            read_crate.directory
        );
    }
}

/// The README's first screen holds the two commands.
#[test]
fn the_readme_begins_with_the_two_commands() {
    let readme = read("README.md");
    let first_screen: String = readme.lines().take(24).collect::<Vec<_>>().join("\n");
    for command in ["./scripts/quickstart", "./scripts/test"] {
        assert!(first_screen.contains(command), "{command} is not on the README's first screen");
    }
}
