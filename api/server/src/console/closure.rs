//! What a crate needs, drawn as a graph in layers and told as a list.
//!
//! The drawing is the same for the same closure. A cache knows of each crate everything that it needs, directly or not; the
//! graph has an arrow for each need that no other arrow leads to. The list says the same to those who do not see the graph.

use std::collections::BTreeMap;

use mfaas_catalog::{CrateClosure, CrateRow, KnownFacts};
use mfaas_ident::CrateName;
use mfaas_rules::crate_facts::UnsafeCode;

use super::allowlist::{Chip, chips};
use super::graph::{self, Edge, Graph, Node};
use super::rows::line;
use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;

/// A version of a crate with everything that it needs.
pub(super) struct Closure {
    pub(super) version: String,
    pub(super) rows: Vec<Needed>,
    /// Not drawn where there is nothing to draw, and where nobody would find his way.
    pub(super) graph: Option<Graph>,
    pub(super) too_large: bool,
}

/// A row of the list.
pub(super) struct Needed {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) chips: Vec<Chip>,
    /// The ends of its arrows.
    pub(super) needs: String,
}

/// The closures of those versions that the page has decisions about.
pub(super) async fn shown(
    app: &App,
    name: &CrateName,
    decisions: &[CrateRow],
) -> Result<Vec<Closure>, Refusal> {
    let mut closures = app.catalog.closures_of(name).await?;
    let is_decided = |closure: &Vec<CrateClosure>| {
        let root = closure.first().map(|root| &root.of);
        let of = |row: &CrateRow, root: &mfaas_rules::LinkedCrate| {
            (&row.allowed.version, &row.allowed.checksum) == (&root.version, &root.checksum)
        };
        root.is_some_and(|root| decisions.iter().any(|row| of(row, root)))
    };
    closures.retain(is_decided);
    let checksums: Vec<String> = closures.iter().flatten().map(|member| member.of.checksum.clone()).collect();
    let known = app.catalog.crate_facts(&checksums).await?;
    Ok(closures.iter().map(|closure| draw(closure, &known)).collect())
}

/// The list, and the graph if it helps.
fn draw(members: &[CrateClosure], known: &BTreeMap<String, KnownFacts>) -> Closure {
    let edges = edges(members);
    let facts = |member: &CrateClosure| known.get(&member.of.checksum);
    let needed = |(at, member): (usize, &CrateClosure)| {
        let ends = edges.iter().filter(|(from, _)| *from == at).map(|(_, to)| label(&members[*to]));
        let ends: Vec<String> = ends.collect();
        Needed {
            name: member.of.name.to_string(),
            version: line(&member.of.version.to_string()),
            chips: chips(facts(member)),
            needs: if ends.is_empty() { "nothing".to_owned() } else { ends.join(", ") },
        }
    };
    let too_large = members.len() > limits::GRAPH_CRATES_MAX;
    let is_drawn = members.len() > 1 && !too_large;
    Closure {
        version: members.first().map(|root| line(&root.of.version.to_string())).unwrap_or_default(),
        rows: members.iter().enumerate().map(needed).collect(),
        graph: is_drawn
            .then(|| graph::drawn(members.iter().map(|member| node(member, known)).collect(), &edges)),
        too_large,
    }
}

fn label(member: &CrateClosure) -> String {
    line(&format!("{} {}", member.of.name, member.of.version))
}

/// Who needs whom, without what follows from other edges. Whoever needs a crate needs more than that crate does, so that
/// no closure, whatever it says, has a circle.
fn edges(members: &[CrateClosure]) -> Vec<Edge> {
    let needs = |from: usize, to: usize| {
        let (from, to) = (&members[from], &members[to]);
        from.needs.len() > to.needs.len() && from.needs.contains(&to.of)
    };
    let all = || 0..members.len();
    let pairs = all().flat_map(|from| all().map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| needs(*from, *to) && !all().any(|by| needs(*from, by) && needs(by, *to)))
        .collect()
}

fn node(member: &CrateClosure, known: &BTreeMap<String, KnownFacts>) -> Node {
    let facts = known.get(&member.of.checksum);
    let (class, is_double) = match facts.map(|facts| facts.unsafe_code) {
        Some(UnsafeCode::None) => ("safe", false),
        Some(UnsafeCode::Counted) => ("unsafe", true),
        Some(UnsafeCode::Unknown) | None => ("unknown", false),
    };
    let link = Some(format!("/crates/{}", member.of.name));
    Node { is_double, link, ..Node::new(label(member), marks(facts), class) }
}

/// What the border says by its look, and what runs where the crate is built.
fn marks(facts: Option<&KnownFacts>) -> String {
    let Some(facts) = facts else { return "not examined".to_owned() };
    let counted = match facts.unsafe_code {
        UnsafeCode::None => "safe",
        UnsafeCode::Counted => "unsafe",
        UnsafeCode::Unknown => "unsafe code unknown",
    };
    let kinds = [(facts.kind.build_script, "build script"), (facts.kind.proc_macro, "procedural macro")];
    let kinds = kinds.into_iter().filter(|(is, _)| *is).map(|(_, word)| word);
    std::iter::once(counted).chain(kinds).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
