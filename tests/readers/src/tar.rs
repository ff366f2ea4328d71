//! Archives block by block, for tests: written as told, however wrong that is.
//!
//! Must never share code with the reader under test.

/// Bytes of a header, and the granule of everything in a tar.
pub const BLOCK: usize = 512;

/// A ustar header with a right checksum.
///
/// # Panics
/// When the path is longer than the 100 bytes of its field.
pub fn header(path: &[u8], kind: u8, size: usize) -> [u8; BLOCK] {
    let mut header = [0u8; BLOCK];
    header[..path.len()].copy_from_slice(path);
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    mend(&mut header);
    header
}

/// A header and its content, padded; `change` may spoil the header, whose checksum is right in
/// the end all the same.
pub fn entry(path: &[u8], kind: u8, content: &[u8], change: impl Fn(&mut [u8; BLOCK])) -> Vec<u8> {
    let mut header = header(path, kind, content.len());
    change(&mut header);
    mend(&mut header);
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(content);
    pad(&mut bytes);
    bytes
}

/// A regular file.
pub fn file(path: &str, content: &[u8]) -> Vec<u8> {
    entry(path.as_bytes(), b'0', content, |_| {})
}

/// Zeros up to the next whole block.
pub fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
}

/// The two zero blocks.
pub fn end(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
}

/// Makes the checksum of a header right.
pub fn mend(header: &mut [u8; BLOCK]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(&checksum_field(sum));
}

/// Six octal digits, NUL, space. (The sum of 512 bytes has at most six.)
fn checksum_field(mut sum: u32) -> [u8; 8] {
    let mut field = *b"000000\0 ";
    for digit in field[..6].iter_mut().rev() {
        *digit = b'0' + (sum % 8) as u8;
        sum /= 8;
    }
    field
}

/// Makes the checksum of every header right, as far as headers can be found.
pub fn mend_all(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(block) = bytes.get_mut(at..at + BLOCK) {
        let Ok(header) = <&mut [u8; BLOCK]>::try_from(block) else { return };
        if header.iter().all(|byte| *byte == 0) {
            return;
        }
        mend(header);
        let digits = header[124..136].iter().take_while(|byte| (b'0'..=b'7').contains(byte));
        let size = digits.fold(0_usize, |sum, digit| sum * 8 + usize::from(digit - b'0'));
        at += BLOCK + size.next_multiple_of(BLOCK);
    }
}

/// One gzip member of stored blocks around `bytes`: no compressor, so it costs next to nothing.
pub fn gzip_stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let mut chunks = bytes.chunks(0xffff).peekable();
    if chunks.peek().is_none() {
        out.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    }
    while let Some(chunk) = chunks.next() {
        // A chunk has at most 65,535 bytes.
        let length = chunk.len() as u16;
        out.push(u8::from(chunks.peek().is_none()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(chunk);
    }
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&crc.amount().to_le_bytes());
    out
}
