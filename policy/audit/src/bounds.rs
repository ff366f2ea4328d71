//! Size and depth of a TOML text, told without parsing it: parsers recurse.

/// How much of a text is given to the parser.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes_max: usize,
    pub(crate) depth_max: usize,
}

/// Why a text is not given to the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    TooLarge,
    NotUtf8,
    TooDeep,
}

/// A reason, and the byte where that shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) reason: Reason,
    pub(crate) at: usize,
}

impl Reason {
    /// A sentence, without its subject.
    pub(crate) fn words(self, bounds: Bounds) -> String {
        match self {
            Self::TooLarge => format!("it is larger than {} KiB", bounds.bytes_max >> 10),
            Self::NotUtf8 => "it is not UTF-8".to_owned(),
            Self::TooDeep => format!("it is nested deeper than {} levels", bounds.depth_max),
        }
    }
}

/// The text, if it is UTF-8, small enough and not nested too deep. What the parser will refuse
/// anyway (unterminated strings) is let through to it.
pub(crate) fn check(bytes: &[u8], bounds: Bounds) -> Result<&str, Fault> {
    let fault = |reason, at| Err(Fault { reason, at });
    if bytes.len() > bounds.bytes_max {
        return fault(Reason::TooLarge, bounds.bytes_max);
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return fault(Reason::NotUtf8, error.valid_up_to()),
    };
    let mut depth = Depth::default();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'#' => at = end_of_comment(bytes, at),
            b'"' | b'\'' => at = end_of_string(bytes, at),
            byte => {
                depth.take(byte);
                at += 1;
            }
        }
        if depth.brackets > bounds.depth_max || depth.dots > bounds.depth_max {
            return fault(Reason::TooDeep, at.min(bytes.len()));
        }
    }
    Ok(text)
}

#[derive(Default)]
struct Depth {
    brackets: usize,
    /// Dots since the last character that cannot be part of a dotted key.
    dots: usize,
}

impl Depth {
    fn take(&mut self, byte: u8) {
        match byte {
            b'[' | b'{' => {
                self.brackets += 1;
                self.dots = 0;
            }
            b']' | b'}' => self.brackets = self.brackets.saturating_sub(1),
            b'.' => self.dots += 1,
            b'\n' | b'=' | b',' => self.dots = 0,
            _ => {}
        }
    }
}

fn end_of_comment(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

/// Behind the string that begins at `at`: three quotes span lines, one quote does not.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let long = bytes[at..].starts_with(&[quote; 3]);
    let width = if long { 3 } else { 1 };
    let mut index = at + width;
    while index < bytes.len() {
        match bytes[index] {
            b'\\' if quote == b'"' => index += 2,
            b'\n' if !long => return index,
            byte if byte == quote && bytes[index..].starts_with(&[quote; 3][..width]) => {
                return index + width;
            }
            _ => index += 1,
        }
    }
    bytes.len()
}
