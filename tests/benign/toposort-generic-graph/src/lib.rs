//! What has to be done before what.
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct Graph<N> {
    after: BTreeMap<N, BTreeSet<N>>,
}

impl<N: Ord + Copy> FromIterator<(N, Option<N>)> for Graph<N> {
    fn from_iter<I: IntoIterator<Item = (N, Option<N>)>>(edges: I) -> Self {
        let mut after: BTreeMap<N, BTreeSet<N>> = BTreeMap::new();
        for (from, to) in edges {
            after.entry(from).or_default().extend(to);
            if let Some(to) = to {
                after.entry(to).or_default();
            }
        }
        Self { after }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    Grey,
    Black,
}

impl<N: Ord + Copy> Graph<N> {
    /// The first in order among those that wait for nothing.
    fn order(&self) -> Vec<N> {
        let mut waits: BTreeMap<N, usize> = self.after.keys().map(|node| (*node, 0)).collect();
        for to in self.after.values().flatten() {
            *waits.entry(*to).or_default() += 1;
        }
        let mut ready: BTreeSet<N> = waits.iter().filter(|(_, n)| **n == 0).map(|(node, _)| *node).collect();
        let mut order = Vec::new();
        while let Some(node) = ready.pop_first() {
            order.push(node);
            for to in &self.after[&node] {
                if let Some(n) = waits.get_mut(to) {
                    *n -= 1;
                    if *n == 0 {
                        ready.insert(*to);
                    }
                }
            }
        }
        order
    }

    fn cycle(&self) -> Option<Vec<N>> {
        let (mut colours, mut path) = (BTreeMap::new(), Vec::new());
        self.after.keys().find_map(|node| self.visit(*node, &mut colours, &mut path))
    }

    fn visit(&self, node: N, colours: &mut BTreeMap<N, Colour>, path: &mut Vec<N>) -> Option<Vec<N>> {
        path.push(node);
        match colours.insert(node, Colour::Grey) {
            Some(Colour::Grey) => {
                let from = path.iter().position(|seen| *seen == node)?;
                return Some(path[from..].to_vec());
            }
            Some(Colour::Black) => {}
            None => {
                for to in &self.after[&node] {
                    if let found @ Some(_) = self.visit(*to, colours, path) {
                        return found;
                    }
                }
            }
        }
        colours.insert(node, Colour::Black);
        path.pop();
        None
    }

    fn longest(&self, order: &[N]) -> Vec<N> {
        let mut best: BTreeMap<N, Vec<N>> = BTreeMap::new();
        for node in order.iter().rev() {
            let tail = self.after[node].iter().map(|to| &best[to]).max_by_key(|path| path.len());
            let path = std::iter::once(*node).chain(tail.into_iter().flatten().copied()).collect();
            best.insert(*node, path);
        }
        best.into_values().rev().max_by_key(Vec::len).unwrap_or_default()
    }
}

fn answer(text: &str) -> Result<String, String> {
    let edge = |word| match str::split_once(word, '>') {
        Some((_, "") | ("", _)) => Err(format!("an edge without an end: {word}")),
        Some((from, to)) => Ok((from, Some(to))),
        None => Ok((word, None)),
    };
    let graph: Graph<&str> = text.split_whitespace().map(edge).collect::<Result<_, _>>()?;
    if let Some(cycle) = graph.cycle() {
        return Err(format!("cycle {}", cycle.join(" ")));
    }
    match graph.order() {
        order if order.is_empty() => Err("an empty graph".to_owned()),
        order => Ok(format!("order {}; longest {}", order.join(" "), graph.longest(&order).join(" "))),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
