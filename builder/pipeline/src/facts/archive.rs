//! What lies in a dependency's archive beside its source: binaries, told by their first bytes and never
//! by their names, and sources for other compilers.

use mfaas_ident::sanitise_line;
use mfaas_rules::crate_facts::{ArchiveFacts, BinaryFile, BinaryKind};
use mfaas_unpack::CrateArchive;

/// Endings of sources for a C compiler, an assembler, a linker.
const NATIVE: &[&str] = &[
    "a", "asm", "c", "cc", "cpp", "cu", "cxx", "def", "dll", "dylib", "f", "f90", "go", "h", "hh", "hpp",
    "inc", "lib", "ll", "m", "mm", "o", "obj", "s", "so", "sx", "zig",
];
/// Where the header of a Windows program says that its real header begins.
const PE_OFFSET: std::ops::Range<usize> = 0x3c..0x40;
/// Mach-O in both sizes and orders of bytes, and the one that holds several.
const MACH_O: &[[u8; 4]] = &[
    [0xfe, 0xed, 0xfa, 0xce],
    [0xfe, 0xed, 0xfa, 0xcf],
    [0xce, 0xfa, 0xed, 0xfe],
    [0xcf, 0xfa, 0xed, 0xfe],
    [0xca, 0xfe, 0xba, 0xbe],
];

/// Facts about the files of `archive`, which was read from `bytes` bytes.
pub(crate) fn archive_facts(archive: &CrateArchive, bytes: u64) -> ArchiveFacts {
    let shown = |path: &str| sanitise_line(path, 400);
    let binaries = archive.files().filter_map(|(path, content)| {
        let kind = binary_kind(content)?;
        Some(BinaryFile { path: shown(path), kind })
    });
    ArchiveFacts {
        bytes,
        unpacked_bytes: archive.files().map(|(_, content)| content.len() as u64).sum(),
        files: archive.files().len() as u64,
        binaries: binaries.collect(),
        native_sources: archive
            .files()
            .map(|(path, _)| path)
            .filter(|path| is_native(path))
            .map(shown)
            .collect(),
        unread: archive.left_out().to_vec(),
    }
}

/// Facts about an archive that was not read at all.
pub(crate) fn unread_archive(bytes: u64, reason: String) -> ArchiveFacts {
    ArchiveFacts {
        bytes,
        unpacked_bytes: 0,
        files: 0,
        binaries: Vec::new(),
        native_sources: Vec::new(),
        unread: vec![reason],
    }
}

fn is_native(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    // `libx.so.1` too.
    name.split('.').skip(1).any(|part| NATIVE.contains(&part))
        && !matches!(name.rsplit('.').next(), Some("rs" | "md" | "txt" | "toml" | "json"))
}

/// What the first bytes say; `None` for text.
fn binary_kind(content: &[u8]) -> Option<BinaryKind> {
    if content.starts_with(b"\x7fELF") {
        return Some(BinaryKind::Elf);
    }
    if content.starts_with(b"\0asm") {
        return Some(BinaryKind::Wasm);
    }
    if content.starts_with(b"!<arch>\n") || content.starts_with(b"!<thin>\n") {
        return Some(BinaryKind::Ar);
    }
    if MACH_O.iter().any(|magic| content.starts_with(magic)) {
        return Some(BinaryKind::MachO);
    }
    if is_pe(content) {
        return Some(BinaryKind::Pe);
    }
    let is_text = std::str::from_utf8(content).is_ok_and(|text| !text.contains('\0'));
    (!is_text).then_some(BinaryKind::Unknown)
}

fn is_pe(content: &[u8]) -> bool {
    let offset = content.get(PE_OFFSET).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    let at = offset.and_then(|bytes| usize::try_from(u32::from_le_bytes(bytes)).ok());
    content.starts_with(b"MZ")
        && at.and_then(|at| content.get(at..)).is_some_and(|rest| rest.starts_with(b"PE\0\0"))
}

#[cfg(test)]
mod tests;
