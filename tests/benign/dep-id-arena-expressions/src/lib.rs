//! Expressions in an arena, folded where they are constant.
use id_arena::{Arena, Id};
use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug, Clone, Copy)]
enum Node {
    Number(i64),
    Name(char),
    Binary(char, Id<Node>, Id<Node>),
}

struct Parser<'a> {
    input: Peekable<Chars<'a>>,
    arena: Arena<Node>,
}

type Parsed = Result<Id<Node>, String>;

impl Parser<'_> {
    fn level(&mut self, operators: &[char], inner: fn(&mut Self) -> Parsed) -> Parsed {
        let mut left = inner(self)?;
        while let Some(op) = self.input.next_if(|c| operators.contains(c)) {
            let right = inner(self)?;
            left = self.arena.alloc(Node::Binary(op, left, right));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed {
        self.level(&['+', '-'], |p| p.level(&['*'], Self::atom))
    }

    fn atom(&mut self) -> Parsed {
        match self.input.next() {
            Some('(') => {
                let inner = self.sum()?;
                self.input.next_if_eq(&')').map(|_| inner).ok_or_else(|| "missing )".to_owned())
            }
            Some(c) if c.is_ascii_digit() => {
                let mut n = i64::from(c as u8 - b'0');
                while let Some(d) = self.input.next_if(char::is_ascii_digit) {
                    n = n * 10 + i64::from(d as u8 - b'0');
                }
                Ok(self.arena.alloc(Node::Number(n)))
            }
            Some(c) if c.is_alphabetic() => Ok(self.arena.alloc(Node::Name(c))),
            Some(c) => Err(format!("unexpected {c}")),
            None => Err("unexpected end".to_owned()),
        }
    }
}

fn fold(arena: &mut Arena<Node>, id: Id<Node>) -> Id<Node> {
    let Node::Binary(op, left, right) = arena[id] else { return id };
    let (left, right) = (fold(arena, left), fold(arena, right));
    let node = match (op, arena[left], arena[right]) {
        ('+', Node::Number(a), Node::Number(b)) => Node::Number(a.wrapping_add(b)),
        ('-', Node::Number(a), Node::Number(b)) => Node::Number(a.wrapping_sub(b)),
        ('*', Node::Number(a), Node::Number(b)) => Node::Number(a.wrapping_mul(b)),
        _ => Node::Binary(op, left, right),
    };
    arena.alloc(node)
}

fn show(arena: &Arena<Node>, id: Id<Node>) -> String {
    match arena[id] {
        Node::Number(n) => n.to_string(),
        Node::Name(c) => c.to_string(),
        Node::Binary(op, a, b) => format!("({} {op} {})", show(arena, a), show(arena, b)),
    }
}

fn answer(text: &str) -> Result<String, String> {
    let mut parser = Parser { input: text.chars().peekable(), arena: Arena::new() };
    let root = parser.sum()?;
    if let Some(c) = parser.input.next() {
        return Err(format!("unexpected {c}"));
    }
    let mut arena = parser.arena;
    let (shown, nodes) = (show(&arena, root), arena.len());
    let folded = fold(&mut arena, root);
    Ok(format!("{shown}, {nodes} nodes, folded: {}", show(&arena, folded)))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
