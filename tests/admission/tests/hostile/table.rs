//! The threat table: which layer stops how many cases of each family, and which would have.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;
use mfaas_harness::checkout;
use mfaas_rules::Layer;

use crate::case::Case;
use crate::ladder::{Climb, End};

/// The layers of admission, in the order of the pipeline.
const LAYERS: &[Layer] = &[
    Layer::Archive,
    Layer::Manifest,
    Layer::Lexer,
    Layer::Expansion,
    Layer::Soundness,
    Layer::Facade,
    Layer::Compiler,
    Layer::DepInfo,
    Layer::Linker,
    Layer::Binary,
    Layer::MachineCode,
    Layer::ThrowawayLoad,
    Layer::Sandbox,
];
/// The lines of docs/threat-model.md between which the table stands.
const BEGIN: &str =
    "<!-- threat table: written by `MFAAS_BLESS=1 cargo test -p mfaas-admission --test hostile` -->";
const END: &str = "<!-- end of the threat table -->";

/// Prints the table and holds the document to it.
pub(crate) fn keep(cases: &[Case], climbs: &[Climb]) -> anyhow::Result<()> {
    let table = table(cases, climbs);
    println!("\n{table}");
    let idle: Vec<&str> = LAYERS
        .iter()
        .filter(|layer| !climbs.iter().any(|climb| stands(climb, **layer)))
        .map(|layer| layer.as_str())
        .collect();
    println!(
        "layers that stopped nothing: {}",
        if idle.is_empty() { "none".to_owned() } else { idle.join(", ") }
    );
    let path = checkout().join("docs/threat-model.md");
    let text = std::fs::read_to_string(&path)?;
    let (before, rest) = text.split_once(BEGIN).context("docs/threat-model.md has no place for the table")?;
    let (kept, after) = rest.split_once(END).context("docs/threat-model.md does not end its table")?;
    if std::env::var_os("MFAAS_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))?;
    } else {
        anyhow::ensure!(kept.trim() == table.trim(), "the table of docs/threat-model.md is not today's");
    }
    Ok(())
}

fn stands(climb: &Climb, layer: Layer) -> bool {
    climb.rungs.iter().any(|rung| rung.layer == layer)
}

/// A row for each family; `12 + 3` is: stops 12, and 3 more if what stops those were off.
fn table(cases: &[Case], climbs: &[Climb]) -> String {
    let mut families: BTreeMap<&str, Vec<&Climb>> = BTreeMap::new();
    for (case, climb) in cases.iter().zip(climbs) {
        families.entry(case.family()).or_default().push(climb);
    }
    let mut text = "| family | cases |".to_owned();
    LAYERS.iter().for_each(|layer| text.push_str(&format!(" {} |", layer.as_str())));
    text.push_str(" admitted, contained | then image | then error | then limit |\n|");
    text.push_str(&" --- |".repeat(LAYERS.len() + 6));
    for (family, climbs) in &families {
        let _ = write!(text, "\n| {family} | {} |", climbs.len());
        for layer in LAYERS {
            let first = climbs
                .iter()
                .filter(|climb| climb.rungs.first().is_some_and(|rung| rung.layer == *layer))
                .count();
            let later = climbs.iter().filter(|climb| stands(climb, *layer)).count() - first;
            match (first, later) {
                (0, 0) => text.push_str("  |"),
                (first, 0) => drop(write!(text, " {first} |")),
                (first, later) => drop(write!(text, " {first} + {later} |")),
            }
        }
        let admitted = climbs.iter().filter(|climb| climb.rungs.is_empty()).count();
        let ends = |wanted: fn(&End) -> bool| {
            climbs.iter().filter(|climb| !climb.rungs.is_empty() && wanted(&climb.end)).count()
        };
        let _ = write!(
            text,
            " {admitted} | {} | {} | {} |",
            ends(|end| matches!(end, End::Image(_))),
            ends(|end| matches!(end, End::CompileError | End::Unreadable | End::Review)),
            ends(|end| *end == End::Limit)
        );
    }
    text.push('\n');
    text
}
