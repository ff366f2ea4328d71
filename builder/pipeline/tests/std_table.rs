//! The table of std's items against the std of the pinned toolchain: every stable item is offered
//! or refused, and every row speaks of something that is there. So do the symbols of std that images
//! have replaced.
//!
//! What std has is asked of the toolchain itself: its documentation tool lists a crate that
//! re-exports std, with the stability of each item. Nothing is committed that could grow old.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use mfaas_rules::profiles::image_layout::REPLACED;
use mfaas_rules::profiles::macros;
use mfaas_rules::profiles::std_items::{self, ItemRow, ROWS, Root, Treatment};

/// Variants are no items of their own in the listing.
const VARIANTS: &[&str] = &["Err", "None", "Ok", "Some"];
/// Fewer than this, and the listing was not understood; alloc has 28.
const ITEMS_MIN: usize = 25;

/// Stable items of one crate: path below the root, and the kinds that bear this name.
type Listing = BTreeMap<Vec<String>, Vec<String>>;

#[test]
fn every_stable_item_of_std_is_offered_or_refused() {
    for root in Root::ALL {
        let listing = list(root);
        assert!(listing.len() >= ITEMS_MIN, "{}: {} items were found", root.name(), listing.len());
        let unclassified: Vec<String> = listing
            .iter()
            .flat_map(|(path, kinds)| kinds.iter().map(move |kind| (path, kind)))
            .filter(|(path, kind)| !is_classified(root, path, kind))
            .map(|(path, kind)| format!("{kind} {}::{}", root.name(), path.join("::")))
            .collect();
        assert!(unclassified.is_empty(), "without a row: {unclassified:#?}");
        let stale = stale(root, &listing);
        assert!(stale.is_empty(), "rows about what is no stable item: {stale:#?}");
    }
}

/// The linker says nothing about a symbol that it was told to replace and that is not there.
#[test]
fn what_the_linker_replaces_is_in_std() {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output().unwrap();
    let libraries = String::from_utf8(output.stdout).unwrap();
    let libraries: Vec<String> = std::fs::read_dir(libraries.trim())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rlib"))
        .map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned())
        .collect();
    // Between zeros: as a name in an archive's or in an object's table.
    let is_there = |symbol: &str| {
        let name = format!("\0{symbol}\0");
        libraries.iter().any(|library| library.contains(&name))
    };
    assert!(is_there("rust_eh_personality") && !is_there("rust_eh_character"));
    let missing: Vec<&str> =
        REPLACED.iter().map(|(symbol, _)| *symbol).filter(|symbol| !is_there(symbol)).collect();
    assert!(missing.is_empty(), "not in this toolchain: {missing:?}");
}

/// A row decides about it, or about a module around it as a whole.
fn is_classified(root: Root, path: &[String], kind: &str) -> bool {
    let row = |length: usize| std_items::row_of(&path[..length]).filter(|row| row.roots.has(root));
    let is_whole =
        |length: usize| row(length).is_some_and(|row| !has_rows(root, &path[..length]) || row.refuses(&[]));
    if (1..path.len()).any(|length| path[0] != "prelude" && is_whole(length)) {
        return true;
    }
    let (name, module) = path.split_last().unwrap();
    let is_of_prelude = matches!(module, [first, _edition] if first == "prelude");
    if kind == "macro" && (module.is_empty() || is_of_prelude) {
        return macros::ROWS.iter().any(|row| row.name == name && row.roots.has(root));
    }
    // Each edition's prelude holds those before it.
    let editions = ["v1", "rust_2021", "rust_2024"];
    let named = |edition: &str| {
        let path = ["prelude", edition, name].map(str::to_owned);
        std_items::row_of(&path).is_some_and(|row| row.roots.has(root))
    };
    row(path.len()).is_some() || (is_of_prelude && editions.into_iter().any(named))
}

fn has_rows(root: Root, module: &[String]) -> bool {
    let module = module.join("::");
    ROWS.iter().any(|row| row.module == module && row.roots.has(root))
}

fn stale(root: Root, listing: &Listing) -> Vec<String> {
    let is_listed = |row: &ItemRow, name: &str| {
        let mut path: Vec<String> = row.module.split("::").map(str::to_owned).collect();
        path.retain(|segment| !segment.is_empty());
        path.push(name.to_owned());
        listing.contains_key(&path) || VARIANTS.contains(&name)
    };
    let items = ROWS.iter().filter(|row| row.roots.has(root)).flat_map(|row| {
        row.names.iter().filter(|name| !is_listed(row, name)).map(|name| format!("{}::{name}", row.module))
    });
    let macros = macros::ROWS
        .iter()
        .filter(|row| row.roots.has(root))
        .filter(|row| {
            !listing
                .get(&vec![row.name.to_owned()])
                .is_some_and(|kinds| kinds.iter().any(|kind| kind == "macro"))
        })
        .map(|row| format!("{}!", row.name));
    items.chain(macros).collect()
}

/// Documents a crate that re-exports everything of `root`, and reads the pages of its modules.
fn list(root: Root) -> Listing {
    let directory = tempfile::tempdir().unwrap();
    let (name, source) = (root.name(), directory.path().join("listing.rs"));
    let text = match root {
        Root::Std => "#[doc(inline)] pub use std::*;".to_owned(),
        Root::Core => "#![no_std] #[doc(inline)] pub use core::*;".to_owned(),
        Root::Alloc => "#![no_std] extern crate alloc as real; #[doc(inline)] pub use real::*;".to_owned(),
    };
    std::fs::write(&source, text).unwrap();
    let output = Command::new("rustdoc")
        .args([
            "--edition=2024",
            "--crate-name=listing",
            "-Zunstable-options",
            "--document-hidden-items",
            "-o",
        ])
        .arg(directory.path())
        .arg(&source)
        // Stability is shown by every toolchain; hidden items only on request, which is unstable.
        .env("RUSTC_BOOTSTRAP", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let mut listing = Listing::new();
    read_module(root, &directory.path().join("listing"), &[], &mut listing);
    listing
}

/// Modules are followed as far as the table has rows about what is in them.
fn read_module(root: Root, pages: &Path, module: &[String], listing: &mut Listing) {
    let page = std::fs::read_to_string(pages.join(module.join("/")).join("index.html")).unwrap();
    for entry in page.split("<dt").skip(1) {
        let entry = entry.split("</dt>").next().unwrap();
        let Some((kind, title)) = title(entry) else { continue };
        if entry.contains("stab unstable") {
            continue;
        }
        let name = title.rsplit("::").next().unwrap().to_owned();
        let path = [module, &[name]].concat();
        if kind == "mod" && (path[0] == "prelude" || has_rows(root, &path)) {
            read_module(root, pages, &path, listing);
        }
        listing.entry(path).or_default().push(kind);
    }
}

/// `<a class="KIND" href="…" title="KIND PATH">`
fn title(entry: &str) -> Option<(String, String)> {
    let (_, link) = entry.split_once("<a class=\"")?;
    let (kind, rest) = link.split_once('"')?;
    let (title, _) = rest.split_once("title=\"")?.1.split_once('"')?;
    Some((kind.to_owned(), title.split_once(' ')?.1.to_owned()))
}

/// A reason becomes the name of a `cfg` in generated source, and is found again in the compiler's
/// words by its text.
#[test]
fn reasons_can_be_written_into_source() {
    for (what, why) in
        ROWS.iter().map(|row| (row.module, row.why)).chain(macros::ROWS.iter().map(|row| (row.name, row.why)))
    {
        assert!(!why.is_empty() && !why.contains(['"', '\\', '\n']), "{what}: {why}");
    }
}

/// A capability lifts a refusal; one that lifts nothing would be granted for nothing.
#[test]
fn only_refusals_have_capabilities() {
    for row in ROWS.iter().filter(|row| row.capability.is_some()) {
        assert!(matches!(row.treatment, Treatment::Refuse | Treatment::MachineCode), "{row:?}");
    }
}
