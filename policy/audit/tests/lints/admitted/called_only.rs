// A call checks what the types imply.
struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    fn first(&self, or: &'a str) -> &str {
        if self.rest.is_empty() { or } else { &self.rest[..1] }
    }
}

fn pick<'s, 'l>(_: &'s &'l (), v: &'l str) -> &'s str {
    v
}

pub fn call(text: &str) -> usize {
    let first = Lexer { rest: text };
    first.first("none").len() + Lexer::first(&first, "none").len() + pick(&&(), text).len()
}
