//! Recipes scaled without rounding.
use num_rational::Ratio;
use std::fmt;

type Exact = Ratio<i64>;

/// Whole and proper part, as cooks write it.
struct Mixed(Exact);

impl fmt::Display for Mixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0.trunc().to_integer(), self.0.fract());
        match (whole, *part.numer()) {
            (whole, 0) => write!(f, "{whole}"),
            (0, _) => write!(f, "{part}"),
            _ => write!(f, "{whole} {part}"),
        }
    }
}

fn ratio(word: &str) -> Option<Exact> {
    let (n, d) = word.split_once('/').unwrap_or((word, "1"));
    let (n, d) = (n.parse().ok()?, d.parse().ok().filter(|d| *d != 0)?);
    Some(Ratio::new(n, d))
}

/// `1 1/3 cup flour` is an amount and a thing.
fn line(text: &str) -> Option<(Exact, &str)> {
    let (first, rest) = text.split_once(' ')?;
    let amount = ratio(first)?;
    match rest.split_once(' ').and_then(|(second, rest)| Some((ratio(second)?, rest))) {
        Some((part, rest)) => Some((amount + part, rest)),
        None => Some((amount, rest)),
    }
}

fn answer(text: &str) -> Result<String, String> {
    let (head, list) = text.split_once(": ").ok_or("scale FACTOR: AMOUNT THING, …")?;
    let factor = head.strip_prefix("scale ").and_then(ratio).ok_or_else(|| format!("no factor in {head}"))?;
    list.split(", ").try_fold(String::new(), |out, item| {
        let (amount, thing) = line(item).ok_or_else(|| format!("no amount in {item}"))?;
        Ok(format!("{out}{} {thing}\n", Mixed(amount * factor)))
    })
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error + "\n").into_bytes()
}
