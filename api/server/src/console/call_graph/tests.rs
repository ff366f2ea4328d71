#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_catalog::{CallGraphFunction, DirectCallers};
use mfaas_ident::VersionNumber;

use super::{CallGraph, Callers, direct_callers, draw};
use crate::limits::{
    CALLERS_LOOKED_AT_MAX, CONSOLE_ROWS_MAX, GRAPH_FUNCTIONS_LISTED_MAX, GRAPH_FUNCTIONS_MAX,
};

fn function(name: &str, version: Option<u32>, calls: &[&str]) -> CallGraphFunction {
    CallGraphFunction {
        name: name.parse().unwrap(),
        live_version: version.map(|version| VersionNumber::new(version).unwrap()),
        calls: calls.iter().map(|callee| callee.parse().unwrap()).collect(),
        is_deployed: version.is_some(),
    }
}

fn nobody() -> Callers {
    direct_callers(DirectCallers { names: Vec::new(), looked_at: 1 })
}

fn shown(functions: &[CallGraphFunction]) -> CallGraph {
    draw(functions.to_vec(), nobody())
}

#[test]
fn boxes_and_rows_tell_own_functions_from_those_without_a_version_and_of_other_tenants() {
    // One of the same name was deployed here.
    let foreign = CallGraphFunction { is_deployed: true, ..function("shop/rank", None, &[]) };
    let waiting = CallGraphFunction { is_deployed: true, ..function("waiting", None, &[]) };
    let graph = shown(&[
        function("top", Some(3), &["gone", "shop/rank", "waiting"]),
        function("gone", None, &[]),
        foreign,
        waiting,
    ]);
    let rows: Vec<_> = graph
        .rows
        .iter()
        .map(|row| (row.name.as_str(), row.live.as_str(), row.calls.as_str(), row.link.as_deref()))
        .collect();
    assert_eq!(
        rows,
        [
            ("top", "3", "gone, shop/rank, waiting", Some("/functions/top")),
            ("gone", "no live version", "–", None),
            ("shop/rank", "of another tenant", "–", None),
            ("waiting", "no live version", "–", Some("/functions/waiting")),
        ]
    );
    assert_eq!((graph.has_cycle, graph.too_large, graph.is_cut), (false, false, false));
    let boxes = graph.graph.unwrap().boxes;
    let told: Vec<_> = boxes
        .iter()
        .map(|node| (node.label.as_str(), node.marks.as_str(), node.class, node.link.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("top", "version 3", "live", Some("/functions/top")),
            ("gone", "no live version", "absent", None),
            ("shop/rank", "of another tenant", "foreign", None),
            ("waiting", "no live version", "absent", Some("/functions/waiting")),
        ]
    );
    assert_eq!(
        rows_of_calls(&[function("top", Some(1), &["leaf"]), function("leaf", Some(1), &[])]),
        ["leaf", "nothing"]
    );
}

fn rows_of_calls(functions: &[CallGraphFunction]) -> Vec<String> {
    shown(functions).rows.into_iter().map(|row| row.calls).collect()
}

#[test]
fn a_cycle_is_told_and_drawn_and_a_function_that_calls_nothing_has_no_drawing() {
    let graph = shown(&[function("a", Some(1), &["b"]), function("b", Some(1), &["a"])]);
    assert!(graph.has_cycle && !graph.calls_nothing());
    assert_eq!(graph.graph.unwrap().arrows.iter().filter(|arrow| arrow.back.is_some()).count(), 1);
    let itself = shown(&[function("a", Some(1), &["a"])]);
    assert!(itself.has_cycle && !itself.calls_nothing() && itself.graph.is_some());
    let alone = shown(&[function("a", None, &[])]);
    assert!(alone.calls_nothing() && alone.graph.is_none());
}

#[test]
fn more_functions_than_a_graph_can_show_are_listed_and_no_more_than_the_list_can_hold() {
    let names: Vec<String> = (1..=GRAPH_FUNCTIONS_LISTED_MAX).map(|at| format!("f{at}")).collect();
    let of = |count: usize| {
        let names: Vec<&str> = names[..count - 1].iter().map(String::as_str).collect();
        let leaves = names.iter().map(|name| function(name, Some(1), &[]));
        let functions: Vec<_> = std::iter::once(function("f0", Some(1), &names)).chain(leaves).collect();
        let graph = shown(&functions);
        (graph.graph.is_some(), graph.too_large, graph.is_cut, graph.rows.len())
    };
    let (drawn, listed) = (GRAPH_FUNCTIONS_MAX, GRAPH_FUNCTIONS_LISTED_MAX as usize);
    assert_eq!(of(drawn), (true, false, false, drawn));
    assert_eq!(of(drawn + 1), (false, true, false, drawn + 1));
    assert_eq!(of(listed), (false, true, false, listed));
    assert_eq!(of(listed + 1), (false, true, true, listed));
}

#[test]
fn as_many_callers_are_shown_as_rows_and_those_that_were_not_looked_at_are_told() {
    let names = |count: u32| (0..count).map(|at| format!("f{at}").parse().unwrap()).collect();
    let all =
        direct_callers(DirectCallers { names: names(CONSOLE_ROWS_MAX), looked_at: CALLERS_LOOKED_AT_MAX });
    assert_eq!((all.names.len(), all.is_cut, all.looked_at), (CONSOLE_ROWS_MAX as usize, false, None));
    let looked_at = CALLERS_LOOKED_AT_MAX + 1;
    let cut = direct_callers(DirectCallers { names: names(CONSOLE_ROWS_MAX + 1), looked_at });
    assert_eq!(
        (cut.names.len(), cut.is_cut, cut.looked_at),
        (CONSOLE_ROWS_MAX as usize, true, Some(looked_at))
    );
}
