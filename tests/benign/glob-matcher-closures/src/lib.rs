//! Globs compiled to closures.
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Whether the rest of the text from a place on matches.
type Matcher = Rc<dyn Fn(&[char], usize) -> bool>;

fn end() -> Matcher {
    Rc::new(|text, at| at == text.len())
}

fn one(test: impl Fn(char) -> bool + 'static, next: Matcher) -> Matcher {
    Rc::new(move |text, at| text.get(at).is_some_and(|c| test(*c)) && next(text, at + 1))
}

fn star(next: Matcher) -> Matcher {
    // Places that have failed once fail again.
    let failed: RefCell<HashSet<usize>> = RefCell::default();
    Rc::new(move |text, at| {
        (at..=text.len()).any(|from| {
            if failed.borrow().contains(&from) {
                return false;
            }
            let matched = next(text, from);
            if !matched {
                failed.borrow_mut().insert(from);
            }
            matched
        })
    })
}

fn class(inside: &[char]) -> impl Fn(char) -> bool + 'static {
    let (negated, mut rest) = match inside {
        ['!', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut ranges: Vec<RangeInclusive<char>> = Vec::new();
    while let [first, more @ ..] = rest {
        (ranges, rest) = match more {
            ['-', last, more @ ..] => ([ranges, vec![*first..=*last]].concat(), more),
            more => ([ranges, vec![*first..=*first]].concat(), more),
        };
    }
    move |c| ranges.iter().any(|range| range.contains(&c)) != negated
}

fn compile(pattern: &[char]) -> Result<Matcher, &'static str> {
    Ok(match pattern {
        [] => end(),
        ['*', rest @ ..] => star(compile(rest)?),
        ['?', rest @ ..] => one(|_| true, compile(rest)?),
        ['[', rest @ ..] => {
            let close = rest.iter().position(|c| *c == ']').ok_or("a class without an end")?;
            one(class(&rest[..close]), compile(&rest[close + 1..])?)
        }
        [literal, rest @ ..] => {
            let literal = *literal;
            one(move |c| c == literal, compile(rest)?)
        }
    })
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(request);
    let Some((pattern, text)) = line.split_once(' ') else { return b"PATTERN TEXT".to_vec() };
    let [pattern, text] = [pattern, text].map(|part| part.chars().collect::<Vec<char>>());
    match compile(&pattern) {
        Ok(matches) => if matches(&text, 0) { "yes" } else { "no" },
        Err(error) => error,
    }
    .as_bytes()
    .to_vec()
}
