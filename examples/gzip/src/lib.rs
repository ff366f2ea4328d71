//! Compresses a file of up to 64 MiB with gzip: a bulk function, which takes seconds where others take microseconds.
//!
//! With `accept: text/plain` it answers how much that saves instead.
//!
//! ```console
//! $ mfaas invoke gzip --header 'accept: text/plain' --data 'tea tea tea tea tea tea tea tea tea tea tea tea tea'
//! 51 bytes become 40
//! ```
//!
//! `mfaas invoke gzip --file notes.tar > notes.tar.gz` writes a file that any gzip reads.

use mfaas::{Request, Response};
use miniz_oxide::deflate::compress_to_vec;

/// What most programs choose: twice the speed of the best, for a few percent more bytes.
const LEVEL: u8 = 6;
/// RFC 1952 2.3: magic number, deflate, no flags, no time, no extra flags, unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Takes any bytes, answers them compressed.
pub fn compress(request: Request) -> Response {
    let plain = request.body();
    let packed = gzip(plain);
    if request.header("accept") == Some("text/plain") {
        return Response::text(format!("{} bytes become {}", plain.len(), packed.len()));
    }
    Response::bytes(packed).with_header("content-type", "application/gzip")
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut file = HEAD.to_vec();
    file.extend_from_slice(&compress_to_vec(plain, LEVEL));
    file.extend_from_slice(&crc32(plain).to_le_bytes());
    // Modulo 2^32, as the format has it.
    file.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    file
}

/// The checksum of RFC 1952 8.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes.iter().fold(!0, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < table.len() {
        let mut crc = at as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { 0xedb8_8320 ^ (crc >> 1) };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{compress, crc32, gzip};
    use mfaas::Request;
    use miniz_oxide::inflate::decompress_to_vec;

    #[test]
    fn the_checksum_is_the_one_of_the_format() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn what_was_packed_comes_back() {
        let plain = b"tea ".repeat(1_000);
        let packed = gzip(&plain);
        assert_eq!(decompress_to_vec(&packed[10..packed.len() - 8]).expect("deflate"), plain);
        assert_eq!(packed[packed.len() - 4..], 4_000_u32.to_le_bytes());
    }

    #[test]
    fn text_is_for_people() {
        let request = Request::new("POST", "/").with_header("accept", "text/plain").with_body("a".repeat(500));
        assert!(compress(request).body().starts_with(b"500 bytes become "));
    }
}
