//! Polynomials over fractions, lowest power first.
use std::fmt;
use std::iter::{Product, Sum};
use std::ops::{Add, AddAssign, Mul, Neg};

trait Ring: Copy + PartialEq + Add<Output = Self> + Mul<Output = Self> + Neg<Output = Self> + Sum {
    const ZERO: Self;
    const ONE: Self;
    fn is_negative(&self) -> bool;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fraction(i64, i64);

const fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

impl Fraction {
    fn new(n: i64, d: i64) -> Option<Self> {
        let g = gcd(n, d).max(1) * d.signum();
        (d != 0).then(|| Self(n / g, d / g))
    }
}

impl From<i64> for Fraction {
    fn from(n: i64) -> Self {
        Self(n, 1)
    }
}

impl Add for Fraction {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self::new(self.0 * o.1 + o.0 * self.1, self.1 * o.1).unwrap_or(Self::ZERO)
    }
}
impl Mul for Fraction {
    type Output = Self;
    fn mul(self, o: Self) -> Self {
        Self::new(self.0 * o.0, self.1 * o.1).unwrap_or(Self::ZERO)
    }
}
impl Neg for Fraction {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0, self.1)
    }
}
impl AddAssign for Fraction {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}
impl Sum for Fraction {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Add::add)
    }
}
impl Product for Fraction {
    fn product<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ONE, Mul::mul)
    }
}
impl Ring for Fraction {
    const ZERO: Self = Self(0, 1);
    const ONE: Self = Self(1, 1);
    fn is_negative(&self) -> bool {
        self.0 < 0
    }
}
impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(n, 1) => write!(f, "{n}"),
            Self(n, d) => write!(f, "{n}/{d}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Polynomial<R>(Vec<R>);

impl<R: Ring + AddAssign> Mul for &Polynomial<R> {
    type Output = Polynomial<R>;
    fn mul(self, other: Self) -> Polynomial<R> {
        let mut out = vec![R::ZERO; self.0.len() + other.0.len() - 1];
        for (i, a) in self.0.iter().enumerate() {
            for (j, b) in other.0.iter().enumerate() {
                out[i + j] += *a * *b;
            }
        }
        Polynomial(out)
    }
}

impl<R: Ring + Product> Polynomial<R> {
    fn at(&self, x: R) -> R {
        self.0.iter().enumerate().map(|(power, c)| *c * std::iter::repeat_n(x, power).product()).sum()
    }
}

impl Polynomial<Fraction> {
    fn derived(&self) -> Self {
        Self(self.0.iter().enumerate().skip(1).map(|(power, c)| *c * Fraction::from(power as i64)).collect())
    }

    /// Terms from the highest power on, each with its sign apart.
    fn terms(&self) -> impl DoubleEndedIterator<Item = (usize, Fraction)> {
        self.0.iter().copied().enumerate().rev().filter(|(_, c)| *c != Fraction::ZERO)
    }

    fn show(&self, style: impl Fn(Fraction, usize, bool) -> String) -> String {
        let shown: Vec<String> = self.terms().enumerate().map(|(n, (power, c))| style(c, power, n == 0)).collect();
        if shown.is_empty() { "0".to_owned() } else { shown.concat() }
    }
}

fn x(power: usize) -> String {
    if power == 1 { "x".into() } else { format!("x^{power}") }
}

/// `x^2*2`: a first negative factor stands in brackets, a later one gives the sign.
fn long(c: Fraction, power: usize, first: bool) -> String {
    let sign = match (first, c.is_negative()) {
        (true, _) => "",
        (false, true) => " - ",
        (false, false) => " + ",
    };
    let size = if !first && c.is_negative() { -c } else { c };
    let body = match (power, size) {
        (0, c) => c.to_string(),
        (power, Fraction::ONE) => x(power),
        (power, c) if c.is_negative() => format!("{}*({c})", x(power)),
        (power, c) => format!("{}*{c}", x(power)),
    };
    format!("{sign}{body}")
}

fn short(c: Fraction, power: usize, first: bool) -> String {
    let sign = match (first, c.is_negative()) {
        (true, true) => "-",
        (true, false) => "",
        (false, true) => " - ",
        (false, false) => " + ",
    };
    let size = if c.is_negative() { -c } else { c };
    let body = match (power, size) {
        (0, c) => c.to_string(),
        (power, Fraction::ONE) => x(power),
        (power, c) => format!("{c}{}", x(power)),
    };
    format!("{sign}{body}")
}

fn polynomial(text: &str) -> Result<Polynomial<Fraction>, String> {
    let fraction = |word: &str| {
        let (n, d) = word.split_once('/').unwrap_or((word, "1"));
        let parsed = n.parse().ok().zip(d.parse().ok()).and_then(|(n, d)| Fraction::new(n, d));
        parsed.ok_or_else(|| format!("not a fraction: {word}"))
    };
    text.split_whitespace().map(fraction).collect::<Result<Vec<_>, _>>().map(Polynomial)
}

fn answer(text: &str) -> Result<String, String> {
    let (p, q) = text.split_once(" * ").ok_or("P * Q")?;
    let product = &polynomial(p)? * &polynomial(q)?;
    Ok(format!("{}; at 2: {}; derived {}", product.show(long), product.at(2.into()), product.derived().show(short)))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
