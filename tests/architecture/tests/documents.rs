//! What the documents promise about the code.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;

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

/// Every crate says what it is, and where its source and its licence are.
#[test]
fn every_crate_describes_itself() {
    for read_crate in mfaas_architecture::crates().values() {
        let manifest = read(&format!("{}/Cargo.toml", read_crate.directory));
        for key in ["description = \"", "repository.workspace = true", "license.workspace = true"] {
            assert!(manifest.lines().any(|line| line.starts_with(key)), "{}: no {key}", read_crate.directory);
        }
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

/// What the head of a decision record says.
struct Decision {
    number: String,
    title: String,
    status: String,
    /// `Supersedes`, `Superseded by` and the like, with the file that each link names.
    relations: Vec<(String, String)>,
}

fn read_decision(file: &str) -> Decision {
    let text = read(&format!("docs/decisions/{file}"));
    let head = text.split("\n\n").take(2).collect::<Vec<_>>();
    let [title, fields] = head[..] else { panic!("{file} has no head") };
    let number = &file[..4];
    let title = title.strip_prefix(&format!("# {number}: ")).unwrap_or_else(|| panic!("{file}: title"));
    let mut fields = fields.lines().map(|line| {
        line.strip_prefix("- ")
            .and_then(|field| field.split_once(": "))
            .unwrap_or_else(|| panic!("{file}: {line}"))
    });
    let mut field = |name| {
        let (found, value) = fields.next().unwrap_or_else(|| panic!("{file}: no {name}"));
        assert_eq!(found, name, "{file}");
        value.to_owned()
    };
    let (status, date) = (field("Status"), field("Date"));
    let digits: Vec<usize> =
        date.split('-').filter(|part| part.parse::<u32>().is_ok()).map(str::len).collect();
    assert_eq!(digits, [4, 2, 2], "{file}: {date} is no date like 2026-11-23");
    let relations = fields.flat_map(|(name, links)| {
        links.split(", ").map(move |link| {
            let target = link.split_once("](").and_then(|(_, rest)| rest.strip_suffix(')'));
            (name.to_owned(), target.unwrap_or_else(|| panic!("{file}: {link}")).to_owned())
        })
    });
    Decision { number: number.to_owned(), title: title.to_owned(), status, relations: relations.collect() }
}

/// Every decision says its status, its date and what it replaces, both ends say so, and the index lists them all.
#[test]
fn decisions_have_a_status_a_date_and_relations_that_agree() {
    let files: Vec<String> = tracked_files()
        .iter()
        .filter_map(|file| file.strip_prefix("docs/decisions/"))
        .filter(|file| *file != "README.md")
        .map(str::to_owned)
        .collect();
    assert!(files.len() > 50, "only {} decisions were found", files.len());
    let decisions: BTreeMap<&str, Decision> =
        files.iter().map(|file| (file.as_str(), read_decision(file))).collect();
    let index = read("docs/decisions/README.md");
    for (file, decision) in &decisions {
        let replaced = decision.relations.iter().any(|(name, _)| name == "Superseded by");
        let status = if replaced { "superseded" } else { "accepted" };
        assert_eq!(decision.status, status, "{file}");
        let row = format!("- [{}]({file}) {}", decision.number, decision.title);
        assert!(index.lines().any(|line| line.starts_with(&row)), "docs/decisions/README.md lacks: {row}");
        for (name, target) in &decision.relations {
            let back = match name.as_str() {
                "Supersedes" => "Superseded by",
                "Superseded by" => "Supersedes",
                "Amends" => "Amended by",
                "Amended by" => "Amends",
                _ => panic!("{file}: {name} is no relation"),
            };
            let other =
                decisions.get(target.as_str()).unwrap_or_else(|| panic!("{file}: {target} is no decision"));
            let answers = other.relations.iter().any(|(n, t)| n == back && t == file);
            assert!(answers, "{file} {name} {target}, which does not say so");
        }
    }
}
