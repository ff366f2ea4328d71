//! What the documents promise about the code.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;

use mfaas_architecture::{read, tracked_files};
use mfaas_rules::codes;
use mfaas_rules::profiles::lints;

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

/// The page of the soundness lints has a section for each, which says what its row says.
#[test]
fn every_lint_has_its_section() {
    let page = read("docs/errors/MF0314.md");
    for row in lints::ROWS {
        let section = format!(
            "\n## {}\n\nrust-lang/rust#{}: {}.\n\n```rust\n// refused\n{}\n\n// admitted\n{}\n```\n\n{}\n",
            row.id, row.issue, row.why, row.refused, row.admitted, row.instead
        );
        assert!(page.contains(&section), "docs/errors/MF0314.md lacks this:\n{section}");
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

/// Columns of prose.
const COLUMNS_MAX: usize = 100;

/// What is no prose, or has one line for each entry by its nature.
fn is_wrapped(file: &str) -> bool {
    let is_ours = !["tests/", "examples/", "docs/errors/"].iter().any(|start| file.starts_with(start));
    file.ends_with(".md") && is_ours && file != "docs/decisions/README.md"
}

/// Lines outside of blocks of code, with their numbers.
fn lines_outside_of_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Lines of prose that are longer than they have to be: code spans and targets of links stay whole, tables, headings
/// and blocks of code are no prose.
fn long_lines(text: &str) -> Vec<usize> {
    let is_long = |line: &str| line.chars().count() > COLUMNS_MAX && pieces(line) > 2;
    let is_prose = |line: &str| !line.trim_start().starts_with(['|', '#', '<', '`', '[', '!']);
    lines_outside_of_code(text)
        .filter(|(_, line)| is_prose(line) && is_long(line))
        .map(|(number, _)| number)
        .collect()
}

/// Words that a line could break between, a list's marker among them.
fn pieces(line: &str) -> usize {
    let parts = line.split('`').enumerate().filter(|(at, _)| at % 2 == 0).map(|(_, text)| text);
    let bare: String = parts.collect::<Vec<_>>().join("x");
    let without_targets: String =
        bare.split("](").map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect();
    without_targets.split_whitespace().count()
}

#[test]
fn prose_keeps_to_its_columns() {
    let mut wrong = Vec::new();
    for file in tracked_files().into_iter().filter(|file| is_wrapped(file)) {
        wrong.extend(long_lines(&read(&file)).into_iter().map(|line| format!("{file}:{line}")));
    }
    assert!(wrong.is_empty(), "more than {COLUMNS_MAX} columns:\n{}", wrong.join("\n"));
}

#[test]
fn a_long_line_counts_where_it_could_break() {
    let long = "word ".repeat(30);
    assert_eq!(long_lines(&format!("{long}\n- {long}\n")), [1, 2]);
    let span = format!("`{long}`");
    let table = format!("| {long} |");
    let whole = format!("{span}\n- {span}\n{table}\n# {long}\n```\n{long}\n```\nshort\n");
    assert_eq!(long_lines(&whole), [0_usize; 0]);
}

/// Lines that hold a part of a table and are no row of it, as of one that was wrapped like prose.
fn broken_rows(text: &str) -> Vec<usize> {
    let is_delimiters = |line: &str| line.chars().all(|c| "|-: ".contains(c));
    let is_broken = |line: &str| {
        let line = line.trim();
        line.starts_with('|') && !line.ends_with('|') || line.contains("| --") && !is_delimiters(line)
    };
    lines_outside_of_code(text).filter(|(_, line)| is_broken(line)).map(|(number, _)| number).collect()
}

#[test]
fn a_table_has_a_line_for_each_row() {
    let mut wrong = Vec::new();
    for file in tracked_files().into_iter().filter(|file| file.ends_with(".md")) {
        wrong.extend(broken_rows(&read(&file)).into_iter().map(|line| format!("{file}:{line}")));
    }
    assert!(wrong.is_empty(), "tables whose rows were run together or broken:\n{}", wrong.join("\n"));
}

#[test]
fn a_table_that_was_wrapped_is_noticed() {
    let whole =
        "| a | b |\n| --- | ---: |\n| `x | y` | z |\n\n  | a |\n  | :--- |\n```\n| --- | x\n```\na | b\n";
    assert_eq!(broken_rows(whole), [0_usize; 0]);
    let wrapped = "| a | b | | --- | --- | | one\ntwo | three |\n";
    assert_eq!(broken_rows(wrapped), [1]);
    assert_eq!(broken_rows("| a | b |\n| --- | --- | | one | two |\n| three\n"), [2, 3]);
}
