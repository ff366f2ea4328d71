//! The SQL statements that stand in the program's source, so that none escapes for not being run here.

use std::path::Path;

/// A statement and the file that it stands in.
pub(super) struct Statement {
    pub(super) file: String,
    /// As it is written.
    pub(super) text: String,
    /// On one line.
    pub(super) flat: String,
}

/// Files whose statements never run by themselves or for a page, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("invariants.rs", "the checker of the whole registry, run by hand and by tests: it reads everything"),
    ("schema.rs", "describes the schema for a test"),
    ("snapshot.rs", "a backup, which takes everything"),
    ("restoring.rs", "a restore, which looks at an empty database"),
    ("object_events.rs", "asks the database of functions' data: the tests of mfaas-kv run all of it there"),
    ("audit_archive.rs", "an archive of the audit log, which takes its older part, once a year"),
];

/// Every statement of these files and of those in these directories.
pub(super) fn statements(places: &[&str]) -> Vec<Statement> {
    let mut found = Vec::new();
    for place in places {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(place);
        let files: Vec<_> = if place.is_dir() {
            std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).collect()
        } else {
            vec![place]
        };
        for file in files.into_iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if !LEFT_OUT.iter().any(|(left_out, _)| *left_out == name) {
                let source = std::fs::read_to_string(&file).unwrap();
                let statement = |text: String| Statement { file: name.clone(), flat: flat(&text), text };
                found.extend(in_source(&source).into_iter().map(statement));
            }
        }
    }
    found
}

/// Literals that are statements; pieces that are put together stand together, constants in their places.
fn in_source(source: &str) -> Vec<String> {
    let decisions =
        "SELECT name, version, checksum, features, direct, status, decided_by, decided_at, reason, scope, expires_at
         FROM crates
         WHERE scope IN ('', $1) AND toolchain IN ('', $2) AND (expires_at IS NULL OR expires_at > now())";
    let source = source.replace("decisions!()", &format!("{decisions:?}"));
    let (literals, constants) = literals(&source);
    let mut found: Vec<String> = Vec::new();
    for (text, goes_on) in literals {
        if goes_on && let Some(last) = found.last_mut() {
            last.push_str(&text);
            continue;
        }
        found.push(text);
    }
    // A constant that others are made with is no statement by itself.
    let part = |text: &String| {
        constants.iter().any(|(name, c)| c == text && source.contains(&format!("{{{name}}}")))
    };
    found.retain(|text| is_statement(text) && !part(text));
    for text in &mut found {
        for (name, value) in &constants {
            *text = text.replace(&format!("{{{name}}}"), value);
        }
    }
    found
}

fn is_statement(text: &str) -> bool {
    let text = text.trim_start();
    ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "WITH "].iter().any(|word| text.starts_with(word))
}

type Pieces = Vec<(String, bool)>;
type Constants = Vec<(String, String)>;

/// String literals in their order, each with whether it is a further piece of the same `concat!`, and those that
/// constants are made of. Comments are left out.
fn literals(source: &str) -> (Pieces, Constants) {
    let (mut found, mut constants) = (Vec::new(), Vec::new());
    let (mut at, mut code) = (0, String::new());
    let bytes = source.as_bytes();
    while at < bytes.len() {
        if source[at..].starts_with("//") {
            at += source[at..].find('\n').unwrap_or(source.len() - at);
        } else if source[at..].starts_with("'\"'") {
            at += 3;
        } else if bytes[at] == b'"' {
            let raw = code.ends_with('r');
            let end = literal_end(bytes, at + 1, raw);
            let text = unescaped(&source[at + 1..end], raw);
            let before = code.trim_end();
            if let Some(name) = before.strip_suffix(": &str =").and_then(|c| c.rsplit("const ").next()) {
                constants.push((name.to_owned(), text.clone()));
            }
            found.push((text, before.ends_with(',') && is_open(&code)));
            at = end + 1;
            code.push('"');
        } else {
            let next = source[at..].chars().next().unwrap();
            code.push(next);
            at += next.len_utf8();
        }
    }
    (found, constants)
}

/// Whether the last `concat!(` of the code before is still open: literals are one `"` each in it.
fn is_open(code: &str) -> bool {
    code.rfind("concat!(").is_some_and(|start| {
        let inside = &code[start + "concat!(".len()..];
        !inside.contains(')') && inside.contains('"')
    })
}

fn literal_end(bytes: &[u8], mut at: usize, raw: bool) -> usize {
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' && !raw { 2 } else { 1 };
    }
    at
}

fn unescaped(text: &str, raw: bool) -> String {
    if raw { text.to_owned() } else { text.replace("\\\n", "").replace("\\\"", "\"").replace("\\n", "\n") }
}

/// Without line breaks and indentation.
pub(super) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
