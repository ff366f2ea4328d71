//! Percent-decoding that copies only when there is something to decode.
use std::borrow::Cow;

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn decode(input: &[u8]) -> Result<Cow<'_, [u8]>, usize> {
    let mut out = Cow::Borrowed(&input[..0]);
    let mut at = 0;
    while let Some(&byte) = input.get(at) {
        let (decoded, width) = match byte {
            b'+' => (b' ', 1),
            b'%' => {
                let pair = input.get(at + 1..at + 3).ok_or(at)?;
                let (high, low) = (hex(pair[0]).ok_or(at)?, hex(pair[1]).ok_or(at)?);
                (high << 4 | low, 3)
            }
            plain => (plain, 1),
        };
        out = match out {
            // So far nothing has changed: lend one byte more.
            Cow::Borrowed(seen) if decoded == byte => Cow::Borrowed(&input[..seen.len() + 1]),
            mut changed => {
                changed.to_mut().push(decoded);
                changed
            }
        };
        at += width;
    }
    Ok(out)
}

fn text(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>, &'static str> {
    match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::from).map_err(|_| "not UTF-8"),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::from).map_err(|_| "not UTF-8"),
    }
}

fn clean(input: &[u8]) -> Cow<'_, str> {
    match decode(input) {
        Ok(bytes) => text(bytes).unwrap_or_else(Cow::from).clone_if_error(),
        Err(at) => format!("broken escape at {at}").into(),
    }
}

trait CloneIfError {
    fn clone_if_error(self) -> Self;
}

impl CloneIfError for Cow<'_, str> {
    /// An error's text is static, and shown as owned like every other changed text.
    fn clone_if_error(self) -> Self {
        if self == "not UTF-8" { Cow::Owned(self.into_owned()) } else { self }
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let cleaned = clean(request);
    let kind = match &cleaned {
        Cow::Borrowed(_) => "borrowed",
        Cow::Owned(_) => "owned",
    };
    format!("{kind}: {cleaned}").into_bytes()
}
