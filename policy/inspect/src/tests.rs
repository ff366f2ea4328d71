//! Facts and layouts of a real image, of that image with one thing wrong, and of noise.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod malformed;
mod sample;

use mfaas_rules::profiles::instructions::RELOCATIONS;
use proptest::prelude::*;
use sample::{Field, dynamic, dynamic_value, header, image, packed_image, read_u64, set, text, write};

use crate::{InspectError, Layout, Relocation, SymbolTarget, inspect, layout};

fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = image();
    change(&mut bytes);
    bytes
}

#[test]
fn a_real_image_has_the_facts_of_a_real_image() {
    let facts = inspect(&image()).unwrap();
    assert!(facts.is_x86_64_shared_object && !facts.relro_missing);
    assert!(!facts.writable_and_executable && !facts.executable_stack && !facts.text_relocations);
    assert!(!facts.interpreter && facts.segment_faults.is_empty() && facts.search_paths.is_empty());
    assert_eq!(facts.exports, ["entry"]);
    assert!(facts.imports.iter().any(|name| name == "__tls_get_addr"), "{:?}", facts.imports);
    assert_eq!((facts.init_array, facts.other_constructors), (1, 0));
    assert_eq!((facts.ifuncs, facts.unique_symbols), (0, 0));
    assert_eq!(facts.file_bytes, image().len() as u64);
    assert!(facts.image_bytes > 100_000 && facts.image_bytes < 1 << 20);
    assert!(facts.writable_bytes > 0 && facts.writable_bytes < 64 << 10, "{}", facts.writable_bytes);
    assert!(facts.tls_bytes >= 8);
    for kind in &facts.relocation_types {
        assert!(RELOCATIONS.iter().any(|row| row.number == *kind), "relocation type {kind}");
    }
    assert_eq!((facts.key_instructions.as_slice(), facts.system_instructions.as_slice()), (&[][..], &[][..]));
}

#[test]
fn a_real_image_has_a_layout() {
    let layout = layout(&image()).unwrap();
    check_promises(&image(), &layout);
    let entry = layout.exports.iter().find(|export| export.name == "entry").unwrap();
    let holder = layout.segments.iter().find(|segment| segment.range().contains(&entry.va)).unwrap();
    assert!(holder.access.execute && !holder.access.write);
    assert!(layout.tls.is_some_and(|tls| tls.mem_size >= 8 && tls.align >= 8));
    let init = layout.init_array.clone().unwrap();
    assert_eq!(init.end - init.start, 8);
    assert!(layout.relro.is_some_and(|relro| relro.end > relro.start));
    let relative = |one: &&Relocation| matches!(one, Relocation::Relative { .. });
    assert!(layout.relocations.iter().filter(relative).count() > 100);
    assert!(layout.relocations.iter().any(|one| matches!(one, Relocation::TlsModule { .. })));
    assert!(layout.imports.iter().any(|import| import.name == "__tls_get_addr" && !import.weak));
    assert!(layout.imports.iter().any(|import| import.weak));
}

/// What `layout` promises to a loader, whatever the bytes were.
fn check_promises(data: &[u8], layout: &Layout) {
    let mut end = 0;
    for segment in &layout.segments {
        assert!(segment.file_offset + segment.file_size <= data.len() as u64);
        assert!(segment.file_size <= segment.mem_size);
        assert!(segment.va >= end && segment.range().end <= layout.span_bytes);
        assert!(segment.align.is_power_of_two() && segment.align <= crate::PAGE_BYTES);
        assert!(!(segment.access.write && segment.access.execute));
        end = segment.range().end;
    }
    let writable = |at: u64| {
        let mut segments = layout.segments.iter().filter(|segment| segment.access.write);
        segments.any(|segment| segment.va <= at && at + 8 <= segment.range().end)
    };
    let tls_bytes = layout.tls.map_or(0, |tls| tls.mem_size);
    for relocation in &layout.relocations {
        let at = match *relocation {
            Relocation::Relative { at, addend } => {
                assert!(addend <= layout.span_bytes);
                at
            }
            Relocation::Symbol { at, target, .. } => {
                match target {
                    SymbolTarget::Import(number) => assert!(number < layout.imports.len()),
                    SymbolTarget::Defined(value) => assert!(value <= layout.span_bytes),
                }
                at
            }
            Relocation::TlsModule { at } => at,
            Relocation::TlsOffset { at, value } => {
                assert!(value <= tls_bytes);
                at
            }
        };
        assert!(writable(at), "{relocation:?}");
    }
    if let Some(relro) = &layout.relro {
        let inside = |range: std::ops::Range<u64>| range.start <= relro.start && relro.end <= range.end;
        assert!(layout.segments.iter().any(|segment| segment.access.write && inside(segment.range())));
    }
}

#[test]
fn what_has_no_facts_has_no_layout() {
    // A count that only speeds a loader up becomes a DT_NEEDED whose name lies outside of the string table.
    let bytes = changed(|bytes| {
        let at = dynamic(bytes, sample::DT_RELACOUNT);
        write(bytes, at, &1_u64.to_le_bytes());
        write(bytes, at + 8, &u64::MAX.to_le_bytes());
    });
    let error = InspectError::OutOfBounds { what: "the string table" };
    assert_eq!(inspect(&bytes), Err(error.clone()));
    assert_eq!(layout(&bytes), Err(error));
}

#[test]
fn packed_relocations_say_the_same() {
    let relative = |data: &[u8]| {
        let relocations = layout(data).unwrap().relocations;
        relocations.iter().filter(|one| matches!(one, Relocation::Relative { .. })).count()
    };
    let packed = layout(&packed_image()).unwrap();
    check_promises(&packed_image(), &packed);
    assert_eq!(relative(&image()), relative(&packed_image()));
    // Addends come from the file: every one that names code lies in the executable segment.
    let (_, va, bytes) = text(&packed_image());
    let code = va..va + bytes as u64;
    let names_code =
        |one: &&Relocation| matches!(one, Relocation::Relative { addend, .. } if code.contains(addend));
    assert!(packed.relocations.iter().filter(names_code).count() > 50);
}

#[test]
fn other_files_are_no_shared_objects() {
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 4096]] {
        let facts = inspect(bytes).unwrap();
        assert!(!facts.is_x86_64_shared_object);
        assert_eq!(layout(bytes), Err(InspectError::Unloadable { what: "no x86-64 shared object" }));
    }
    // A program, another machine, 32 bit, big endian.
    for (at, value) in [(16, 2), (18, 3), (4, 1), (5, 2)] {
        let bytes = changed(|bytes| bytes[at] = value);
        assert!(!inspect(&bytes).unwrap().is_x86_64_shared_object);
    }
}

#[test]
fn protection_of_segments_is_told() {
    let writable_code = changed(|bytes| {
        let at = header(bytes, sample::PT_LOAD, sample::CODE);
        set(bytes, at, Field::Flags, 7);
    });
    assert!(inspect(&writable_code).unwrap().writable_and_executable);
    assert!(matches!(layout(&writable_code), Err(InspectError::Unloadable { .. })));
    for (field, value) in [(Field::Flags, 7), (Field::Type, sample::PT_NULL)] {
        let bytes = changed(|bytes| {
            let at = header(bytes, sample::PT_GNU_STACK, 0);
            set(bytes, at, field, value);
        });
        assert!(inspect(&bytes).unwrap().executable_stack);
    }
    let no_relro = changed(|bytes| {
        let at = header(bytes, sample::PT_GNU_RELRO, 0);
        set(bytes, at, Field::Type, sample::PT_NULL);
    });
    let (with, without) = (inspect(&image()).unwrap(), inspect(&no_relro).unwrap());
    assert!(without.relro_missing && without.writable_bytes > with.writable_bytes);
    let program = changed(|bytes| {
        let at = header(bytes, sample::PT_GNU_STACK, 0);
        set(bytes, at, Field::Type, sample::PT_INTERP);
    });
    assert!(inspect(&program).unwrap().interpreter);
    assert!(matches!(layout(&program), Err(InspectError::Unloadable { .. })));
}

#[test]
fn impossible_segments_are_faults() {
    let last = |bytes: &[u8]| header(bytes, sample::PT_LOAD, sample::DATA);
    let cases: [(Field, u64); 5] = [
        (Field::Offset, u64::MAX - 0x33f),
        (Field::FileSize, 1 << 40),
        (Field::MemSize, u64::MAX),
        (Field::MemSize, 0),
        (Field::Va, 0),
    ];
    for (field, value) in cases {
        let bytes = changed(|bytes| {
            let at = last(bytes);
            set(bytes, at, field, value);
        });
        match inspect(&bytes) {
            Ok(facts) => assert_eq!(facts.segment_faults.len(), 1, "{value:#x}"),
            Err(error) => panic!("{value:#x}: {error}"),
        }
        assert!(matches!(layout(&bytes), Err(InspectError::Malformed { .. })), "{value:#x}");
    }
}

#[test]
fn code_in_two_segments_is_a_fault() {
    let bytes = changed(|bytes| {
        let at = header(bytes, sample::PT_LOAD, sample::CONSTANTS);
        set(bytes, at, Field::Flags, 5);
    });
    assert_eq!(inspect(&bytes).unwrap().segment_faults, ["segment 3 is a second one with code"]);
    assert!(layout(&bytes).is_err());
}

#[test]
fn writable_data_outside_of_its_bank_is_a_fault() {
    let faults = inspect(&sample::image_in_one_piece()).unwrap().segment_faults;
    assert!(faults.iter().all(|fault| fault.ends_with("stays writable among the code")), "{faults:?}");
    assert!(!faults.is_empty());
    let bytes = changed(|bytes| {
        let at = header(bytes, sample::PT_LOAD, sample::DATA);
        set(bytes, at, Field::Flags, 4);
    });
    let faults = inspect(&bytes).unwrap().segment_faults;
    assert!(
        faults.iter().any(|fault| fault.ends_with("is not writable and lies among the data")),
        "{faults:?}"
    );
}

#[test]
fn a_small_file_may_not_claim_much_memory() {
    let bytes = changed(|bytes| {
        let at = header(bytes, sample::PT_LOAD, sample::DATA);
        set(bytes, at, Field::MemSize, 512 << 20);
    });
    assert!(inspect(&bytes).unwrap().image_bytes > 512 << 20);
    assert!(matches!(layout(&bytes), Err(InspectError::TooLarge { .. })));
}

#[test]
fn instructions_on_protection_keys_are_found_at_every_offset() {
    let cases: [(&[u8], &str); 5] = [
        (b"\x0f\x01\xef", "wrpkru"),
        (b"\x0f\xae\x28", "xrstor"),
        (b"\x48\x0f\xae\x6c\x24\x40", "xrstor"),
        (b"\x0f\xc7\x18", "xrstors"),
        // Inside of `mov eax, 0x00ef010f`.
        (b"\xb8\x0f\x01\xef\x00", "wrpkru"),
    ];
    for (code, mnemonic) in cases {
        for offset in [0, 1, 777] {
            let bytes = changed(|bytes| {
                let (start, _, _) = text(bytes);
                write(bytes, start + offset, code);
            });
            let found = inspect(&bytes).unwrap().key_instructions;
            let prefix = code.windows(2).position(|pair| pair[0] == 0x0f).unwrap();
            let at = text(&bytes).1 + (offset + prefix) as u64;
            assert!(found.contains(&(mnemonic.to_owned(), at)), "{mnemonic} at {offset}: {found:?}");
        }
    }
    // lfence, fxsave and cmpxchg8b are their neighbours.
    let bytes = changed(|bytes| {
        let (start, _, _) = text(bytes);
        write(bytes, start, b"\x0f\xae\xe8\x0f\xae\x00\x0f\xc7\x08\x90");
    });
    assert!(inspect(&bytes).unwrap().key_instructions.is_empty());
}

#[test]
fn calls_into_the_kernel_are_found_at_instruction_boundaries() {
    for (code, mnemonic) in [(&b"\x0f\x05"[..], "syscall"), (b"\x0f\x34", "sysenter"), (b"\xcd\x80", "int")] {
        let (start, va, size) = text(&image());
        let bytes = changed(|bytes| write(bytes, start, code));
        let found = inspect(&bytes).unwrap().system_instructions;
        assert_eq!(found.first(), Some(&(mnemonic.to_owned(), va)));
        // The same bytes as the operand of another instruction.
        let hidden = changed(|bytes| {
            write(bytes, start, &[0x90; 16]);
            write(bytes, start, &[&[0xb8][..], code, &[0, 0]].concat());
        });
        assert!(inspect(&hidden).unwrap().system_instructions.is_empty());
        // An image full of them is reported, not listed.
        let full = changed(|bytes| bytes[start..start + size].fill(0x90));
        let full = {
            let mut bytes = full;
            bytes[start..start + size / 2 * 2]
                .chunks_exact_mut(2)
                .for_each(|pair| pair.copy_from_slice(code));
            bytes
        };
        assert_eq!(inspect(&full).unwrap().system_instructions.len(), 64);
    }
}

#[test]
fn the_dynamic_table_is_told() {
    let retag = |tag: u64, value: Option<u64>| {
        changed(|bytes| {
            let at = dynamic(bytes, sample::DT_RELACOUNT);
            write(bytes, at, &tag.to_le_bytes());
            if let Some(value) = value {
                write(bytes, at + 8, &value.to_le_bytes());
            }
        })
    };
    let facts = |tag, value| inspect(&retag(tag, value)).unwrap();
    assert!(facts(22, None).text_relocations, "DT_TEXTREL");
    assert_eq!(facts(15, Some(0)).search_paths, ["DT_RPATH"]);
    assert_eq!(facts(29, Some(0)).search_paths, ["DT_RUNPATH"]);
    assert_eq!(facts(0x7fff_fffd, Some(0)).search_paths, ["DT_AUXILIARY"]);
    assert_eq!(facts(0x7fff_ffff, Some(0)).search_paths, ["DT_FILTER"]);
    assert_eq!(facts(1, Some(0)).needed, [""], "DT_NEEDED");
    for (tag, name) in [(12, "DT_INIT"), (13, "DT_FINI"), (26, "DT_FINI_ARRAY"), (32, "DT_PREINIT_ARRAY")] {
        assert_eq!(facts(tag, None).other_constructors, 1, "{name}");
    }
    for (tag, what) in [(0x1234_5678, "unknown"), (7, "twice"), (17, "without addends")] {
        let error = inspect(&retag(tag, None)).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn the_size_of_the_array_of_constructors_is_believed() {
    let bytes = changed(|bytes| {
        let at = dynamic(bytes, 27);
        write(bytes, at + 8, &24_u64.to_le_bytes());
    });
    assert_eq!(inspect(&bytes).unwrap().init_array, 3);
}

/// The image with the first relocation of the table changed.
fn with_relocation(at: Option<u64>, kind: u32) -> Vec<u8> {
    changed(|bytes| {
        let entry = dynamic_value(bytes, sample::DT_RELA);
        if let Some(at) = at {
            write(bytes, entry, &at.to_le_bytes());
        }
        write(bytes, entry + 8, &kind.to_le_bytes());
    })
}

#[test]
fn relocations_are_told_and_bounded() {
    let first = |bytes: &[u8]| read_u64(bytes, dynamic_value(bytes, sample::DT_RELA));
    for kind in [5, 18, 37, 99] {
        let bytes = with_relocation(None, kind);
        let facts = inspect(&bytes).unwrap();
        assert!(facts.relocation_types.contains(&kind));
        assert_eq!(facts.ifuncs, usize::from(kind == 37));
        let at = first(&bytes);
        assert_eq!(layout(&bytes), Err(InspectError::UnknownRelocation { kind, at }));
    }
    let (_, code, _) = text(&image());
    let end = layout(&image()).unwrap().segments.last().unwrap().range().end;
    for at in [0, code, end - 7, end, u64::MAX, u64::MAX - 7] {
        let refused = layout(&with_relocation(Some(at), 8));
        assert_eq!(refused, Err(InspectError::OutOfBounds { what: "the target of a relocation" }), "{at:#x}");
    }
    assert!(layout(&with_relocation(Some(end - 8), 8)).is_ok());
}

#[test]
fn symbols_of_special_kinds_are_told() {
    let entry_bytes = 24;
    // st_info is the fifth byte: binding in the upper half, type in the lower.
    let with_info = |info: u8| {
        changed(|bytes| {
            let symbols = dynamic_value(bytes, sample::DT_SYMTAB);
            let count = inspect(bytes).unwrap().imports.len() + 1;
            write(bytes, symbols + entry_bytes * count + 4, &[info]);
        })
    };
    assert_eq!(
        inspect(&with_info(0x12)).unwrap().exports,
        ["entry"],
        "the symbol is where it was looked for"
    );
    assert_eq!(inspect(&with_info(0x1a)).unwrap().ifuncs, 1);
    assert!(matches!(layout(&with_info(0x1a)), Err(InspectError::Unloadable { .. })));
    assert_eq!(inspect(&with_info(0xa2)).unwrap().unique_symbols, 1);
}

#[test]
fn every_cut_is_refused_or_read_without_a_panic() {
    // Behind the last segment there are only section headers, which nobody reads.
    let bytes = image();
    let used =
        layout(&bytes).unwrap().segments.iter().map(|one| one.file_offset + one.file_size).max().unwrap();
    for end in (0..used as usize).step_by(997).chain(0..2048) {
        let _ = inspect(&bytes[..end]);
        assert!(layout(&bytes[..end]).is_err());
    }
}

/// The bytes that decide: headers and symbols at the front, the dynamic table, relocations.
fn deciding_offsets() -> Vec<usize> {
    let bytes = image();
    let table = read_u64(&bytes, header(&bytes, sample::PT_DYNAMIC, 0) + 8) as usize;
    let relocations = dynamic_value(&bytes, sample::DT_RELA);
    (0..2048).chain(table..table + 512).chain(relocations..relocations + 480).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_bytes_never_break_a_promise(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let offsets = deciding_offsets();
        let bytes = changed(|bytes| {
            for (index, value) in &changes {
                bytes[*index.get(&offsets)] = *value;
            }
        });
        let _ = inspect(&bytes);
        if let Ok(layout) = layout(&bytes) {
            check_promises(&bytes, &layout);
        }
    }

    #[test]
    fn changed_words_never_break_a_promise(
        index in any::<prop::sample::Index>(),
        word in prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 47), Just(u64::MAX - 4096), 0_u64..1 << 20]
    ) {
        let offset = *index.get(&deciding_offsets()) & !7;
        let bytes = changed(|bytes| write(bytes, offset, &word.to_le_bytes()));
        let _ = inspect(&bytes);
        if let Ok(layout) = layout(&bytes) {
            check_promises(&bytes, &layout);
        }
    }

    #[test]
    fn noise_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let mut noise = image()[..64].to_vec();
        noise.extend(bytes);
        let _ = (inspect(&noise), layout(&noise));
    }
}
