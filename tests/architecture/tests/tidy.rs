//! Tidiness that a reviewer should not have to look for.

use std::{collections::BTreeSet, path::Path};

use mfaas_architecture::{read, root, tracked_files};

const LINES_MAX: usize = 700;

fn ours(file: &str) -> bool {
    !file.starts_with("tests/hostile/") && !file.starts_with("tests/benign/") && !file.contains("/fixtures/")
}

#[test]
fn files_have_one_room() {
    for file in tracked_files().iter().filter(|file| file.ends_with(".rs") && ours(file)) {
        let lines = read(file).lines().count();
        assert!(lines <= LINES_MAX, "{file} has {lines} lines; look for the second room inside");
    }
}

/// Every module says what it is for; test modules say it with their name.
#[test]
fn modules_open_with_their_purpose() {
    for file in tracked_files().iter().filter(|file| file.ends_with(".rs") && ours(file)) {
        if file.contains("/tests/") || file.ends_with("tests.rs") || file.starts_with("examples/") {
            continue;
        }
        let text = read(file);
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        assert!(first.starts_with("//!"), "{file} does not open with //!");
    }
}

/// The project's files speak of the project alone. The words are joined here so that this file
/// does not contain them.
#[test]
fn no_file_names_a_machine_or_a_registry_host() {
    let banned = [
        ["/wo", "rk/"].concat(),
        ["index.", "crates.io"].concat(),
        ["static.", "crates.io"].concat(),
        ["registry.", "npmjs"].concat(),
        ["deb.", "debian.org"].concat(),
    ];
    for file in tracked_files().iter().filter(|file| !file.ends_with(".lock")) {
        let text = read(file);
        for word in &banned {
            assert!(!text.contains(word.as_str()), "{file} contains {word}");
        }
    }
}

/// Relative links in Markdown lead to files that exist.
#[test]
fn documentation_links_lead_somewhere() {
    let mut broken = Vec::new();
    for file in tracked_files().iter().filter(|file| file.ends_with(".md")) {
        let directory = root().join(file).parent().map(Path::to_path_buf).unwrap_or_default();
        for target in links(&read(file)) {
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !directory.join(path).exists() {
                broken.push(format!("{file}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

fn links(text: &str) -> BTreeSet<String> {
    let mut code = false;
    let prose = text.lines().filter(|line| {
        code ^= line.trim_start().starts_with("```");
        !code
    });
    prose
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .map(|target| target.split_whitespace().next().unwrap_or_default().to_owned())
        .collect()
}

/// Migrations are numbered without gaps, so that two branches cannot both add the next one unseen.
#[test]
fn migrations_are_numbered_without_gaps() {
    let mut numbers: Vec<u32> = tracked_files()
        .iter()
        .filter_map(|file| file.strip_prefix("migrations/"))
        .filter(|name| name.ends_with(".sql") && name.as_bytes()[0].is_ascii_digit())
        .filter_map(|name| name.split('_').next()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let expected: Vec<u32> = (1..=numbers.len() as u32).collect();
    assert!(!numbers.is_empty());
    assert_eq!(numbers, expected);
}
