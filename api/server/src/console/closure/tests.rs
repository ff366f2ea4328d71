#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;

use mfaas_catalog::{CrateClosure, KnownFacts};
use mfaas_rules::LinkedCrate;
use mfaas_rules::crate_facts::{CompilerVerdict, Count, GeigerCounts, KindFacts, UnsafeCode};

use super::{Graph, draw, edges, graph};
use crate::limits::GRAPH_CRATES_MAX;

fn linked(name: &str) -> LinkedCrate {
    LinkedCrate {
        name: name.parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
        checksum: format!("sum {name}"),
    }
}

fn member(name: &str, needs: &[&str]) -> CrateClosure {
    CrateClosure { of: linked(name), needs: needs.iter().map(|name| linked(name)).collect() }
}

fn diamond() -> Vec<CrateClosure> {
    vec![
        member("top", &["left", "right", "bottom"]),
        member("bottom", &[]),
        member("left", &["bottom"]),
        member("right", &["bottom"]),
    ]
}

fn facts(unsafe_code: UnsafeCode, build_script: bool, proc_macro: bool) -> KnownFacts {
    KnownFacts {
        unsafe_code,
        geiger: GeigerCounts { exprs: Count { safe: 1, unsafe_: 5 }, ..GeigerCounts::default() },
        compiler: CompilerVerdict::Clean,
        kind: KindFacts { proc_macro, build_script, links: None, edition: None },
    }
}

#[test]
fn an_arrow_is_drawn_only_where_no_other_way_leads_there() {
    assert_eq!(edges(&diamond()), [(0, 2), (0, 3), (2, 1), (3, 1)]);
}

#[test]
fn a_closure_that_claims_a_circle_is_drawn_without_one() {
    let members =
        [member("top", &["a", "b", "top"]), member("a", &["b", "a"]), member("b", &["a", "b", "top"])];
    let edges = edges(&members);
    assert_eq!(edges, [(0, 1), (2, 1)]);
    assert!(!graph::has_cycle(members.len(), &edges));
}

#[test]
fn boxes_say_what_runs_and_what_is_unsafe_and_lead_to_their_crate() {
    let known = BTreeMap::from([
        ("sum top".to_owned(), facts(UnsafeCode::None, false, false)),
        ("sum left".to_owned(), facts(UnsafeCode::Counted, true, false)),
        ("sum right".to_owned(), facts(UnsafeCode::Unknown, false, true)),
    ]);
    let closure = draw(&diamond(), &known);
    let Graph { boxes, arrows, .. } = closure.graph.unwrap();
    let told: Vec<_> =
        boxes.iter().map(|node| (node.label.as_str(), node.marks.as_str(), node.class)).collect();
    assert_eq!(
        told,
        [
            ("top 1.0.0", "safe", "safe"),
            ("bottom 1.0.0", "not examined", "unknown"),
            ("left 1.0.0", "unsafe, build script", "unsafe"),
            ("right 1.0.0", "unsafe code unknown, procedural macro", "unknown"),
        ]
    );
    let doubles: Vec<&str> =
        boxes.iter().filter(|node| node.is_double).map(|node| node.label.as_str()).collect();
    assert_eq!(doubles, ["left 1.0.0"]);
    assert_eq!(boxes[0].link.as_deref(), Some("/crates/top"));
    assert_eq!(arrows.len(), 4);
    let needs: Vec<&str> = closure.rows.iter().map(|row| row.needs.as_str()).collect();
    assert_eq!(needs, ["left 1.0.0, right 1.0.0", "nothing", "bottom 1.0.0", "bottom 1.0.0"]);
}

#[test]
fn a_closure_that_is_too_large_or_holds_nothing_is_listed_alone() {
    let names: Vec<String> = (0..GRAPH_CRATES_MAX).map(|at| format!("c{at}")).collect();
    let of = |count: usize| {
        let needs: Vec<&str> = names[..count].iter().map(String::as_str).collect();
        let leaves = needs.iter().map(|name| member(name, &[])).collect::<Vec<_>>();
        let members: Vec<CrateClosure> = std::iter::once(member("top", &needs)).chain(leaves).collect();
        draw(&members, &BTreeMap::new())
    };
    let (alone, fits, over) = (of(0), of(GRAPH_CRATES_MAX - 1), of(GRAPH_CRATES_MAX));
    assert_eq!((alone.graph.is_some(), alone.too_large), (false, false));
    assert_eq!((fits.graph.is_some(), fits.too_large), (true, false));
    assert_eq!((over.graph.is_some(), over.too_large, over.rows.len()), (false, true, GRAPH_CRATES_MAX + 1));
}
