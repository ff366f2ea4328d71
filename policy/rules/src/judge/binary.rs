//! The ELF image.

use crate::{
    Code, Finding, Layer, codes,
    facts::BinaryFacts,
    limits::BINARY,
    profiles::{imports, instructions},
};

/// Refusals of an image; empty = nothing to say against it.
pub fn judge_binary(facts: &BinaryFacts) -> Vec<Finding> {
    let mut found: Vec<(Code, String)> = Vec::new();
    judge_form(facts, &mut found);
    judge_sizes(facts, &mut found);
    judge_names(facts, &mut found);
    judge_code(facts, &mut found);
    found.into_iter().map(|(code, message)| Finding::new(code, Layer::Binary, message)).collect()
}

fn judge_form(facts: &BinaryFacts, found: &mut Vec<(Code, String)>) {
    let mut refuse = |condition: bool, code: Code, message: &str| {
        if condition {
            found.push((code, message.to_owned()));
        }
    };
    refuse(!facts.is_x86_64_shared_object, codes::MF0501, "not an ELF64 x86-64 shared object");
    refuse(facts.interpreter, codes::MF0501, "the image names an interpreter");
    refuse(facts.writable_and_executable, codes::MF0502, "a segment is writable and executable");
    refuse(facts.executable_stack, codes::MF0502, "the stack would be executable");
    refuse(facts.text_relocations, codes::MF0502, "the code would be written to while loading");
    refuse(facts.relro_missing, codes::MF0502, "the tables of addresses would stay writable");
    for fault in &facts.segment_faults {
        found.push((codes::MF0502, format!("segments: {fault}")));
    }
}

fn judge_sizes(facts: &BinaryFacts, found: &mut Vec<(Code, String)>) {
    let rows = [
        ("file", facts.file_bytes, "file_bytes_max", BINARY.file_bytes_max),
        ("image in memory", facts.image_bytes, "image_bytes_max", BINARY.image_bytes_max),
        ("writable data", facts.writable_bytes, "writable_bytes_max", BINARY.writable_bytes_max),
        ("thread-local data", facts.tls_bytes, "tls_bytes_max", BINARY.tls_bytes_max),
    ];
    for (what, bytes, limit, max) in rows {
        if bytes > max {
            let text = format!("{what}: {bytes} bytes, more than `{limit}` ({max} bytes) allows");
            found.push((codes::MF0509, text));
        }
    }
}

fn judge_names(facts: &BinaryFacts, found: &mut Vec<(Code, String)>) {
    // A function that asks its host for nothing names no library.
    if !facts.needed.is_empty() && facts.needed != [instructions::NEEDED] {
        found.push((codes::MF0503, format!("needs {:?}, not only {}", facts.needed, instructions::NEEDED)));
    }
    for tag in &facts.search_paths {
        found.push((codes::MF0503, format!("has {tag}, which would choose libraries")));
    }
    for symbol in &facts.imports {
        if !imports::ROWS.iter().any(|row| row.symbol == symbol) {
            let api = imports::api_of(symbol).map(|api| format!(" ({api})")).unwrap_or_default();
            found.push((codes::MF0504, format!("imports `{symbol}`{api}, which is not offered")));
        }
    }
    if facts.exports != [instructions::ENTRY] {
        found.push((codes::MF0505, format!("exports {:?}, not only {}", facts.exports, instructions::ENTRY)));
    }
    if facts.unique_symbols > 0 {
        found.push((codes::MF0505, "has symbols that would be shared with other images".to_owned()));
    }
    if facts.ifuncs > 0 {
        found.push((codes::MF0506, "has symbols that run code while loading".to_owned()));
    }
    for number in &facts.relocation_types {
        if !instructions::RELOCATIONS.iter().any(|row| row.number == *number) {
            found.push((codes::MF0506, format!("has relocations of type {number}")));
        }
    }
}

fn judge_code(facts: &BinaryFacts, found: &mut Vec<(Code, String)>) {
    if facts.init_array != instructions::INIT_ARRAY_ENTRIES || facts.other_constructors > 0 {
        found.push((
            codes::MF0507,
            format!(
                "has {} entries in .init_array and {} other constructors where std has {} and none",
                facts.init_array,
                facts.other_constructors,
                instructions::INIT_ARRAY_ENTRIES
            ),
        ));
    }
    for (mnemonic, address) in facts.key_instructions.iter().chain(&facts.system_instructions) {
        found.push((codes::MF0508, format!("contains `{mnemonic}` at {address:#x}")));
    }
}
