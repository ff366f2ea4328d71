#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use askama::Template;

use super::{BOX, Edge, GAP, Graph, Node, WAY, Walk, drawn, has_cycle};

fn boxes(count: usize) -> Vec<Node> {
    (0..count).map(|at| Node::new(format!("box {at}"), "a mark".to_owned(), "live")).collect()
}

/// The partial alone.
#[derive(Template)]
#[template(path = "graph.html")]
struct Alone {
    graph: Graph,
    nth: usize,
}

#[test]
fn a_box_stands_behind_all_that_lead_to_it() {
    let diamond = [(0, 2), (0, 3), (2, 1), (3, 1)];
    assert_eq!(Walk::new(4, &diamond).layers(), [0, 2, 1, 1]);
    let further = [(0, 1), (0, 2), (1, 2), (2, 3), (0, 3)];
    assert_eq!(Walk::new(5, &further).layers(), [0, 1, 2, 3, 0]);
}

#[test]
fn what_leads_back_is_drawn_as_a_curve_and_moves_no_box() {
    let cycle = [(0, 1), (1, 2), (2, 0), (2, 2)];
    assert_eq!(Walk::new(3, &cycle).layers(), [0, 1, 2]);
    let graph = drawn(boxes(3), &cycle);
    let is_back: Vec<bool> = graph.arrows.iter().map(|arrow| arrow.back.is_some()).collect();
    assert_eq!(is_back, [false, false, true, true]);
    let page = Alone { graph, nth: 1 }.render().unwrap();
    assert_eq!((page.matches("<line ").count(), page.matches("<path class=\"back\" ").count()), (2, 2));
}

/// Whether some box is reached from itself, told by following arrows as often as there are boxes.
fn is_cyclic(count: usize, edges: &[Edge]) -> bool {
    (0..count).any(|start| {
        let mut reached: Vec<usize> = vec![start];
        for _ in 0..count {
            reached = edges.iter().filter(|(from, _)| reached.contains(from)).map(|(_, to)| *to).collect();
            if reached.contains(&start) {
                return true;
            }
        }
        false
    })
}

#[test]
fn every_graph_of_four_boxes_is_drawn_within_its_drawing() {
    let pairs: Vec<Edge> = (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).collect();
    for graph in 0_u32..1 << pairs.len() {
        let edges: Vec<Edge> = pairs
            .iter()
            .enumerate()
            .filter(|(bit, _)| graph >> bit & 1 == 1)
            .map(|(_, edge)| *edge)
            .collect();
        assert_eq!(has_cycle(4, &edges), is_cyclic(4, &edges), "{edges:?}");
        let Graph { width, height, boxes, arrows } = drawn(boxes(4), &edges);
        let margin = if arrows.iter().any(|arrow| arrow.back.is_some()) { WAY } else { GAP };
        for (at, node) in boxes.iter().enumerate() {
            let fits = (margin..=width - margin - node.width).contains(&node.x)
                && (GAP..=height - margin - BOX).contains(&node.y);
            assert!(fits, "{edges:?}: {node:?} in {width} by {height}");
            let is_apart =
                |other: &Node| node.x.abs_diff(other.x) > node.width || node.y.abs_diff(other.y) > BOX;
            assert!(boxes[at + 1..].iter().all(is_apart), "{edges:?}: {boxes:?}");
        }
        assert_eq!(arrows.len(), edges.len());
        for arrow in &arrows {
            let leads_right = arrow.from.0 < arrow.to.0;
            assert_ne!(arrow.back.is_some(), leads_right, "{edges:?}: {arrow:?}");
        }
    }
}

#[test]
fn a_drawing_without_boxes_and_one_of_a_long_chain_end() {
    let nothing = drawn(Vec::new(), &[]);
    assert_eq!((nothing.boxes.len(), nothing.arrows.len()), (0, 0));
    let chain: Vec<Edge> = (1..1_000).map(|at| (at - 1, at)).collect();
    assert_eq!(Walk::new(1_000, &chain).layers(), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn words_are_escaped_and_only_a_box_with_a_page_is_a_link() {
    let hostile = "\"><script>alert(1)</script>";
    let mut boxes = vec![
        Node::new(hostile.to_owned(), hostile.to_owned(), "live"),
        Node::new("no page".to_owned(), String::new(), "foreign"),
    ];
    boxes[0].link = Some(format!("/functions/{hostile}"));
    let page = Alone { graph: drawn(boxes, &[(0, 1)]), nth: 7 }.render().unwrap();
    assert!(!page.contains("<script") && page.matches("&#60;script&#62;").count() == 3, "{page}");
    assert!(page.contains("<a href=\"/functions/&#34;&#62;"), "{page}");
    assert!(page.contains("<g class=\"foreign\">") && page.matches("<a ").count() == 1, "{page}");
    assert!(page.contains("id=\"tip-7\"") && page.contains("url(#tip-7)"), "{page}");
}
