//! The crates that stand in for std, core and alloc: re-exports of what the table offers, and
//! nothing else.
//!
//! A path that is not offered does not exist for whoever is compiled against them, whatever name
//! or glob it is reached by, and the compiler says so at that line. A refused item stays behind a
//! `cfg` that is never set and bears the reason as its name: the compiler repeats it. Nothing here
//! decides what is offered: that is `mfaas_rules::profiles::std_items`.

use std::fmt::Write as _;

use mfaas_rules::Code;
use mfaas_rules::codes;
use mfaas_rules::profiles::macros::{self, MacroRow, MacroRule};
use mfaas_rules::profiles::std_items::{
    COMPILER_CRATES, COMPILER_CRATES_WHY, Capability, ItemRow, ROWS, Root, Roots, Treatment, row_of,
};

/// Where the sources of our own crates claim to lie; the compiler's notes about refused items name
/// files below it.
pub(crate) const CLAIMED_ROOT: &str = "/mfaas/facade/";
/// The crate of the types that are ours.
const OWN_CRATE: &str = "mfaas_own";
/// Its root among the files.
const OWN_ROOT: &str = "facade/own.rs";

macro_rules! own_sources {
    ($($file:literal),* $(,)?) => {
        /// Path among our own crates' sources, and text.
        const OWN_SOURCES: &[(&str, &str)] =
            &[$((concat!("facade/", $file), include_str!(concat!("../../../toolchain/facade/", $file)))),*];
    };
}

own_sources![
    "backtrace.rs",
    "own.rs",
    "path.rs",
    "path/buf.rs",
    "path/component.rs",
    "path/conversions.rs",
    "thread.rs",
];

/// One crate to compile.
#[derive(Debug, Clone)]
pub(super) struct Crate {
    /// Its own name: different for each set of capabilities, since two sets can meet in one image.
    pub(super) name: String,
    /// The name under which it is given to a compilation.
    pub(super) extern_name: &'static str,
    /// Its root file among the sources.
    pub(super) file: String,
    /// The text, if it is generated.
    text: Option<String>,
}

/// The crate that all stand-ins take the owned types from.
pub(super) fn own_crate() -> Crate {
    Crate { name: OWN_CRATE.to_owned(), extern_name: OWN_CRATE, file: OWN_ROOT.to_owned(), text: None }
}

/// The stand-ins for the crates of the compiler, which are the same for everybody.
pub(super) fn compiler_crates() -> Vec<Crate> {
    COMPILER_CRATES
        .iter()
        .map(|(name, items)| Crate {
            name: format!("mfaas_{name}"),
            extern_name: name,
            file: format!("facade/{name}.rs"),
            text: Some(compiler_crate_source(items)),
        })
        .collect()
}

/// The stand-ins for somebody who was granted these capabilities.
pub(super) fn stand_ins(granted: &[Capability]) -> Vec<Crate> {
    let set: String = granted.iter().map(|capability| format!("_{}", capability.name())).collect();
    Root::ALL
        .into_iter()
        .map(|root| Crate {
            name: format!("mfaas_{}{set}", root.name()),
            extern_name: root.name(),
            file: format!("facade/{}{set}.rs", root.name()),
            text: Some(source(root, granted)),
        })
        .collect()
}

/// Every file that these crates are compiled from, by its path among our own crates' sources.
pub(super) fn files(crates: &[Crate]) -> Vec<(String, String)> {
    let own = OWN_SOURCES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    own.chain(crates.iter().filter_map(|item| Some((item.file.clone(), item.text.clone()?)))).collect()
}

/// The reason of a refusal as the compiler repeats it, with its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) code: Code,
    pub(crate) why: String,
}

impl Reason {
    fn of_item(row: &ItemRow) -> Self {
        let machine_code = matches!(row.treatment, Treatment::MachineCode);
        Self { code: if machine_code { codes::MF0303 } else { codes::MF0307 }, why: row.why.to_owned() }
    }

    fn of_macro(row: &MacroRow) -> Self {
        let code = match row.rule {
            MacroRule::BuildInput => codes::MF0304,
            MacroRule::MachineCode => codes::MF0303,
            MacroRule::Allow | MacroRule::Refuse => codes::MF0306,
        };
        Self { code, why: format!("`{}!`: {}", row.name, row.why) }
    }

    /// Why the prelude lacks this attribute, if it is one that std's has.
    pub(crate) fn of_attribute(name: &str) -> Option<Self> {
        let mut rows = ROWS.iter().filter(|row| row.treatment == Treatment::Attribute);
        rows.find(|row| row.names.contains(&name)).map(Self::of_item)
    }

    /// `MF0307: a function has no files: use its request`.
    pub(crate) fn text(&self) -> String {
        format!("{}: {}", self.code, self.why)
    }

    /// The reason with this text, if a row of the tables has it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let items = ROWS.iter().map(Self::of_item);
        let all = items.chain(macros::ROWS.iter().map(Self::of_macro));
        let others =
            [NO_FILES, COMPILER_CRATES_WHY].map(|why| Self { code: codes::MF0307, why: why.to_owned() });
        all.chain(others).find(|reason| reason.text() == text)
    }

    /// What lifts the refusal for a dependency, if anything short of the whole library does.
    pub(crate) fn lifted_by(&self) -> Option<Capability> {
        let items = ROWS.iter().filter(|row| Self::of_item(row) == *self).filter_map(|row| row.capability);
        let macros = macros::ROWS.iter().filter(|row| Self::of_macro(row) == *self);
        items.chain(macros.filter_map(MacroRow::capability)).next()
    }
}

/// What the methods of our own `Path` say; the text stands in `builder/toolchain/facade/own.rs`.
const NO_FILES: &str = "a function has no files: use its request";

/// The source of one stand-in for somebody who was granted these capabilities.
fn source(root: Root, granted: &[Capability]) -> String {
    let mut text = head(root);
    Module { root, granted, path: String::new() }.write(&mut text);
    write_macros(root, granted, &mut text);
    write_prelude(root, &mut text);
    text
}

fn head(root: Root) -> String {
    let name = root.name();
    let mut text = format!(
        "//! What stands in for `{name}`: re-exports of what is offered. Generated.\n\
         #![allow(unexpected_cfgs, deprecated, hidden_glob_reexports, missing_docs)]\n"
    );
    if root != Root::Std {
        text.push_str("#![no_std]\n");
    }
    if root == Root::Alloc {
        text.push_str("extern crate alloc as real;\n");
    }
    text
}

/// The crate that is re-exported. Within a stand-in of `alloc` that name is a module.
fn real(root: Root) -> &'static str {
    match root {
        Root::Alloc => "real",
        Root::Std | Root::Core => root.name(),
    }
}

fn has_rows(path: &str, root: Root) -> bool {
    ROWS.iter().any(|row| row.module == path && row.roots.has(root))
}

/// One module of a stand-in.
struct Module<'a> {
    root: Root,
    granted: &'a [Capability],
    path: String,
}

impl Module<'_> {
    fn write(&self, text: &mut String) {
        for row in ROWS.iter().filter(|row| row.module == self.path) {
            let is_internal = row.treatment == Treatment::Internal || row.refuses(&[]);
            if row.roots.has(self.root) {
                row.names.iter().for_each(|name| self.write_item(row, name, text));
            } else if row.roots == Roots::No && is_internal {
                row.names.iter().for_each(|name| gate(row, name, text));
            }
        }
    }

    fn write_item(&self, row: &ItemRow, name: &str, text: &mut String) {
        let below = if self.path.is_empty() { name.to_owned() } else { format!("{}::{name}", self.path) };
        // The prelude is written with the macros that it holds.
        if below == "prelude" || row.treatment == Treatment::Attribute {
            return;
        }
        if row.refuses(self.granted) {
            gate(row, name, text);
        } else if has_rows(&below, self.root) {
            let _ = writeln!(text, "pub mod {name} {{");
            Module { path: below, ..*self }.write(text);
            text.push_str("}\n");
        } else if row.treatment == Treatment::Own {
            let _ = writeln!(text, "pub use {OWN_CRATE}::{below};");
        } else {
            let _ = writeln!(text, "pub use ::{}::{below};", real(self.root));
        }
    }
}

/// An item that is not there, and the reason why. What it would be does not matter.
fn gate(row: &ItemRow, name: &str, text: &mut String) {
    let _ = writeln!(text, "#[cfg(feature = {:?})] pub mod {name} {{}}", Reason::of_item(row).text());
}

/// A crate of the compiler: all that can be named of it is refused.
fn compiler_crate_source(items: &[&str]) -> String {
    let reason = Reason { code: codes::MF0307, why: COMPILER_CRATES_WHY.to_owned() }.text();
    let mut text =
        String::from("//! Not offered to functions. Generated.\n#![no_std]\n#![allow(unexpected_cfgs)]\n");
    for name in items {
        let _ = writeln!(text, "#[cfg(feature = {reason:?})] pub mod {name} {{}}");
    }
    text
}

/// Whether a module of that name stands at the root, so that one `use` would bring in both or
/// collide.
fn is_module(name: &str, root: Root) -> bool {
    row_of(&[name.to_owned()]).is_some_and(|row| row.roots.has(root))
}

fn refuses_macro(row: &MacroRow, granted: &[Capability]) -> bool {
    row.rule != MacroRule::Allow && !row.capability().is_some_and(|needed| granted.contains(&needed))
}

/// The macros of the root. One whose name is also that of a module comes through a glob, which the
/// module shadows for modules alone; a refused one ends the compilation with its reason.
fn write_macros(root: Root, granted: &[Capability], text: &mut String) {
    let mut shadowed = String::new();
    for row in macros::ROWS.iter().filter(|row| row.roots.has(root)) {
        let name = identifier(row.name);
        if refuses_macro(row, granted) {
            let _ = writeln!(
                text,
                "#[macro_export] macro_rules! {name} {{ ($($t:tt)*) => {{ $crate::__refuse! {{ {:?} }} }} }}",
                Reason::of_macro(row).text()
            );
        } else if !is_module(row.name, root) {
            let _ = writeln!(text, "pub use ::{}::{name};", real(root));
        } else if row_of(&[row.name.to_owned()]).is_some_and(|row| row.treatment != Treatment::Offer) {
            let _ = write!(shadowed, "pub use ::{}::{name};", real(root));
        }
    }
    if root != Root::Alloc {
        let _ = writeln!(text, "#[doc(hidden)] pub use ::core::compile_error as __refuse;");
    }
    if !shadowed.is_empty() {
        let _ = writeln!(text, "mod both {{ {shadowed} }}\npub use both::*;");
    }
}

fn identifier(name: &str) -> String {
    if name == "try" { "r#try".to_owned() } else { name.to_owned() }
}

/// The names that need no path. The compiler takes std's macros from here.
fn write_prelude(root: Root, text: &mut String) {
    if root == Root::Alloc {
        return;
    }
    let names: Vec<&MacroRow> = macros::ROWS.iter().filter(|row| row.roots.has(root)).collect();
    let modules: String = names
        .iter()
        .filter(|row| is_module(row.name, root))
        .map(|row| format!("mod {} {{}} ", row.name))
        .collect();
    // Only the macro of such a name can leave this module.
    let _ = writeln!(text, "mod macros_only {{ {modules} pub use crate::*; }}\npub mod prelude {{");
    let real = real(root);
    let offered = |module: &str| -> String {
        let rows = ROWS.iter().filter(|row| row.module == module && row.treatment == Treatment::Offer);
        rows.filter(|row| row.roots.has(root))
            .flat_map(|row| row.names)
            .map(|name| format!("{name}, "))
            .collect()
    };
    let macro_names: String = names.iter().map(|row| format!("{}, ", identifier(row.name))).collect();
    let _ = writeln!(text, "pub mod v1 {{ pub use ::{real}::prelude::v1::{{{}}};", offered("prelude::v1"));
    let _ = writeln!(text, "pub use crate::macros_only::{{{macro_names}}}; }}");
    for (edition, before) in
        [("rust_2015", "v1"), ("rust_2018", "v1"), ("rust_2021", "v1"), ("rust_2024", "rust_2021")]
    {
        let _ = write!(text, "pub mod {edition} {{ pub use super::{before}::*; ");
        let own = offered(&format!("prelude::{edition}"));
        if !own.is_empty() {
            let _ = write!(text, "pub use ::{real}::prelude::{edition}::{{{own}}}; ");
        }
        text.push_str("}\n");
    }
    text.push_str("}\n");
}

#[cfg(test)]
mod tests;
