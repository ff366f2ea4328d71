//! A calculator with a stack that never allocates.
use tinyvec::{ArrayVec, TinyVec, array_vec};

const DEPTH: usize = 8;

struct Machine {
    stack: ArrayVec<[i64; DEPTH]>,
    deepest: usize,
}

impl Machine {
    fn new() -> Self {
        Self { stack: array_vec!([i64; DEPTH]), deepest: 0 }
    }

    fn push(&mut self, value: i64) -> Result<(), String> {
        if self.stack.try_push(value).is_some() {
            return Err(format!("more than {DEPTH} values"));
        }
        self.deepest = self.deepest.max(self.stack.len());
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        if let Ok(value) = word.parse() {
            return self.push(value);
        }
        let (Some(b), Some(a)) = (self.stack.pop(), self.stack.pop()) else {
            return Err(format!("{word} needs two values"));
        };
        let result = match word {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            "/" if b == 0 => return Err("division by zero".to_owned()),
            "/" => a.checked_div(b),
            other => return Err(format!("unknown word {other}")),
        };
        self.push(result.ok_or_else(|| format!("overflow in {word}"))?)
    }
}

fn run(program: &str) -> Result<String, String> {
    // Inline up to four words, on the heap beyond.
    let words: TinyVec<[&str; 4]> = program.split_whitespace().collect();
    let mut machine = Machine::new();
    words.iter().try_for_each(|word| machine.word(word))?;
    match machine.stack[..] {
        [value] => Ok(format!("{value} (depth {})", machine.deepest)),
        ref left => Err(format!("{} values are left", left.len())),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    run(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
