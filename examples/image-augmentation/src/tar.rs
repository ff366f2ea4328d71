//! Just enough of a tar archive (POSIX ustar) to hold files: a block with a name and a length, then the bytes.

const BLOCK_BYTES: usize = 512;
/// Fields of a header, where they begin: octal numbers as text.
const MODE: usize = 100;
const OWNER: usize = 108;
const GROUP: usize = 116;
const LENGTH: usize = 124;
const CHANGED: usize = 136;
const CHECKSUM: usize = 148;
const KIND: usize = 156;
const MAGIC: usize = 257;

/// Puts a file behind the others. Its name has at most 100 bytes.
pub fn append(archive: &mut Vec<u8>, name: &str, file: &[u8]) {
    archive.extend_from_slice(&header(name, file.len()));
    archive.extend_from_slice(file);
    archive.resize(archive.len().next_multiple_of(BLOCK_BYTES), 0);
}

/// Two empty blocks say that nothing follows.
pub fn finish(archive: &mut Vec<u8>) {
    archive.resize(archive.len() + 2 * BLOCK_BYTES, 0);
}

fn header(name: &str, length: usize) -> [u8; BLOCK_BYTES] {
    let mut header = [0; BLOCK_BYTES];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(MODE, "0000644");
    put(OWNER, "0000000");
    put(GROUP, "0000000");
    put(LENGTH, &format!("{length:011o}"));
    // At no time, so that one photo always gives the same archive.
    put(CHANGED, "00000000000");
    // It counts as blanks in its own sum.
    put(CHECKSUM, "        ");
    put(KIND, "0");
    put(MAGIC, "ustar\x0000");
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[CHECKSUM..CHECKSUM + 7].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::{append, finish};

    #[test]
    fn a_header_is_what_tar_writes() {
        let mut archive = Vec::new();
        append(&mut archive, "a.txt", b"hello");
        finish(&mut archive);
        assert_eq!(archive.len(), 512 + 512 + 1024);
        let text = |at: usize, bytes: usize| std::str::from_utf8(&archive[at..at + bytes]).expect("text");
        assert_eq!((text(0, 6), text(124, 12)), ("a.txt\0", "00000000005\0"));
        // GNU tar's sum for this file, without the names of owner and group and the numbers of a device that it also writes.
        assert_eq!(text(148, 8), format!("{:06o}\0 ", 0o11771 - 2 * 452 - 14 * 48));
        assert_eq!(text(512, 5), "hello");
    }
}
