#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

/// What the source brings in from the real crate: the path behind each `pub use ::std::`.
fn re_exports(text: &str, root: Root) -> Vec<String> {
    let start = format!("pub use ::{}::", real(root));
    text.split(&start).skip(1).map(|rest| rest.split(';').next().unwrap().to_owned()).collect()
}

fn gated(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| line.strip_prefix("#[cfg(feature = \"")?.split_once("\")] pub mod "))
        .map(|(reason, item)| (item.trim_end_matches(" {}").to_owned(), reason.to_owned()))
        .collect()
}

#[test]
fn a_function_is_given_nothing_that_the_table_refuses() {
    for root in Root::ALL {
        let text = source(root, &[]);
        let given = re_exports(&text, root);
        let gated: Vec<String> = gated(&text).into_iter().map(|(item, _)| item).collect();
        for row in ROWS.iter().filter(|row| row.roots.has(root) && row.refuses(&[])) {
            for name in row.names {
                let path = if row.module.is_empty() {
                    (*name).to_owned()
                } else {
                    format!("{}::{name}", row.module)
                };
                let is_below = |found: &String| *found == path || found.starts_with(&format!("{path}::"));
                assert!(!given.iter().any(is_below), "{path} is given");
                // Below a module that is refused as a whole there is nothing to gate.
                let is_reached = !row.module.split("::").any(|part| gated.iter().any(|item| item == part));
                assert!(!is_reached || gated.iter().any(|item| item == name), "{path} has no reason");
            }
        }
        for row in macros::ROWS.iter().filter(|row| row.roots.has(root)) {
            let is_given = given.iter().any(|found| *found == identifier(row.name) || found == row.name);
            let is_own = text.contains(&format!("macro_rules! {} ", row.name));
            assert_eq!(is_own, row.rule != MacroRule::Allow, "{}", row.name);
            assert!(is_own || is_given, "{} is missing", row.name);
        }
        assert!(!text.contains("global_allocator"));
        assert!(!given.iter().any(|found| found.starts_with("prelude::v1;") || found == "prelude"));
    }
}

/// The types without authority come from our own crate, never from std.
#[test]
fn owned_types_are_ours() {
    let text = source(Root::Std, &[]);
    for path in ["path::Path", "path::PathBuf", "path::Component", "thread::current"] {
        assert!(text.contains(&format!("pub use mfaas_own::{path};")), "{path}");
        assert!(!re_exports(&text, Root::Std).contains(&path.to_owned()), "{path}");
    }
}

#[test]
fn a_capability_lifts_its_own_refusals_and_no_others() {
    let (without, with) = (source(Root::Std, &[]), source(Root::Std, &[Capability::Abort]));
    let lifted: Vec<_> = gated(&without).into_iter().filter(|item| !gated(&with).contains(item)).collect();
    assert_eq!(lifted.len(), 1, "{lifted:?}");
    assert_eq!(lifted[0].0, "abort");
    assert!(re_exports(&with, Root::Std).contains(&"process::abort".to_owned()));
    assert!(source(Root::Core, &[Capability::MachineCode]).contains("pub use ::core::arch;"));
    assert!(source(Root::Std, &[Capability::BuildInput]).contains("pub use ::std::include_str;"));
    assert!(source(Root::Std, &[Capability::Backtrace]).contains("pub use mfaas_own::backtrace::Backtrace;"));
}

/// The compiler repeats a reason, and the refusal is found by it.
#[test]
fn every_reason_in_the_source_is_found_again() {
    for root in Root::ALL {
        let text = source(root, &[]);
        for (item, reason) in gated(&text) {
            assert_eq!(Reason::parse(&reason).unwrap().text(), reason, "{item}");
        }
        for refusal in text.split("$crate::__refuse! { \"").skip(1) {
            let reason = refusal.split('"').next().unwrap();
            assert_eq!(Reason::parse(reason).unwrap().text(), reason);
        }
    }
    let own = OWN_SOURCES.iter().find(|(path, _)| *path == OWN_ROOT).unwrap().1;
    let message = own.split("message = \"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(Reason::parse(message).unwrap().code, codes::MF0307);
    assert_eq!(Reason::parse("MF0307: because"), None);
    assert_eq!(Reason::of_attribute("global_allocator").unwrap().code, codes::MF0307);
    assert_eq!(Reason::of_attribute("inline"), None);
}

/// Two sets can meet in one image, where two crates of one name could not be told apart.
#[test]
fn every_set_has_its_own_names() {
    let sets: [&[Capability]; 3] = [&[], &[Capability::Abort], &[Capability::Abort, Capability::Unwind]];
    let crates: Vec<Crate> = sets.into_iter().flat_map(stand_ins).collect();
    let names: std::collections::BTreeSet<&str> = crates.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names.len(), crates.len());
    assert_eq!(files(&crates).len(), crates.len() + OWN_SOURCES.len());
}

/// A file of the owned types that is not carried would be missing at the next dependency build.
#[test]
fn the_owned_types_are_carried_whole() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolchain/facade");
    let mut found = Vec::new();
    for directory in ["", "path/"] {
        for entry in std::fs::read_dir(root.join(directory)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".rs") {
                found.push(format!("facade/{directory}{name}"));
            }
        }
    }
    found.sort();
    let carried: Vec<String> = OWN_SOURCES.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(found, carried);
}
