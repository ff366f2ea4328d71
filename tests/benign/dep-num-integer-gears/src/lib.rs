//! Questions about whole numbers, as gears and calendars ask them.
use num_integer::{ExtendedGcd, Integer, Roots};

fn fold<T: Integer + Copy>(numbers: &[T], f: impl Fn(&T, &T) -> T) -> Option<T> {
    numbers.iter().copied().reduce(|a, b| f(&a, &b))
}

fn inverse(a: i128, m: i128) -> Option<i128> {
    let ExtendedGcd { gcd, x, .. } = a.extended_gcd(&m);
    (gcd == 1).then(|| x.mod_floor(&m))
}

/// The number that leaves each remainder, and the product of the moduli.
fn chinese(pairs: &[[i128; 2]]) -> Option<(i128, i128)> {
    let product: i128 = pairs.iter().map(|[_, m]| m).product();
    let mut sum = 0;
    for [r, m] in pairs {
        let rest = product / m;
        sum += r * rest * inverse(rest.mod_floor(m), *m)?;
    }
    Some((sum.mod_floor(&product), product))
}

fn answer(text: &str) -> Result<String, String> {
    let mut words = text.split_whitespace();
    let question = words.next().unwrap_or_default();
    let numbers = words
        .map(|word| word.parse::<i128>().map_err(|error| format!("{word}: {error}")))
        .collect::<Result<Vec<_>, _>>()?;
    match (question, &numbers[..]) {
        ("lcm", all) => fold(all, Integer::lcm).map(|n| n.to_string()).ok_or_else(|| "numbers expected".into()),
        ("gcd", all) => fold(all, Integer::gcd).map(|n| n.to_string()).ok_or_else(|| "numbers expected".into()),
        ("inverse", &[a, m]) => {
            inverse(a, m).map(|x| x.to_string()).ok_or_else(|| format!("{a} has no inverse modulo {m}"))
        }
        ("floor", [_, 0]) => Err("division by zero".into()),
        ("floor", [a, b]) => {
            let (q, r) = a.div_mod_floor(b);
            Ok(format!("{q} remainder {r}"))
        }
        ("root", &[n, k @ 1..=127]) if n >= 0 => Ok(n.nth_root(k as u32).to_string()),
        ("crt", all) => {
            let (pairs, []) = all.as_chunks::<2>() else { return Err("pairs expected".into()) };
            chinese(pairs).map(|(n, m)| format!("{n} modulo {m}")).ok_or_else(|| "the moduli share a factor".into())
        }
        (other, _) => Err(format!("unknown question {other}")),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
