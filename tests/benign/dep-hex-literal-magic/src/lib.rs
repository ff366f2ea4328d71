//! What kind of file is this, and how large is the picture?
use hex_literal::hex;

const PNG: [u8; 8] = hex!("89 50 4E 47 0D 0A 1A 0A");
const GZIP: &[u8] = &hex!("1f8b 08");
const PDF: &[u8] = &hex!(
    "25504446" // %PDF
    "2d"       // -
);

fn big(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b))
}

fn png(rest: &[u8]) -> Option<(u32, u32)> {
    // IHDR's length and name, then width and height.
    let [_, _, _, _, b'I', b'H', b'D', b'R', size @ ..] = rest else { return None };
    Some((big(size.get(..4)?), big(size.get(4..8)?)))
}

fn gif(rest: &[u8]) -> Option<(u32, u32)> {
    let &[w0, w1, h0, h1, ..] = rest else { return None };
    Some((u16::from_le_bytes([w0, w1]).into(), u16::from_le_bytes([h0, h1]).into()))
}

fn picture(kind: &str, size: Option<(u32, u32)>) -> String {
    match size {
        Some((w, h)) => format!("image/{kind} {w}x{h}"),
        None => format!("image/{kind}, cut off"),
    }
}

fn kind(bytes: &[u8]) -> String {
    if let Some(rest) = bytes.strip_prefix(&PNG) {
        return picture("png", png(rest));
    }
    if let [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', rest @ ..] = bytes {
        return picture("gif", gif(rest));
    }
    if bytes.starts_with(GZIP) {
        return "application/gzip".into();
    }
    if let Some(rest) = bytes.strip_prefix(PDF) {
        let version: String = rest.iter().take(3).map(|b| char::from(*b)).collect();
        return format!("application/pdf {version}");
    }
    let plain = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
    if bytes.iter().all(plain) { "text/plain" } else { "application/octet-stream" }.into()
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    kind(request).into_bytes()
}
