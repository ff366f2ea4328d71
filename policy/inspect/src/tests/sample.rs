//! A shared object that rustc made, and changes to its bytes at named places.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use mfaas_rules::profiles::image_layout::{ALIGN_ARGUMENT, LINKER_SCRIPT};

const SOURCE: &str = r#"
use std::cell::Cell;
thread_local! { static COUNT: Cell<u64> = const { Cell::new(41) }; }
static NAMES: [&str; 3] = ["a", "b", "c"];
#[unsafe(no_mangle)]
pub extern "C" fn entry(x: u64) -> u64 {
    COUNT.with(|count| count.set(count.get() + x));
    COUNT.with(Cell::get) + NAMES[(x % 3) as usize].len() as u64 + format!("{x}").len() as u64
}
"#;

/// The script, beside the source.
const SCRIPT: &str = "-Clink-arg=-Timage.ld";

/// The image as the builder links it.
pub(super) fn image() -> Vec<u8> {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| link("plain", &[SCRIPT])).clone()
}

/// The image as rust-lld links it by default.
pub(super) fn image_in_one_piece() -> Vec<u8> {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| link("one-piece", &[])).clone()
}

/// The same with packed relative relocations.
pub(super) fn packed_image() -> Vec<u8> {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| link("packed", &[SCRIPT, "-Clink-arg=-zpack-dyn-relocs=relr"])).clone()
}

fn link(name: &str, more: &[&str]) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let path = |file: &str| place.path().join(file);
    std::fs::write(path("sample.rs"), SOURCE).unwrap();
    std::fs::write(path("image.ld"), LINKER_SCRIPT).unwrap();
    for library in ["c", "gcc_s", "util", "rt", "pthread", "dl", "m"] {
        std::fs::write(path(&format!("lib{library}.a")), "!<arch>\n").unwrap();
    }
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim());
    let linker = sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
    let output = Command::new("rustc")
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "-Cpanic=abort",
            "-O",
            "-Clinker-flavor=ld.lld",
        ])
        .args(["-Clink-arg=--unresolved-symbols=ignore-all", "-Cstrip=symbols"])
        .arg(format!("-Clink-arg={ALIGN_ARGUMENT}"))
        .args(more)
        .arg(format!("-Clinker={}", linker.display()))
        .arg(format!("-Lnative={}", place.path().display()))
        .args(["sample.rs", "-o", "sample.so"])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(path("sample.so")).unwrap()
}

/// Fields of a program header: offset and size in bytes.
#[derive(Clone, Copy)]
pub(super) enum Field {
    Type,
    Flags,
    Offset,
    Va,
    FileSize,
    MemSize,
    Align,
}

const HEADERS: usize = 64;
const HEADER_BYTES: usize = 56;

pub(super) fn read_u64(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(image[at..at + 8].try_into().unwrap())
}

pub(super) fn read_u32(image: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(image[at..at + 4].try_into().unwrap())
}

pub(super) fn write(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Where the `number`th program header of a type begins.
pub(super) fn header(image: &[u8], kind: u32, number: usize) -> usize {
    let count = usize::from(u16::from_le_bytes(image[56..58].try_into().unwrap()));
    let headers = (0..count).map(|index| HEADERS + index * HEADER_BYTES);
    headers.filter(|at| read_u32(image, *at) == kind).nth(number).unwrap()
}

pub(super) fn set(image: &mut [u8], header: usize, field: Field, value: u64) {
    let (offset, bytes) = match field {
        Field::Type => (0, 4),
        Field::Flags => (4, 4),
        Field::Offset => (8, 8),
        Field::Va => (16, 8),
        Field::FileSize => (32, 8),
        Field::MemSize => (40, 8),
        Field::Align => (48, 8),
    };
    write(image, header + offset, &value.to_le_bytes()[..bytes]);
}

pub(super) const PT_NULL: u64 = 0;
pub(super) const PT_LOAD: u32 = 1;
pub(super) const PT_DYNAMIC: u32 = 2;
pub(super) const PT_INTERP: u64 = 3;
pub(super) const PT_TLS: u32 = 7;
pub(super) const PT_GNU_STACK: u32 = 0x6474_e551;
pub(super) const PT_GNU_RELRO: u32 = 0x6474_e552;

/// Where the entry of the dynamic table with this tag begins.
pub(super) fn dynamic(image: &[u8], tag: u64) -> usize {
    let start = read_u64(image, header(image, PT_DYNAMIC, 0) + 8) as usize;
    (0..64).map(|index| start + 16 * index).find(|at| read_u64(image, *at) == tag).unwrap()
}

/// Where in the file the table lies that a tag names by its address.
pub(super) fn dynamic_value(image: &[u8], tag: u64) -> usize {
    let va = read_u64(image, dynamic(image, tag) + 8);
    let field = |number, offset| read_u64(image, header(image, PT_LOAD, number) + offset);
    let mut loads = (0..LOADS).map(|number| (field(number, 16), field(number, 32), field(number, 8)));
    let (start, _, offset) = loads.find(|(start, bytes, _)| (*start..start + bytes).contains(&va)).unwrap();
    (va - start + offset) as usize
}

/// Segments of the image, and the numbers of some of them.
const LOADS: usize = 5;
pub(super) const CODE: usize = 0;
pub(super) const CONSTANTS: usize = 3;
pub(super) const TABLES: usize = 1;
pub(super) const DATA: usize = 2;

pub(super) const DT_SYMTAB: u64 = 6;
pub(super) const DT_RELA: u64 = 7;
pub(super) const DT_RELACOUNT: u64 = 0x6fff_fff9;

/// File offset and address of the executable segment, and its size.
pub(super) fn text(image: &[u8]) -> (usize, u64, usize) {
    let executable = |number: &usize| read_u32(image, header(image, PT_LOAD, *number) + 4) & 1 == 1;
    let at = header(image, PT_LOAD, (0..LOADS).find(executable).unwrap());
    (read_u64(image, at + 8) as usize, read_u64(image, at + 16), read_u64(image, at + 32) as usize)
}
