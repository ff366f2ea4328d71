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

/// The last migration that may make an index as it likes.
const LAST_OF_BEFORE: u32 = 25;

/// An index on a large table is made while others write, which is done outside of a transaction and alone.
#[test]
fn indexes_of_new_migrations_keep_nobody_waiting() {
    let mut faults = Vec::new();
    for file in tracked_files() {
        let name = file.strip_prefix("migrations/").filter(|name| name.ends_with(".sql"));
        let number = name.and_then(|name| name.get(..4)?.parse::<u32>().ok());
        if number.is_some_and(|number| number > LAST_OF_BEFORE) {
            faults.extend(index_faults(&read(&file)).into_iter().map(|fault| format!("{file}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What of a migration is against the rule of migrations/README.md.
fn index_faults(sql: &str) -> Vec<String> {
    let is_outside = sql.starts_with("-- no-transaction\n");
    let code: Vec<&str> = sql.lines().map(|line| line.split("--").next().unwrap_or("")).collect();
    let code = code.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let statements: Vec<&str> = code.split(';').map(str::trim).filter(|text| !text.is_empty()).collect();
    let mut faults = Vec::new();
    if is_outside && !matches!(statements[..], [one] if one.contains("INDEX CONCURRENTLY ")) {
        faults.push(
            "a file without a transaction has one statement, which makes an index CONCURRENTLY".to_owned(),
        );
    }
    let indexes = statements
        .iter()
        .filter(|text| text.starts_with("CREATE INDEX") || text.starts_with("CREATE UNIQUE INDEX"));
    for index in indexes {
        let table = index.split(" ON ").nth(1).and_then(|rest| rest.split([' ', '(']).next()).unwrap_or("");
        let is_new = code.contains(&format!("CREATE TABLE {table} ("));
        let is_concurrent = index.contains(" INDEX CONCURRENTLY ");
        if is_concurrent && !is_outside {
            faults.push(format!("the first line has to be `-- no-transaction`: {index}"));
        }
        if !is_concurrent && !is_new {
            faults.push(format!("writers of `{table}` wait for it, make it CONCURRENTLY: {index}"));
        }
    }
    faults
}

#[test]
fn an_index_that_keeps_others_waiting_is_found() {
    for good in [
        "CREATE TABLE t (i int);\nCREATE INDEX t_i ON t (i);",
        "-- no-transaction\nCREATE UNIQUE INDEX CONCURRENTLY t_i ON t (i);\n",
        "ALTER TABLE t ADD COLUMN j int; -- CREATE INDEX t_j ON t (j);",
    ] {
        assert_eq!(index_faults(good), [""; 0], "{good}");
    }
    for bad in [
        "CREATE INDEX t_i ON t (i);",
        "CREATE TABLE tt (i int); CREATE UNIQUE INDEX t_i ON t(i);",
        "CREATE INDEX CONCURRENTLY t_i ON t (i);",
        "-- no-transaction\nCREATE INDEX t_i ON t (i);",
        "-- no-transaction\nCREATE INDEX CONCURRENTLY t_i ON t (i); ALTER TABLE t ADD COLUMN j int;",
        "-- no-transaction\nALTER TABLE t ADD COLUMN j int;",
    ] {
        assert!(!index_faults(bad).is_empty(), "{bad}");
    }
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
