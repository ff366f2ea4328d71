//! A drawing of boxes in layers, with an arrow for each edge: `web/templates/graph.html` prints it.
//!
//! It ends for every graph, also where a cycle is in it, and is the same for the same boxes and edges. What the boxes are
//! it must never know.

use std::collections::BTreeSet;

/// What a letter takes in the monospaced fonts of the drawing, at most, in its units.
const LETTER: usize = 9;
/// Height of a box, as the template has it, and between two; width of the way between two layers.
const BOX: usize = 44;
const GAP: usize = 16;
const WAY: usize = 64;

/// From a box to another one, by their places in the list.
pub(super) type Edge = (usize, usize);

/// The drawing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) boxes: Vec<Node>,
    pub(super) arrows: Vec<Arrow>,
}

/// A box.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) label: String,
    /// What is to be known of it, in words.
    pub(super) marks: String,
    /// How its border looks.
    pub(super) class: &'static str,
    /// The border is drawn twice.
    pub(super) is_double: bool,
    /// The page that it leads to, if there is one.
    pub(super) link: Option<String>,
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
}

impl Node {
    /// One without a place yet, as wide as its words.
    pub(super) fn new(label: String, marks: String, class: &'static str) -> Self {
        let letters = label.chars().count().max(marks.chars().count());
        let width = letters * LETTER + GAP;
        Self { label, marks, class, is_double: false, link: None, x: 0, y: 0, width }
    }
}

/// From the right of a box to the left of another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
    /// The curve of one that leads back and closes a cycle; others are straight.
    pub(super) back: Option<String>,
}

/// Gives each box its place: behind all boxes that an arrow to it begins at, but for those that lead back.
pub(super) fn drawn(mut boxes: Vec<Node>, edges: &[Edge]) -> Graph {
    let walk = Walk::new(boxes.len(), edges);
    let layers = walk.layers();
    // A curve that leads back needs room around the boxes.
    let margin = if walk.back.is_empty() { GAP } else { WAY };
    let deepest = layers.iter().copied().max().unwrap_or(0);
    let (mut x, mut height) = (margin, 0);
    for layer in 0..=deepest {
        let of_layer = || (0..layers.len()).filter(|at| layers[*at] == layer);
        let width = of_layer().map(|at| boxes[at].width).max().unwrap_or(0);
        let mut y = GAP;
        for at in of_layer() {
            (boxes[at].x, boxes[at].y, boxes[at].width) = (x, y, width);
            y += BOX + GAP;
        }
        height = height.max(y);
        x += width + WAY;
    }
    let arrows = edges.iter().map(|edge| arrow(&boxes, *edge, walk.back.contains(edge))).collect();
    Graph { width: x - WAY + margin, height: height - GAP + margin, boxes, arrows }
}

/// Whether following arrows leads to where it began, from some box.
pub(super) fn has_cycle(boxes: usize, edges: &[Edge]) -> bool {
    !Walk::new(boxes, edges).back.is_empty()
}

fn arrow(boxes: &[Node], (from, to): Edge, is_back: bool) -> Arrow {
    let (from, to) = (&boxes[from], &boxes[to]);
    let ((x1, y1), (x2, y2)) = ((from.x + from.width, from.y + BOX / 2), (to.x, to.y + BOX / 2));
    // Below the boxes that it joins, between its ends within the margins.
    let curve = || {
        let (right, left) = (x1 + WAY, x2.saturating_sub(WAY));
        format!("M{x1} {y1}C{right} {} {left} {} {x2} {y2}", y1 + BOX, y2 + BOX)
    };
    Arrow { from: (x1, y1), to: (x2, y2), back: is_back.then(curve) }
}

/// A walk along all arrows that goes deep first.
struct Walk {
    /// Where the arrows of each box lead.
    ends: Vec<Vec<usize>>,
    /// Arrows to a box that the walk was on its way from: the others are without a cycle.
    back: BTreeSet<Edge>,
    /// Each box before those that its other arrows lead to.
    order: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Not,
    /// The walk is behind it.
    Open,
    Done,
}

impl Walk {
    /// Begins at the first box, and at each that was not met.
    fn new(boxes: usize, edges: &[Edge]) -> Self {
        let mut ends = vec![Vec::new(); boxes];
        for (from, to) in edges {
            ends[*from].push(*to);
        }
        let mut walk = Self { ends, back: BTreeSet::new(), order: Vec::new() };
        let mut visits = vec![Visit::Not; boxes];
        for start in 0..boxes {
            walk.from(start, &mut visits);
        }
        walk.order.reverse();
        walk
    }

    /// Without recursion: a chain may be as long as there are boxes.
    fn from(&mut self, start: usize, visits: &mut [Visit]) {
        let mut way = Vec::new();
        if visits[start] == Visit::Not {
            visits[start] = Visit::Open;
            way.push((start, 0));
        }
        while let Some((at, tried)) = way.last_mut() {
            let at = *at;
            let next = self.ends[at].get(*tried).copied();
            *tried += 1;
            match next.map(|next| (next, visits[next])) {
                Some((next, Visit::Not)) => {
                    visits[next] = Visit::Open;
                    way.push((next, 0));
                }
                Some((next, Visit::Open)) => {
                    self.back.insert((at, next));
                }
                Some((_, Visit::Done)) => {}
                None => {
                    visits[at] = Visit::Done;
                    self.order.push(at);
                    way.pop();
                }
            }
        }
    }

    /// The longest way to each box, in arrows that do not lead back.
    fn layers(&self) -> Vec<usize> {
        let mut layers = vec![0; self.ends.len()];
        for &at in &self.order {
            for &to in self.ends[at].iter().filter(|to| !self.back.contains(&(at, **to))) {
                layers[to] = layers[to].max(layers[at] + 1);
            }
        }
        layers
    }
}

#[cfg(test)]
mod tests;
