#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::Digest;
use mfaas_rules::crate_facts::{CompilerCount, Pair};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn source_file(path: &str, role: &str, unsafe_: usize) -> Value {
    let (none, some) = (json!({"safe": 0, "unsafe": 0}), json!({"safe": 0, "unsafe": unsafe_}));
    let counts = json!({ "functions": none, "exprs": some, "impls": none, "traits": none, "methods": none });
    let kinds = if unsafe_ == 0 { json!({}) } else { json!({ "unsafe": unsafe_ }) };
    json!({
        "path": path, "role": role, "bytes": 9, "geiger": { "counted": { "counts": counts, "forbids_unsafe": false } },
        "tokens": { "tokens": 9, "counts": kinds, "spots": [] },
    })
}

fn report(version: &str, change: impl FnOnce(&mut Value)) -> CrateReport {
    let none = json!({"safe": 0, "unsafe": 0});
    let mut report = json!({
        "revision": 1, "name": "left-pad", "version": version, "checksum": Digest::of(version.as_bytes()),
        "features": ["std"], "target": "x86_64-unknown-linux-gnu",
        "archive": { "bytes": 9, "unpacked_bytes": 9, "files": 4, "binaries": [], "native_sources": [], "unread": [] },
        "source": {
            "package": null, "exported_macros": [], "proc_macro": false, "build_script": false, "unread": [],
            "files": [source_file("src/lib.rs", "library", 0), source_file("tests/t.rs", "aside", 5)],
            "summary": { "unsafe": "none", "reasons": [], "token_spots": 0, "geiger": {
                "functions": none, "exprs": none, "impls": none, "traits": none, "methods": none } },
        },
        "compiler": "clean", "touches": { "classes": [], "unread": [] }, "shapes": { "shapes": [], "unread": [] },
        "licence": { "expression": "MIT", "file": null },
        "kind": { "proc_macro": false, "build_script": false, "links": null, "edition": "2021" },
        "published": null, "yanked": null, "needs": [],
    });
    change(&mut report);
    serde_json::from_value(report).unwrap()
}

fn texts(files: &[(&str, &str)]) -> Texts {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn lines_are_counted_by_file_and_by_kind() {
    let (old, new) = (report("1.0.0", |_| ()), report("1.0.1", |_| ()));
    let before = texts(&[
        ("Cargo.toml", "[package]\n"),
        ("README.md", "a\nb\n"),
        ("src/lib.rs", "one\ntwo\nthree\n"),
        ("tests/t.rs", "x\n"),
    ]);
    let after = texts(&[
        ("Cargo.toml", "[package]\n"),
        ("README.md", "a\r\nb\n"),
        ("src/lib.rs", "one\n2\nthree\nfour"),
        ("src/new.rs", "a\nb"),
    ]);
    let found = delta((&old, &before), (&new, &after), Instant::now());
    let rows: Vec<_> = found
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.change.as_str(), file.code, file.added, file.removed))
        .collect();
    assert_eq!(
        rows,
        [
            ("README.md", "changed", false, 1, 1),
            ("src/lib.rs", "changed", true, 2, 1),
            ("src/new.rs", "added", true, 2, 0),
            ("tests/t.rs", "removed", false, 0, 1),
        ]
    );
    assert_eq!(found.code, LineDelta { files: 2, added: 4, removed: 1 });
    assert_eq!(found.other, LineDelta { files: 2, added: 1, removed: 2 });
    assert_eq!((found.from.unkept, found.to.unkept), (0, 0));
    let volumes = volumes(&new, &after);
    assert_eq!((volumes.code, volumes.other.lines), (Volume { files: 3, lines: 7 }, 2));
}

#[test]
fn what_is_too_large_or_too_slow_counts_as_a_whole() {
    let reports = (report("1.0.0", |_| ()), report("1.0.1", |_| ()));
    let large = |word: &str| "x\n".repeat(LINES_MAX) + word;
    let (old, new) = (texts(&[("src/lib.rs", &large("a"))]), texts(&[("src/lib.rs", &large("b"))]));
    let found = delta((&reports.0, &old), (&reports.1, &new), Instant::now());
    let all = LINES_MAX as u64 + 1;
    assert_eq!((found.code.added, found.code.removed), (all, all));
    assert!(found.files[0].whole.contains("more than 100000 lines"), "{}", found.files[0].whole);
    let past = Instant::now().checked_sub(CRATE_TIME_MAX).unwrap();
    let (old, new) = (texts(&[("src/lib.rs", "a\nb\n")]), texts(&[("src/lib.rs", "a\nc\n")]));
    let found = delta((&reports.0, &old), (&reports.1, &new), past);
    assert_eq!((found.code.added, found.code.removed, found.files[0].whole.is_empty()), (2, 2, false));
}

#[test]
fn capabilities_and_dependencies_come_and_go() {
    let need = |name: &str, version: &str| json!({ "name": name, "version": version, "checksum": Digest::of(version.as_bytes()) });
    let touch = |class: &str, count: u64| json!({ "class": class, "count": count, "spots": [] });
    let old = report("1.0.0", |report| {
        report["touches"]["classes"] = json!([touch("fs", 2), touch("env", 1)]);
        report["needs"] = json!([need("a", "1.0.0"), need("b", "1.0.0"), need("c", "1.0.0")]);
    });
    let new = report("1.1.0", |report| {
        report["touches"]["classes"] = json!([touch("net", 3), touch("env", 1)]);
        report["needs"] =
            json!([need("a", "1.0.0"), need("b", "2.0.0"), need("b", "3.0.0"), need("d", "1.0.0")]);
        report["kind"]["build_script"] = json!(true);
        report["features"] = json!(["alloc"]);
        report["compiler"] = json!({ "unsafe": { "errors": 4, "spots": [] } });
        report["source"]["files"] = json!([source_file("src/lib.rs", "library", 3)]);
    });
    let found = facts(&old, &new);
    let classes: Vec<_> = found.touches.iter().map(|row| (row.places.from, row.places.to)).collect();
    assert_eq!(classes, [(2, 0), (0, 3)], "what stays the same is not named");
    assert_eq!(found.hotspots.iter().map(|row| (row.count.from, row.count.to)).collect::<Vec<_>>(), [(0, 3)]);
    assert_eq!(found.geiger, Pair { from: Some(0), to: Some(3) });
    assert_eq!(found.compiler, Pair { from: CompilerCount::Errors(0), to: CompilerCount::Errors(4) });
    assert!(found.build_script.differs() && !found.proc_macro.differs());
    assert_eq!(
        (found.features.came.join(","), found.features.went.join(",")),
        ("alloc".into(), "std".into())
    );
    let named = |needs: &[mfaas_rules::crate_facts::NeedVersion]| {
        needs.iter().map(|need| format!("{} {}", need.name, need.version)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        (named(&found.needs_came), named(&found.needs_went)),
        ("b 3.0.0, d 1.0.0".into(), "c 1.0.0".into())
    );
    let change = &found.needs_changed[0];
    assert_eq!((change.name.as_str(), change.version.to.to_string()), ("b", "2.0.0".to_owned()));
}

#[test]
fn an_unreadable_file_is_no_zero_of_geiger() {
    let old = report("1.0.0", |_| ());
    let new = report("1.0.1", |report| {
        report["source"]["files"][0]["geiger"] = json!({ "unknown": { "reason": "no Rust" } });
        report["compiler"] = json!({ "not_run": { "reason": "nobody asked" } });
    });
    let found = facts(&old, &new);
    assert_eq!((found.geiger.to, found.compiler.to), (None, CompilerCount::Unknown));
}

/// Texts of few different lines, with and without an end, so that runs are alike.
fn text() -> impl Strategy<Value = String> {
    (prop::collection::vec(prop::sample::select(vec!["a", "b", "", "}", "c\r"]), 0..60), any::<bool>())
        .prop_map(|(lines, ended)| lines.join("\n") + if ended { "\n" } else { "" })
}

proptest! {
    #[test]
    fn applying_the_blocks_to_the_old_text_gives_the_new_one(old in text(), new in text()) {
        let found = blocks(&old, &new, later()).unwrap();
        let (before, after): (Vec<_>, Vec<_>) =
            (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
        let mut made = String::new();
        let (mut at_old, mut at_new) = (0, 0);
        for block in &found {
            prop_assert_eq!((block.old.start, block.new.start), (at_old, at_new), "a gap");
            (at_old, at_new) = (block.old.end, block.new.end);
            let from = if block.same { &before[block.old.clone()] } else { &after[block.new.clone()] };
            made.extend(from.iter().copied());
        }
        prop_assert_eq!((at_old, at_new), (before.len(), after.len()));
        prop_assert_eq!(&made, &new);
        let (added, removed) = lines::changed(&found);
        prop_assert_eq!(
            i128::from(added) - i128::from(removed),
            i128::from(line_count(&new)) - i128::from(line_count(&old))
        );
        prop_assert_eq!(added + removed == 0, old == new);
    }

    #[test]
    fn the_way_back_is_the_same_way(old in text(), new in text()) {
        let there = lines::changed(&blocks(&old, &new, later()).unwrap());
        let back = lines::changed(&blocks(&new, &old, later()).unwrap());
        prop_assert_eq!(there, (back.1, back.0));
    }

    #[test]
    fn a_text_is_the_same_as_itself(text in text()) {
        prop_assert_eq!(lines::changed(&blocks(&text, &text, later()).unwrap()), (0, 0));
    }

    #[test]
    fn any_characters_can_be_compared(old in any::<String>(), new in any::<String>()) {
        let found = blocks(&old, &new, later()).unwrap();
        prop_assert_eq!(lines::changed(&found) == (0, 0), old == new);
    }
}
