//! Every way to format a pair of bytes.
use core::fmt::{self, Binary, Debug, Display, Formatter, LowerHex, UpperExp, UpperHex, Write};

#[derive(Clone, Copy)]
struct Pair(u16);

impl Pair {
    fn parts(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }
}

impl Display for Pair {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [high, low] = self.parts();
        // `pad` obeys width, fill and alignment; so the text has to be made first.
        f.pad(&format!("{high}.{low}"))
    }
}

impl LowerHex for Pair {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [high, low] = self.parts();
        if f.alternate() {
            return write!(f, "{:#06x}", self.0);
        }
        let text = format!("{high:02x}:{low:02x}");
        match f.width() {
            Some(width) => write!(f, "{text:>width$}"),
            None => f.write_str(&text),
        }
    }
}

impl UpperHex for Pair {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        UpperHex::fmt(&self.0, f)
    }
}

impl Binary for Pair {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Binary::fmt(&self.0, f)
    }
}

impl UpperExp for Pair {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        UpperExp::fmt(&self.0, f)
    }
}

impl Debug for Pair {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [high, low] = self.parts();
        f.debug_struct("Pair").field("high", &high).field("low", &low).finish()
    }
}

struct AsMap(Pair);

impl Debug for AsMap {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(["high", "low"].iter().zip(self.0.parts())).finish()
    }
}

fn show(pair: Pair) -> Result<String, fmt::Error> {
    let mut out = String::new();
    writeln!(out, "[{pair:7x}] [{pair:<8}] [{pair:*^9}]")?;
    writeln!(out, "{pair:x} {pair:#x} {pair:#b} {pair:E}")?;
    writeln!(out, "{pair:?}\n{pair:#?}\n{:?}", AsMap(pair))?;
    let n = pair.0;
    writeln!(out, "{n:08}|{n:+}|{:.1$}|{pair:04X}", f64::from(n), 3)?;
    Ok(out)
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    match text.parse() {
        Ok(n) => show(Pair(n)).unwrap_or_else(|error| error.to_string()),
        Err(error) => core::num::ParseIntError::to_string(&error),
    }
    .into_bytes()
}
