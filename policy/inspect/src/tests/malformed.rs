//! One real image, one thing wrong with it at a time, and the code that refuses it: by an error,
//! which a builder reports as MF0501, or by the verdict about its facts.

use mfaas_rules::profiles::image_layout::{ALIGN_BYTES, CONSTANTS_START, DATA_START, TABLES_START};
use mfaas_rules::{codes, judge_binary};

use super::changed;
use super::sample::{self, Field, dynamic, dynamic_value, header, image, read_u64, set, text, write};
use crate::{inspect, layout};

/// Code and message of all refusals.
fn refusals(bytes: &[u8]) -> Vec<(&'static str, String)> {
    match inspect(bytes) {
        Err(error) => vec![(codes::MF0501.id(), error.to_string())],
        Ok(facts) => {
            let findings = judge_binary(&facts);
            findings.into_iter().map(|finding| (finding.code.id(), finding.message)).collect()
        }
    }
}

/// What changes an image, the code that refuses it, and words of the refusal.
type Row = (&'static str, fn(&mut Vec<u8>), &'static str, &'static str);

#[test]
fn each_malformed_image_is_refused_by_its_code() {
    let before = refusals(&image());
    for (name, change, code, words) in
        HEADERS.iter().chain(SEGMENTS).chain(PLACES).chain(TABLES).chain(CONTENTS)
    {
        let after = refusals(&changed(change));
        let new: Vec<_> = after.iter().filter(|refusal| !before.contains(refusal)).collect();
        assert!(
            new.iter().any(|(found, message)| found == code && message.contains(words)),
            "{name}: {new:?}"
        );
    }
}

/// A loader that obeys the layout never sees them either.
#[test]
fn what_steers_a_loader_has_no_layout() {
    assert!(layout(&image()).is_ok());
    for (name, change, _, _) in HEADERS.iter().chain(SEGMENTS).chain(TABLES) {
        if !JUDGED_ONLY.contains(name) {
            assert!(layout(&changed(change)).is_err(), "{name}");
        }
    }
}

/// Nothing that a loader of ours would do differently.
const JUDGED_ONLY: &[&str] = &[
    "a stack that may be executed",
    "an image that is told to be huge",
    "a library whose name lies elsewhere",
];

fn patch(bytes: &mut [u8], kind: u32, number: usize, field: Field, value: u64) {
    let at = header(bytes, kind, number);
    set(bytes, at, field, value);
}

fn value(bytes: &mut [u8], tag: u64, value: u64) {
    let at = dynamic(bytes, tag) + 8;
    write(bytes, at, &value.to_le_bytes());
}

/// Turns an entry that nobody needs into another.
fn retag(bytes: &mut [u8], tag: u64, value: u64) {
    let at = dynamic(bytes, sample::DT_RELACOUNT);
    write(bytes, at, &tag.to_le_bytes());
    write(bytes, at + 8, &value.to_le_bytes());
}

/// A header that stands for no part of the file becomes another.
fn rehead(bytes: &mut [u8], kind: u32) {
    let spare = if kind == sample::PT_GNU_STACK { sample::PT_TLS } else { sample::PT_GNU_STACK };
    patch(bytes, spare, 0, Field::Type, u64::from(kind));
}

const HEADERS: &[Row] = &[
    ("more headers than a count can say", |b| write(b, 56, &[0xff, 0xff]), "MF0501", "program headers"),
    ("headers of the 32-bit size", |b| write(b, 54, &[32, 0]), "MF0501", "unknown size"),
    (
        "headers behind the file",
        |b| write(b, 32, &u64::MAX.to_le_bytes()),
        "MF0501",
        "table of program headers",
    ),
    (
        "headers that end behind the file",
        |b| {
            let end = (b.len() - 100) as u64;
            write(b, 32, &end.to_le_bytes());
        },
        "MF0501",
        "table of program headers",
    ),
    ("a header of a type for another system", |b| rehead(b, 0x6000_0001), "MF0501", "unknown type"),
    ("a header that only processors know", |b| rehead(b, 0x7000_0001), "MF0501", "unknown type"),
    ("a second dynamic table", |b| rehead(b, sample::PT_DYNAMIC), "MF0501", "second dynamic table"),
    ("a second template of thread-locals", |b| rehead(b, sample::PT_TLS), "MF0501", "second thread-local"),
    ("a second word about the stack", |b| rehead(b, sample::PT_GNU_STACK), "MF0501", "second stack"),
    ("a second RELRO range", |b| rehead(b, sample::PT_GNU_RELRO), "MF0501", "second RELRO"),
    (
        "a dynamic table with two places",
        |b| patch(b, sample::PT_DYNAMIC, 0, Field::Offset, 64),
        "MF0501",
        "two places",
    ),
    (
        "a template with two places",
        |b| patch(b, sample::PT_TLS, 0, Field::Offset, 64),
        "MF0501",
        "two places",
    ),
    (
        "a RELRO range with two places",
        |b| patch(b, sample::PT_GNU_RELRO, 0, Field::Offset, 64),
        "MF0501",
        "two places",
    ),
    (
        "a dynamic table in no segment",
        |b| patch(b, sample::PT_DYNAMIC, 0, Field::Va, 1 << 40),
        "MF0501",
        "the dynamic table",
    ),
    (
        "a dynamic table without an end",
        |b| patch(b, sample::PT_DYNAMIC, 0, Field::MemSize, 32),
        "MF0501",
        "without an end",
    ),
    (
        "an empty dynamic table",
        |b| patch(b, sample::PT_DYNAMIC, 0, Field::MemSize, 0),
        "MF0501",
        "without an end",
    ),
    (
        "a stack that may be executed",
        |b| patch(b, sample::PT_GNU_STACK, 0, Field::Flags, 7),
        "MF0502",
        "stack",
    ),
];

const SEGMENTS: &[Row] = &[
    (
        "alignment beyond pages",
        |b| patch(b, sample::PT_LOAD, sample::DATA, Field::Align, 1 << 16),
        "MF0502",
        "alignment",
    ),
    (
        "an immense alignment",
        |b| patch(b, sample::PT_LOAD, sample::CODE, Field::Align, 1 << 63),
        "MF0502",
        "alignment",
    ),
    (
        "alignment that is no power of two",
        |b| patch(b, sample::PT_LOAD, sample::DATA, Field::Align, 48),
        "MF0502",
        "alignment",
    ),
    (
        "a segment without bytes",
        |b| {
            patch(b, sample::PT_LOAD, sample::CONSTANTS, Field::FileSize, 0);
            patch(b, sample::PT_LOAD, sample::CONSTANTS, Field::MemSize, 0);
        },
        "MF0502",
        "or empty",
    ),
    (
        "a segment that overlaps the one before",
        |b| {
            let at = header(b, sample::PT_LOAD, sample::TABLES);
            set(b, at, Field::MemSize, DATA_START - TABLES_START + ALIGN_BYTES);
        },
        "MF0502",
        "overlaps",
    ),
    (
        "segments out of order",
        |b| {
            let (first, second) = (header(b, sample::PT_LOAD, 2), header(b, sample::PT_LOAD, 3));
            let (one, other) = (b[first..first + 56].to_vec(), b[second..second + 56].to_vec());
            write(b, first, &other);
            write(b, second, &one);
        },
        "MF0502",
        "lies before",
    ),
    (
        "a segment that could be written and run",
        |b| patch(b, sample::PT_LOAD, sample::CODE, Field::Flags, 7),
        "MF0502",
        "writable and executable",
    ),
    (
        "constants as code",
        |b| patch(b, sample::PT_LOAD, sample::CONSTANTS, Field::Flags, 5),
        "MF0502",
        "second one with code",
    ),
    (
        "a segment in the kernel's half",
        |b| {
            let at = header(b, sample::PT_LOAD, sample::DATA);
            let va = read_u64(b, at + 16) | 1 << 63;
            set(b, at, Field::Va, va);
        },
        "MF0502",
        "address space",
    ),
    (
        "an image that begins high up to seem small",
        |b| {
            let at = header(b, sample::PT_LOAD, sample::DATA);
            set(b, at, Field::Va, CONSTANTS_START - (1 << 20));
        },
        "MF0509",
        "image in memory",
    ),
    (
        "an image that is told to be huge",
        |b| patch(b, sample::PT_LOAD, sample::DATA, Field::MemSize, 512 << 20),
        "MF0509",
        "image in memory",
    ),
];

/// Where parts of an image may not lie; a loader that reads such an image anyway refuses it too.
const PLACES: &[Row] = &[
    (
        "tables that a call could write",
        |b| patch(b, sample::PT_LOAD, sample::TABLES, Field::Flags, 6),
        "MF0502",
        "lies among the tables",
    ),
    (
        "code among the tables",
        |b| {
            patch(b, sample::PT_LOAD, sample::CODE, Field::Flags, 4);
            patch(b, sample::PT_LOAD, sample::TABLES, Field::Flags, 5);
        },
        "MF0502",
        "lies among the tables",
    ),
    (
        "constants among the tables",
        |b| patch(b, sample::PT_LOAD, sample::TABLES, Field::MemSize, 0x8000),
        "MF0502",
        "bytes lie among the tables",
    ),
    (
        "constants that reach over the end of an image",
        |b| {
            patch(b, sample::PT_GNU_RELRO, 0, Field::FileSize, 0);
            patch(b, sample::PT_GNU_RELRO, 0, Field::MemSize, 0x3000_0000);
            patch(b, sample::PT_LOAD, sample::CONSTANTS + 1, Field::MemSize, 0x3000_0000);
        },
        "MF0502",
        "reaches over the end of a bank",
    ),
    (
        "data that only loading should write, beyond what becomes read-only",
        |b| {
            let bytes = read_u64(b, header(b, sample::PT_GNU_RELRO, 0) + 40);
            patch(b, sample::PT_GNU_RELRO, 0, Field::MemSize, bytes - 1);
        },
        "MF0502",
        "is not only read once it is linked",
    ),
];

const TABLES: &[Row] = &[
    ("an address twice", |b| retag(b, 5, 0), "MF0501", "twice"),
    ("versions of symbols", |b| retag(b, 0x6fff_fffe, 0), "MF0501", "unknown entry"),
    ("an index of versions", |b| retag(b, 0x6fff_fff0, 0), "MF0501", "unknown entry"),
    ("an audit library", |b| retag(b, 0x6fff_fefc, 1), "MF0501", "unknown entry"),
    ("a strings table in no segment", |b| value(b, 5, 1 << 41), "MF0501", "the string table"),
    ("a strings table without a length to speak of", |b| value(b, 10, 1), "MF0501", "string table"),
    ("a strings table that leaves its segment", |b| value(b, 10, 1 << 40), "MF0501", "string table"),
    ("a library whose name lies elsewhere", |b| retag(b, 1, 1 << 33), "MF0501", "string table"),
    ("symbols in no segment", |b| value(b, sample::DT_SYMTAB, u64::MAX - 7), "MF0501", "the symbol table"),
    ("symbols of another size", |b| value(b, 11, 16), "MF0501", "unknown size"),
    ("relocations in no segment", |b| value(b, sample::DT_RELA, 1 << 45), "MF0501", "table of relocations"),
    ("relocations that are cut", |b| value(b, 8, 25), "MF0501", "cut"),
    ("more relocations than anybody reads", |b| value(b, 8, 24 << 30), "MF0501", "relocations"),
    ("relocations of another size", |b| value(b, 9, 16), "MF0501", "unknown size"),
    ("a size without a table", |b| retag(b, 0x23, 8), "MF0501", "half a table"),
];

/// Writes a symbol's field: name (0), kind and binding (4), section (6).
fn symbol(bytes: &mut [u8], field: usize, new: &[u8]) {
    let at = dynamic_value(bytes, sample::DT_SYMTAB) + 24 + field;
    write(bytes, at, new);
}

/// Where the first relocation writes.
fn relocate_at(bytes: &mut [u8], at: u64) {
    let entry = dynamic_value(bytes, sample::DT_RELA);
    write(bytes, entry, &at.to_le_bytes());
}

const CONTENTS: &[Row] = &[
    (
        "a relocation into code, without a word about it",
        |b| {
            let (_, va, _) = text(b);
            relocate_at(b, va);
        },
        "MF0502",
        "written to while loading",
    ),
    (
        "a relocation outside of every segment",
        |b| relocate_at(b, u64::MAX - 3),
        "MF0502",
        "written to while loading",
    ),
    (
        "a relocation that runs code",
        |b| {
            let entry = dynamic_value(b, sample::DT_RELA);
            write(b, entry + 8, &37_u32.to_le_bytes());
        },
        "MF0506",
        "run code while loading",
    ),
    (
        "a relocation that copies",
        |b| {
            let entry = dynamic_value(b, sample::DT_RELA);
            write(b, entry + 8, &5_u32.to_le_bytes());
        },
        "MF0506",
        "type 5",
    ),
    ("a symbol that runs code", |b| symbol(b, 4, &[0x1a]), "MF0506", "run code while loading"),
    (
        "a symbol that is one for the whole process",
        |b| symbol(b, 4, &[0xa2]),
        "MF0505",
        "shared with other images",
    ),
    ("a symbol with a name in no table", |b| symbol(b, 0, &[0xff; 4]), "MF0501", "string table"),
    ("a second constructor", |b| value(b, 27, 16), "MF0507", "2 entries in .init_array"),
    ("a constructor before all others", |b| retag(b, 32, 0), "MF0507", "1 other constructors"),
    (
        "code that moves the thread's own data",
        |b| {
            let (start, _, _) = text(b);
            write(b, start, b"\xf3\x48\x0f\xae\xd0");
        },
        "MF0508",
        "wrfsbase",
    ),
    (
        "code that moves the other base",
        |b| {
            let (start, _, _) = text(b);
            write(b, start, b"\xf3\x48\x0f\xae\xd8");
        },
        "MF0508",
        "wrgsbase",
    ),
];

/// Section headers are for people's tools; whatever they claim, the facts are those of the headers
/// that a loader obeys.
#[test]
fn lies_of_section_headers_change_nothing() {
    let facts = inspect(&image()).unwrap();
    let lies = [(40, u64::MAX), (40, 64), (58, 0xffff_ffff_ffff_0040)];
    for (at, lie) in lies {
        let bytes = changed(|bytes| {
            let kept = bytes[54..58].to_vec();
            write(bytes, at, &lie.to_le_bytes()[..if at == 58 { 6 } else { 8 }]);
            write(bytes, 54, &kept);
        });
        assert_eq!(inspect(&bytes).unwrap(), facts, "{at}: {lie:#x}");
        assert_eq!(layout(&bytes), layout(&image()));
    }
}

/// A hash table that hides symbols would hide imports from the verdict.
#[test]
fn hash_tables_that_hide_symbols_are_refused() {
    const DT_HASH: u64 = 4;
    const DT_GNU_HASH: u64 = 0x6fff_fef5;
    let with = |changes: &[(u64, usize, u32)]| {
        let bytes = changed(|bytes| {
            for (tag, offset, count) in changes {
                let at = dynamic_value(bytes, *tag) + offset;
                write(bytes, at, &count.to_le_bytes());
            }
        });
        assert!(layout(&bytes).is_err());
        inspect(&bytes).unwrap_err().to_string()
    };
    // The number of chains is the number of symbols.
    assert!(with(&[(DT_HASH, 4, 1)]).contains("contradict"));
    assert!(with(&[(DT_HASH, 4, u32::MAX)]).contains("hash table"));
    assert!(with(&[(DT_GNU_HASH, 0, u32::MAX)]).contains("GNU hash table"));
    // Both agree on hiding all of them; the relocations still name some.
    assert!(with(&[(DT_HASH, 4, 1), (DT_GNU_HASH, 0, 0)]).contains("the symbol of a relocation"));
}
