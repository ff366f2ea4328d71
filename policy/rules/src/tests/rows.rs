use std::{collections::BTreeSet, fmt::Write as _};

use crate::{
    Code, POLICY_REVISION, codes, limits,
    profiles::{
        attributes, image_layout, imports, instructions, lints, macros, manifest_keys, seccomp, std_items,
    },
};

/// Codes are forever: a changed line here is a broken promise to every client.
#[test]
fn the_table_of_codes_is_what_it_was() {
    let table: String = codes::ALL.iter().map(|code| format!("{code} {}\n", code.title())).collect();
    insta::assert_snapshot!("codes", table);
}

#[test]
fn codes_are_unique_ordered_and_parse_back() {
    let ids: Vec<&str> = codes::ALL.iter().map(|code| code.id()).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len());
    assert!(ids.is_sorted());
    for code in codes::ALL {
        assert_eq!(Code::parse(code.id()), Some(*code));
        assert!(
            code.title().ends_with('.') && code.hint().ends_with('.'),
            "{code}: sentences end with a dot"
        );
        let json = serde_json::to_string(code).unwrap();
        assert_eq!(serde_json::from_str::<Code>(&json).unwrap(), *code);
    }
    assert!(serde_json::from_str::<Code>("\"MF9999\"").is_err());
}

/// The revision is part of signed statements: rows that change under the same name would make two
/// policies look like one. The snapshot's file bears the revision's name.
#[test]
fn the_rows_of_this_revision_are_what_they_were() {
    let mut dump = String::new();
    for row in attributes::ROWS {
        writeln!(dump, "attribute {}", row.path).unwrap();
    }
    for row in macros::ROWS {
        writeln!(dump, "macro {} {:?} {:?}", row.name, row.roots, row.rule).unwrap();
    }
    for row in macros::AUDITED {
        writeln!(dump, "audited {} {}", row.kind, row.name).unwrap();
    }
    for row in std_items::ROWS {
        let names = row.names.join(" ");
        writeln!(dump, "std {} {:?} {:?} {:?} {names}", row.module, row.roots, row.treatment, row.capability)
            .unwrap();
    }
    for row in manifest_keys::ROWS {
        writeln!(dump, "key {}", row.path.join(".")).unwrap();
    }
    for row in imports::ROWS {
        writeln!(dump, "import {} {:?}", row.symbol, row.binding).unwrap();
    }
    for row in instructions::RELOCATIONS {
        writeln!(dump, "relocation {} {}", row.number, row.name).unwrap();
    }
    for lint in lints::required() {
        writeln!(dump, "lint {lint}").unwrap();
    }
    writeln!(dump, "layout {}\n{}", image_layout::ALIGN_ARGUMENT, image_layout::LINKER_SCRIPT).unwrap();
    for flag in image_layout::shim_flags("shim.rlib") {
        writeln!(dump, "shim {flag}").unwrap();
    }
    for row in seccomp::WORKER {
        writeln!(dump, "worker {row:?}").unwrap();
    }
    for row in seccomp::COMPILER {
        writeln!(dump, "compiler {row:?}").unwrap();
    }
    writeln!(
        dump,
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        mfaas_ident::Class::ALL.map(|class| (class, limits::calls(class))),
        limits::ARCHIVE,
        limits::MANIFEST,
        limits::LEXER,
        limits::COMPILE,
        limits::BINARY
    )
    .unwrap();
    insta::assert_snapshot!(format!("policy-{POLICY_REVISION}"), dump);
}

#[test]
fn no_table_names_a_thing_twice() {
    fn assert_unique<T: Ord + std::fmt::Debug>(what: &str, items: impl Iterator<Item = T>) {
        let mut seen = BTreeSet::new();
        for item in items {
            let shown = format!("{item:?}");
            assert!(seen.insert(item), "{what}: {shown} has two rows");
        }
    }
    assert_unique("attributes", attributes::ROWS.iter().map(|row| row.path));
    assert_unique("lints", lints::required());
    assert_unique("macros", macros::ROWS.iter().map(|row| row.name));
    assert_unique(
        "items",
        std_items::ROWS.iter().flat_map(|row| row.names.iter().map(|name| (row.module, *name))),
    );
    assert_unique("keys", manifest_keys::ROWS.iter().map(|row| row.path));
    assert_unique("imports", imports::ROWS.iter().map(|row| row.symbol));
    let refused: BTreeSet<&str> = imports::REFUSED.iter().map(|row| row.symbol).collect();
    for row in imports::ROWS {
        assert!(!refused.contains(row.symbol), "{} is offered and refused", row.symbol);
    }
}

/// A shape finds its own row, and the page of the code tells of every lint.
#[test]
fn every_soundness_lint_has_its_row_and_its_place_on_the_page() {
    let page = include_str!("../../../../docs/errors/MF0314.md");
    for row in lints::ROWS {
        assert_eq!(lints::row(row.shape).id, row.id);
        assert!(page.contains(&format!("## {}\n", row.id)), "{} is not on the page", row.id);
        assert!(page.contains(row.instead) && page.contains(row.refused), "{}: the page is stale", row.id);
        assert!(row.instead.ends_with('.') && !row.why.ends_with('.'), "{}", row.id);
    }
    let required: Vec<&str> = lints::required().collect();
    for lint in lints::COMPILER {
        assert!(required.contains(lint));
    }
    assert!(required.contains(&lints::SOLVER_AGREEMENT));
}
