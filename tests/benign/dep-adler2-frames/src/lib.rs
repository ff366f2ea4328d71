//! Frames of `length: u16 be, body, adler32: u32 be`, checked and listed.
use adler2::Adler32;
use std::fmt;

enum Fault {
    Short { frame: usize, missing: usize },
    Sum { frame: usize, computed: u32, stated: u32 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Short { frame, missing } => write!(f, "frame {frame}: {missing} bytes are missing"),
            Self::Sum { frame, computed, stated } => {
                write!(f, "frame {frame}: sum is {computed:08x}, frame says {stated:08x}")
            }
        }
    }
}

struct Frames<'a> {
    rest: &'a [u8],
    next: usize,
}

struct Frame<'a> {
    body: &'a [u8],
    sum: u32,
}

impl<'a> Frames<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Fault> {
        let (head, rest) = self
            .rest
            .split_at_checked(n)
            .ok_or(Fault::Short { frame: self.next, missing: n - self.rest.len() })?;
        self.rest = rest;
        Ok(head)
    }

    fn frame(&mut self) -> Result<Frame<'a>, Fault> {
        let length = self.take(2)?.iter().fold(0usize, |n, b| n << 8 | usize::from(*b));
        let body = self.take(length)?;
        let stated = self.take(4)?.iter().fold(0u32, |n, b| n << 8 | u32::from(*b));
        let mut adler = Adler32::new();
        // In two parts, as a reader that streams would do it.
        let (a, b) = body.split_at(body.len() / 2);
        adler.write_slice(a);
        adler.write_slice(b);
        let computed = adler.checksum();
        if computed != stated {
            return Err(Fault::Sum { frame: self.next, computed, stated });
        }
        self.next += 1;
        Ok(Frame { body, sum: computed })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Fault>;
    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.frame())
    }
}

fn list(request: &[u8]) -> Result<String, Fault> {
    let frames = Frames { rest: request, next: 0 }.collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = frames.iter().map(|f| f.body.len()).sum();
    let mut out = format!("{} frames, {bytes} bytes\n", frames.len());
    for (i, Frame { body, sum }) in frames.iter().enumerate() {
        out += &format!("{i} {sum:08x} {}\n", String::from_utf8_lossy(body));
    }
    Ok(out)
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    list(request).unwrap_or_else(|fault| format!("{fault}\n")).into_bytes()
}
