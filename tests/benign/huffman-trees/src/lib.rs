//! Huffman codes: ties go to what came first.
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

enum Tree {
    Leaf(char),
    Inner(Box<Tree>, Box<Tree>),
}

struct Weighted {
    weight: usize,
    /// Breaks ties, so that the result is one.
    order: usize,
    tree: Tree,
}

impl Ord for Weighted {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.weight, self.order).cmp(&(other.weight, other.order))
    }
}
impl PartialOrd for Weighted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Weighted {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Weighted {}

fn build(text: &str) -> Option<Tree> {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    text.chars().for_each(|c| *counts.entry(c).or_insert(0) += 1);
    let mut heap: BinaryHeap<Reverse<Weighted>> = counts
        .into_iter()
        .enumerate()
        .map(|(order, (c, weight))| Reverse(Weighted { weight, order, tree: Tree::Leaf(c) }))
        .collect();
    let mut order = heap.len();
    while let Some(Reverse(first)) = heap.pop() {
        let Some(Reverse(second)) = heap.pop() else { return Some(first.tree) };
        let tree = Tree::Inner(Box::new(first.tree), Box::new(second.tree));
        heap.push(Reverse(Weighted { weight: first.weight + second.weight, order, tree }));
        order += 1;
    }
    None
}

fn codes(tree: &Tree, prefix: &mut String, into: &mut BTreeMap<char, String>) {
    match tree {
        Tree::Leaf(c) => {
            let code = if prefix.is_empty() { "0".to_owned() } else { prefix.clone() };
            into.insert(*c, code);
        }
        Tree::Inner(left, right) => {
            for (bit, branch) in [('0', left), ('1', right)] {
                prefix.push(bit);
                codes(branch, prefix, into);
                prefix.pop();
            }
        }
    }
}

fn decode(tree: &Tree, bits: &str) -> String {
    let mut out = String::new();
    let mut at = tree;
    for bit in bits.chars() {
        if let Tree::Inner(left, right) = at {
            at = if bit == '0' { left } else { right };
        }
        if let Tree::Leaf(c) = at {
            out.push(*c);
            at = tree;
        }
    }
    out
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(request) else { return b"not UTF-8".to_vec() };
    let Some(tree) = build(text) else { return b"nothing to encode".to_vec() };
    let mut table = BTreeMap::new();
    codes(&tree, &mut String::new(), &mut table);
    let bits: String = text.chars().map(|c| &*table[&c]).collect();
    assert_eq!(decode(&tree, &bits), text);
    table.iter().map(|(c, code)| format!("{c}={code}")).collect::<Vec<_>>().join(" ").into_bytes()
}
