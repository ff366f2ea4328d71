//! What a crate needs, drawn as a graph in layers and told as a list.
//!
//! The drawing is the same for the same closure. A cache knows of each crate everything that it needs, directly or not; the
//! graph has an arrow for each need that no other arrow leads to. The list says the same to those who do not see the graph.

use std::collections::BTreeMap;

use mfaas_catalog::{CrateClosure, CrateRow, KnownFacts};
use mfaas_ident::CrateName;
use mfaas_rules::crate_facts::UnsafeCode;

use super::allowlist::{Chip, chips};
use super::rows::line;
use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;

/// What a letter of the graph takes in its monospaced fonts, at most, in units of the drawing.
const LETTER: usize = 9;
/// Height of a box, and between two; width of the way between two layers.
const BOX: usize = 44;
const GAP: usize = 16;
const WAY: usize = 64;

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

/// The drawing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) boxes: Vec<Node>,
    pub(super) arrows: Vec<Arrow>,
}

/// A crate in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) label: String,
    /// What is to be known of it, in words.
    pub(super) marks: String,
    /// How its border looks.
    pub(super) class: &'static str,
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
}

/// From the right of a box to the left of another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
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
        graph: is_drawn.then(|| graph(members, &edges, known)),
        too_large,
    }
}

fn label(member: &CrateClosure) -> String {
    line(&format!("{} {}", member.of.name, member.of.version))
}

/// Who needs whom, without what follows from other edges. Whoever needs a crate needs more than that crate does, so that
/// no closure, whatever it says, has a circle.
fn edges(members: &[CrateClosure]) -> Vec<(usize, usize)> {
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

/// The longest way from the crate itself to each, in arrows.
fn layers(members: &[CrateClosure], edges: &[(usize, usize)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(members[*at].needs.len()));
    let mut layers = vec![0; members.len()];
    for at in order {
        for (_, to) in edges.iter().filter(|(from, _)| *from == at) {
            layers[*to] = layers[*to].max(layers[at] + 1);
        }
    }
    layers
}

fn graph(members: &[CrateClosure], edges: &[(usize, usize)], known: &BTreeMap<String, KnownFacts>) -> Graph {
    let layers = layers(members, edges);
    let deepest = layers.iter().copied().max().unwrap_or(0);
    let mut boxes: Vec<Node> = members.iter().map(|member| node(member, known)).collect();
    let (mut x, mut height) = (GAP, 0);
    for layer in 0..=deepest {
        let of_layer = || (0..members.len()).filter(|at| layers[*at] == layer);
        let width = of_layer().map(|at| boxes[at].width).max().unwrap_or(0);
        let mut y = GAP;
        for at in of_layer() {
            (boxes[at].x, boxes[at].y, boxes[at].width) = (x, y, width);
            y += BOX + GAP;
        }
        height = height.max(y);
        x += width + WAY;
    }
    let arrow = |(from, to): &(usize, usize)| {
        let (from, to) = (&boxes[*from], &boxes[*to]);
        Arrow { from: (from.x + from.width, from.y + BOX / 2), to: (to.x, to.y + BOX / 2) }
    };
    let arrows = edges.iter().map(arrow).collect();
    Graph { width: x - WAY + GAP, height, boxes, arrows }
}

fn node(member: &CrateClosure, known: &BTreeMap<String, KnownFacts>) -> Node {
    let facts = known.get(&member.of.checksum);
    let marks = marks(facts);
    let label = label(member);
    let letters = label.chars().count().max(marks.chars().count());
    let class = match facts.map(|facts| facts.unsafe_code) {
        Some(UnsafeCode::None) => "safe",
        Some(UnsafeCode::Counted) => "unsafe",
        Some(UnsafeCode::Unknown) | None => "unknown",
    };
    Node { name: member.of.name.to_string(), label, marks, class, x: 0, y: 0, width: letters * LETTER + GAP }
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
