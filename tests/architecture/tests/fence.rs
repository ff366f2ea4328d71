//! Where `unsafe` may stand.

use mfaas_architecture::{crates, read, tracked_files};

const FENCED: &[&str] =
    &["policy/confine", "node-runtime/shim", "node-runtime/ring", "node-runtime/executor", BENCHMARK];

/// Calls out of opened libraries and interrupts itself, for what mfaas is compared to. Nothing that
/// ships is linked with it.
const BENCHMARK: &str = "bench";

/// The text of every image's entry: exporting a symbol needs the word `unsafe` since edition 2024.
const ENTRY: &str = "builder/toolchain/entry.rs";

fn rust_files() -> impl Iterator<Item = String> {
    tracked_files().into_iter().filter(|file| {
        file.ends_with(".rs") && !file.starts_with("tests/hostile/") && !file.contains("/fixtures/")
    })
}

#[test]
fn only_fenced_crates_lift_the_ban_on_unsafe() {
    for file in rust_files() {
        let fenced = FENCED.iter().any(|directory| file.starts_with(&format!("{directory}/")));
        let lifts = read(&file).lines().any(|line| {
            let line = line.trim_start();
            line.starts_with('#') && line.contains("allow(") && line.contains("unsafe_code")
        });
        assert!(fenced || !lifts || file == ENTRY, "{file} lifts the ban on unsafe outside of the fence");
    }
}

#[test]
fn the_entry_exports_a_symbol_and_does_nothing_unsafe() {
    let code: String = read(ENTRY).lines().filter_map(|line| line.split("//").next()).collect();
    assert_eq!(code.matches("unsafe").count(), 2, "one lint, one attribute");
    assert!(
        code.contains("#[unsafe(no_mangle)]") && !code.contains("unsafe {") && !code.contains("unsafe fn")
    );
}

/// The facade's own `Path` is std's under another type: a pointer is cast, and nothing else.
#[test]
fn the_facade_casts_paths_and_does_nothing_else_unsafe() {
    let directory = "builder/toolchain/facade/";
    for file in rust_files().filter(|file| file.starts_with(directory)) {
        let text = read(&file);
        let code: String = text.lines().filter_map(|line| line.split("//").next()).collect();
        let casts = if file.ends_with("/path.rs") { 3 } else { 0 };
        assert_eq!(code.matches("unsafe").count(), casts, "{file}");
        assert_eq!(code.matches("unsafe {").count(), casts, "{file}: blocks only");
        assert_eq!(text.matches("// SAFETY: INV-FACADE-1").count(), casts, "{file}");
    }
}

#[test]
fn nothing_that_ships_knows_the_benchmark() {
    for read_crate in crates().values() {
        assert!(!read_crate.external.contains("mfaas-bench-node"), "{} links the benchmark", read_crate.name);
        assert!(
            !read_crate.directory.starts_with(BENCHMARK),
            "{} is no part of the workspace",
            read_crate.name
        );
    }
}

/// Without `[lints] workspace = true` a crate would escape the table.
#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    for read_crate in crates().values() {
        let manifest = read(&format!("{}/Cargo.toml", read_crate.directory));
        let table = manifest.split("[lints]").nth(1).unwrap_or_default();
        assert!(
            table.trim_start().starts_with("workspace = true"),
            "{} does not take the workspace's lints",
            read_crate.name
        );
    }
}

/// A SAFETY comment names an invariant that the crate's own documentation lists.
#[test]
fn safety_comments_name_listed_invariants() {
    for directory in FENCED {
        let sources: Vec<(String, String)> = rust_files()
            .filter(|file| file.starts_with(&format!("{directory}/src/")))
            .map(|file| (file.clone(), read(&file)))
            .collect();
        let listed: String = sources
            .iter()
            .flat_map(|(_, text)| text.lines())
            .filter(|line| line.trim_start().starts_with("//!"))
            .collect();
        for (file, text) in &sources {
            for (number, line) in text.lines().enumerate().filter(|(_, line)| line.contains("// SAFETY:")) {
                let named = line
                    .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                    .find(|word| word.starts_with("INV-"));
                let Some(named) = named else { panic!("{file}:{}: SAFETY names no invariant", number + 1) };
                assert!(
                    listed.contains(named),
                    "{file}:{}: {named} is not listed in a module's doc",
                    number + 1
                );
            }
        }
    }
}
