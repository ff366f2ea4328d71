//! An outline as a tree whose nodes know their parents.
use std::cell::RefCell;
use std::rc::{Rc, Weak};

struct Node {
    name: String,
    parent: RefCell<Weak<Node>>,
    children: RefCell<Vec<Rc<Node>>>,
}

impl Node {
    fn new(name: &str) -> Rc<Self> {
        Rc::new(Self { name: name.to_owned(), parent: RefCell::default(), children: RefCell::default() })
    }

    fn adopt(self: &Rc<Self>, child: &Rc<Node>) {
        *child.parent.borrow_mut() = Rc::downgrade(self);
        self.children.borrow_mut().push(Rc::clone(child));
    }

    fn path(&self) -> String {
        match self.parent.borrow().upgrade() {
            Some(parent) => format!("{}/{}", parent.path(), self.name),
            None => self.name.clone(),
        }
    }

    fn weight(&self) -> usize {
        1 + self.children.borrow().iter().map(|child| child.weight()).sum::<usize>()
    }

    fn weights(&self, out: &mut Vec<String>) {
        for child in self.children.borrow().iter() {
            out.push(format!("{}={}", child.name, child.weight()));
            child.weights(out);
        }
    }

    fn deepest(self: &Rc<Self>) -> (usize, Rc<Node>) {
        let children = self.children.borrow();
        // The first of the deepest: `max_by_key` would take the last.
        children.iter().rev().map(Node::deepest).map(|(d, node)| (d + 1, node)).max_by_key(|(d, _)| *d)
            .unwrap_or_else(|| (0, Rc::clone(self)))
    }
}

fn parse(text: &str) -> Result<Rc<Node>, String> {
    let root = Node::new("");
    let mut open = vec![Rc::clone(&root)];
    for (number, line) in text.lines().enumerate() {
        let depth = line.len() - line.trim_start().len();
        if depth + 1 > open.len() {
            return Err(format!("line {} is too deep\n", number + 1));
        }
        open.truncate(depth + 1);
        let node = Node::new(line.trim());
        open[depth].adopt(&node);
        open.push(node);
    }
    Ok(root)
}

fn answer(text: &str) -> Result<String, String> {
    let root = parse(text)?;
    let (depth, leaf) = root.deepest();
    if depth == 0 {
        return Err("nothing\n".to_owned());
    }
    let mut weights = Vec::new();
    root.weights(&mut weights);
    let out = format!("{} is at {}\nweights {}\n", leaf.name, leaf.path(), weights.join(" "));
    assert_eq!(Rc::strong_count(&root), 1);
    drop(root);
    let parent = leaf.parent.borrow().upgrade();
    let state = if parent.is_none() { "gone" } else { "still there" };
    Ok(format!("{out}after the drop the parent of {} is {state}\n", leaf.name))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
