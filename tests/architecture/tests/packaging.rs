//! What is packaged says what the documents and `mfaas up` say: variables, users, directories.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};

use mfaas_architecture::read;

/// The programs that have a unit, and the user of each, as docs/operations.md has them.
const PROGRAMS: [(&str, &str); 7] = [
    ("server", "mfaas"),
    ("signer", "mfaas-signer"),
    ("builder", "mfaas-build"),
    ("acquirer", "mfaas-acquire"),
    ("node", "mfaas-node"),
    ("broker", "mfaas-broker"),
    ("isolation", "root"),
];

/// Directories that only `mfaas up` has: its programs, its database, its logs.
const OF_THE_SUPERVISOR: [&str; 3] = ["bin", "postgres", "logs"];

/// The names between backticks that are variables of ours.
fn variables(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).filter(|name| name.starts_with("MFAAS_")).map(str::to_owned)
}

/// The variables of docs/operations.md by program, those that a table further down spells out included.
fn documented() -> BTreeMap<&'static str, BTreeSet<String>> {
    let text = read("docs/operations.md");
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| `MFAAS_")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [names, readers, meaning, ..] = cells[..] else { continue };
        if meaning.starts_with("no effect any more") {
            continue;
        }
        for (program, _) in PROGRAMS {
            if readers == "all" || readers.split(", ").any(|reader| reader == program) {
                found.entry(program).or_default().extend(variables(names));
            }
        }
    }
    for variables in found.values_mut() {
        if variables.remove("MFAAS_KEEP_…_DAYS") {
            variables.extend(kept(&text));
        }
    }
    found
}

/// The periods, each with its own row in the table of what is kept.
fn kept(text: &str) -> impl Iterator<Item = String> {
    variables(text).filter(|name| name.starts_with("MFAAS_KEEP_") && name.is_ascii())
}

/// The variables that the file for a program sets or shows, and those that its unit sets.
fn packaged(program: &str) -> BTreeSet<String> {
    let file = read(&format!("packaging/systemd/env/{program}.env"));
    let unit = read(&format!("packaging/systemd/system/mfaas-{program}.service"));
    let in_file = file.lines().map(|line| line.strip_prefix('#').unwrap_or(line));
    let in_unit = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
    in_file
        .chain(in_unit)
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| name.starts_with("MFAAS_"))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[test]
fn environment_files_have_every_documented_variable_and_no_other() {
    let documented = documented();
    assert_eq!(documented.len(), PROGRAMS.len(), "a program has no variables in docs/operations.md");
    for (program, variables) in documented {
        assert_eq!(packaged(program), variables, "packaging/systemd/env/{program}.env");
    }
}

#[test]
fn units_and_users_are_those_of_the_documents() {
    let text = read("docs/operations.md");
    for (program, user) in PROGRAMS {
        let unit = read(&format!("packaging/systemd/system/mfaas-{program}.service"));
        let command = if program == "acquirer" {
            "`mfaas-builder acquire`".to_owned()
        } else {
            format!("`mfaas-{program}`")
        };
        let row = text.lines().find(|line| line.starts_with(&format!("| {command}"))).unwrap();
        assert!(row.ends_with(&format!("| `{user}` |")), "docs/operations.md: {row}");
        assert!(unit.contains(&format!("\nUser={user}\n")), "the unit of {program} has another user");
        let package = if program == "acquirer" { "builder" } else { program };
        let users = read(&format!("packaging/systemd/sysusers.d/mfaas-{package}.conf"));
        let is_made = user == "root" || users.lines().any(|line| line.starts_with(&format!("u {user} ")));
        assert!(is_made, "nobody makes {user}");
    }
}

/// `path mode user group` of the directories that `mfaas up` makes.
fn directories_of_the_supervisor() -> BTreeSet<String> {
    let layout = read("api/supervisor/src/layout.rs");
    let table = layout.split("const DIRECTORIES").nth(1).unwrap().split("];").next().unwrap();
    let rows = table.lines().filter_map(|line| line.trim().strip_prefix("directory("));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.trim_end_matches("),").split(", ").collect();
        let [path, mode, owner] = cells[..] else { panic!("layout.rs: {row}") };
        let path = path.trim_matches('"');
        let mode = mode.trim_start_matches("0o");
        let program = owner.trim_start_matches("Some(Role::").trim_end_matches(')').to_lowercase();
        let user = PROGRAMS.iter().find(|(name, _)| *name == program).map_or("root", |(_, user)| user);
        let group = match program.as_str() {
            "none" => "root",
            "node" => "mfaas-node",
            "broker" => "mfaas-broker",
            _ => "mfaas",
        };
        let ours = !OF_THE_SUPERVISOR.contains(&path);
        ours.then(|| format!("/var/lib/mfaas/{path} {mode:0>4} {user} {group}"))
    })
    .collect()
}

#[test]
fn packages_make_the_directories_that_mfaas_up_makes() {
    let mut made = BTreeSet::new();
    for package in ["server", "signer", "builder", "node", "broker", "isolation"] {
        for line in read(&format!("packaging/systemd/tmpfiles.d/mfaas-{package}.conf")).lines() {
            let mut fields = line.split_whitespace();
            if fields.next() == Some("d") {
                made.insert(fields.collect::<Vec<_>>().join(" "));
            }
        }
    }
    assert!(made.remove("/var/lib/mfaas 0711 root root"), "nobody makes the home");
    let wanted = directories_of_the_supervisor();
    assert!(wanted.len() > 10, "only {} directories were read from layout.rs", wanted.len());
    assert_eq!(made, wanted);
}
