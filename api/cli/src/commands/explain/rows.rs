//! What the rules allow and refuse, as lists for a person: read from the rows that judge, never copied.

use std::collections::BTreeSet;

use mfaas_rules::Code;
use mfaas_rules::profiles::attributes::{self, LINKAGE, MACHINE_CODE};
use mfaas_rules::profiles::imports;
use mfaas_rules::profiles::instructions::RELOCATIONS;
use mfaas_rules::profiles::macros::{self, MacroRule};
use mfaas_rules::profiles::std_items::{self, ItemRow, Treatment};

/// Columns of text before a list's line is broken.
const COLUMNS_MAX: usize = 110;

/// One list: a heading, and names by the reason that they share.
#[derive(Debug)]
pub(super) struct List {
    heading: &'static str,
    /// Reason and names, in the order of the rows.
    groups: Vec<(&'static str, Vec<String>)>,
}

impl List {
    fn new(heading: &'static str, rows: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let mut groups: Vec<(&'static str, Vec<String>)> = Vec::new();
        for (why, name) in rows {
            match groups.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(name),
                None => groups.push((why, vec![name])),
            }
        }
        Self { heading, groups }
    }

    /// Heading, then each reason with its names below.
    pub(super) fn draw(&self) -> String {
        let mut text = self.heading.to_owned();
        for (why, names) in &self.groups {
            text.push_str(&format!("\n  {why}:"));
            let mut column = COLUMNS_MAX;
            for name in names {
                if column + name.len() + 1 > COLUMNS_MAX {
                    text.push_str("\n   ");
                    column = 3;
                }
                text.push(' ');
                text.push_str(name);
                column += name.len() + 1;
            }
        }
        text
    }

    /// For scripts.
    pub(super) fn document(&self) -> serde_json::Value {
        let groups: Vec<_> = self
            .groups
            .iter()
            .map(|(why, names)| serde_json::json!({ "why": why, "names": names }))
            .collect();
        serde_json::json!({ "heading": self.heading, "groups": groups })
    }
}

/// The lists behind a code; none for most.
pub(super) fn of(code: Code) -> Vec<List> {
    match code.id() {
        "MF0302" => vec![List::new(
            "Attributes about symbols, sections and libraries, all refused:",
            LINKAGE.iter().map(|name| ("they give power over the linker", (*name).to_owned())),
        )],
        "MF0303" => machine_code(),
        "MF0304" => vec![List::new("Macros that are refused for this:", macros_that(MacroRule::BuildInput))],
        "MF0305" => vec![List::new(
            "The allowed attributes, and why; all others are refused:",
            attributes::ROWS.iter().map(|row| (row.why, row.path.to_owned())),
        )],
        "MF0306" => vec![
            List::new("Macros of std that are refused with this code:", macros_that(MacroRule::Refuse)),
            List::new(
                "Refused as files and variables of the build machine (MF0304):",
                macros_that(MacroRule::BuildInput),
            ),
            List::new("Refused as machine code (MF0303):", macros_that(MacroRule::MachineCode)),
            List::new("Macros of std that are offered:", macros_that(MacroRule::Allow)),
        ],
        "MF0307" => vec![
            List::new(
                "Parts of std, core and alloc that are refused:",
                items_that(|row| {
                    matches!(row.treatment, Treatment::Refuse | Treatment::Internal | Treatment::Close)
                }),
            ),
            List::new("Refused as machine code (MF0303):", items_that(is_machine_code)),
            List::new(
                "Offered as types of our own, without the authority:",
                items_that(|row| row.treatment == Treatment::Own),
            ),
            List::new(
                "Offered below a part that is mostly refused:",
                items_that(|row| row.treatment == Treatment::Offer && !row.module.is_empty()),
            ),
        ],
        "MF0308" => vec![List::new(
            "Macros of std whose `unsafe` is audited:",
            macros::AUDITED.iter().map(|row| (row.why, row.name.to_owned())),
        )],
        "MF0407" | "MF0504" => vec![List::new(
            "Symbols that an image may import:",
            imports::ROWS.iter().map(|row| (row.why, row.symbol.to_owned())),
        )],
        "MF0506" => vec![List::new(
            "Relocations that an image may have:",
            RELOCATIONS.iter().map(|row| (row.why, format!("R_X86_64_{}", row.name))),
        )],
        _ => Vec::new(),
    }
}

fn machine_code() -> Vec<List> {
    let attributes = MACHINE_CODE.iter().map(|name| ("attributes", format!("#[{name}]")));
    let macros = macros_that(MacroRule::MachineCode).map(|(_, name)| ("macros", name));
    let paths = items_that(is_machine_code).map(|(_, path)| ("modules of std and core", path));
    vec![List::new("Refused as machine code:", attributes.chain(macros).chain(paths))]
}

fn macros_that(rule: MacroRule) -> impl Iterator<Item = (&'static str, String)> {
    let name = |name: &str| format!("{}!", name.trim_start_matches("r#"));
    macros::ROWS.iter().filter(move |row| row.rule == rule).map(move |row| (row.why, name(row.name)))
}

fn is_machine_code(row: &ItemRow) -> bool {
    row.treatment == Treatment::MachineCode
}

fn items_that(wanted: impl Fn(&ItemRow) -> bool) -> impl Iterator<Item = (&'static str, String)> {
    let mut known = BTreeSet::new();
    std_items::ROWS
        .iter()
        .filter(move |row| wanted(row))
        .flat_map(|row| row.names.iter().map(|name| (row.why, path(row.module, name))))
        .filter(move |(_, path)| known.insert(path.clone()))
}

fn path(module: &str, name: &str) -> String {
    if module.is_empty() { format!("std::{name}") } else { format!("std::{module}::{name}") }
}
