//! One concept, one word: the words of `retired-words.txt` are refused where people or programs meet them.
//!
//! That is in identifiers of Rust (as parts of snake_case and CamelCase names, too), in string literals outside of
//! tests, in the doc comments that become help texts and the description of the interface, in pages and their scripts,
//! and in migrations that came after the words were retired. Comments, prose and the data of tests are free.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;

use mfaas_architecture::{read, tracked_files};
use mfaas_audit::classes::{Class, classes};

/// The last migration that may name columns by retired words.
const MIGRATIONS_BEFORE: u32 = 21;
/// Where doc comments are what people read: help texts, and descriptions of the REST interface.
const DOCUMENTED: [&str; 3] = ["api/cli/src/commands", "api/wire/src/", "api/server/src/commands.rs"];

/// A word, or several in a row, in lower case.
struct Retired {
    words: Vec<String>,
    text: String,
    replacement: String,
    folders: Vec<String>,
}

impl Retired {
    fn counts_in(&self, file: &str) -> bool {
        self.folders.iter().any(|folder| folder == "everywhere" || file.starts_with(&format!("{folder}/")))
    }

    fn is_in(&self, words: &[String]) -> bool {
        words.windows(self.words.len()).any(|window| window == self.words)
    }
}

/// A file that may use a retired word.
type Exception = (String, String);

fn rows(text: &str) -> (Vec<Retired>, Vec<Exception>) {
    let (mut retired, mut exceptions) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [first, second, third] = cells[..] else { panic!("{line}: three cells are needed") };
        assert!(!third.is_empty(), "{line}: the last cell is empty");
        if let Some(file) = first.strip_prefix("except ") {
            exceptions.push((file.to_owned(), second.to_owned()));
            continue;
        }
        let folders = third.split(' ').map(str::to_owned).collect();
        let (words, text, replacement) = (words_of(first), first.to_owned(), second.to_owned());
        retired.push(Retired { words, text, replacement, folders });
    }
    (retired, exceptions)
}

/// The words of a text: runs of letters, split at `_` and where CamelCase begins another one.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in text.split(|c: char| !c.is_alphabetic()) {
        let letters: Vec<char> = run.chars().collect();
        let mut word = String::new();
        for (at, letter) in letters.iter().enumerate() {
            let after_small = at > 0 && !letters[at - 1].is_uppercase();
            let before_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
            if letter.is_uppercase() && (after_small || before_small) && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(letter.to_lowercase());
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

fn is_test(file: &str) -> bool {
    file.starts_with("tests/")
        || ["/tests/", "/tests.rs", "/examples/", "/benches/"].iter().any(|part| file.contains(part))
}

/// The texts of a Rust file that count, each with the number of its line.
fn texts_of_rust(file: &str, source: &str) -> Vec<(usize, String)> {
    let tests_begin = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
    let documented = DOCUMENTED.iter().any(|folder| file.starts_with(folder)) && !is_test(file);
    let counts = |class, at: usize| match class {
        Class::Ident | Class::Macro | Class::Attribute | Class::Lifetime => true,
        Class::Str => !is_test(file) && at < tests_begin,
        Class::DocComment => documented && at < tests_begin && !source[at..].starts_with("//!"),
        _ => false,
    };
    let pieces = classes(source).filter(|piece| counts(piece.class, piece.range.start));
    pieces.map(|piece| (line_of(source, piece.range.start), source[piece.range].to_owned())).collect()
}

fn line_of(source: &str, at: usize) -> usize {
    source[..at].matches('\n').count() + 1
}

/// Lines of SQL without comments.
fn texts_of_sql(source: &str) -> Vec<(usize, String)> {
    let code = source.lines().map(|line| line.split("--").next().unwrap_or_default().to_owned());
    (1..).zip(code).collect()
}

fn is_new_migration(file: &str) -> bool {
    let number = file.strip_prefix("migrations/").and_then(|name| name.get(..4)?.parse::<u32>().ok());
    number.is_some_and(|number| number > MIGRATIONS_BEFORE)
}

/// Everything in a file that people or programs meet.
fn texts(file: &str) -> Vec<(usize, String)> {
    let data = ["tests/hostile/", "tests/benign/", "fuzz/corpus/", "examples/"];
    if data.iter().any(|folder| file.starts_with(folder)) || file.contains("/fixtures/") {
        return Vec::new();
    }
    if file.ends_with(".rs") {
        return texts_of_rust(file, &read(file));
    }
    if is_new_migration(file) {
        return texts_of_sql(&read(file));
    }
    if file.starts_with("web/") && !file.ends_with(".svg") {
        return (1..).zip(read(file).lines().map(str::to_owned)).collect();
    }
    Vec::new()
}

/// Every use of a retired word: the file, the line, the word and the one to take.
fn uses(file: &str, texts: &[(usize, String)], retired: &[Retired]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (line, text) in texts {
        let words = words_of(text);
        for row in retired.iter().filter(|row| row.counts_in(file) && row.is_in(&words)) {
            let message = format!(
                "{file}:{line}: `{}` was given up, write: {} ({})",
                row.text,
                row.replacement,
                text.trim()
            );
            found.push((row.text.clone(), message));
        }
    }
    found
}

#[test]
fn no_retired_word_is_used() {
    let (retired, exceptions) = rows(&read("tests/architecture/retired-words.txt"));
    assert!(retired.len() > 15, "only {} words are retired", retired.len());
    let (mut wrong, mut needed, mut seen) = (Vec::new(), BTreeSet::new(), 0);
    for file in tracked_files() {
        let texts = texts(&file);
        seen += texts.len();
        for (word, message) in uses(&file, &texts, &retired) {
            let exception = (file.clone(), word);
            if exceptions.contains(&exception) {
                needed.insert(exception);
            } else {
                wrong.push(message);
            }
        }
    }
    assert!(seen > 100_000, "only {seen} texts were read");
    assert!(
        wrong.is_empty(),
        "{} uses of words that are given up in tests/architecture/retired-words.txt:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    for exception in exceptions {
        assert!(needed.contains(&exception), "{exception:?} is an exception that nothing needs");
    }
}

#[test]
fn names_are_read_as_the_words_that_they_are_made_of() {
    for (name, words) in [
        ("spot_notes", "spot notes"),
        ("SpotKind", "spot kind"),
        ("HTTPSpotX", "http spot x"),
        ("hotspot", "hotspot"),
        ("/v1/reviews/{id}/spots", "v reviews id spots"),
        ("MAX_SPOTS", "max spots"),
    ] {
        assert_eq!(words_of(name).join(" "), words, "{name}");
    }
    let retired = rows("spot | hotspot | everywhere\ntaken back | revoked | api").0;
    let found = |file: &str, source: &str| uses(file, &texts_of_rust(file, source), &retired).len();
    assert_eq!(found("api/x/src/a.rs", "// a spot\nfn spot_of(a: SpotKind) { f(\"the spot\") }"), 3);
    assert_eq!(found("api/x/src/a.rs", "fn hotspot() { f(\"hotspots\") }"), 0);
    assert_eq!(found("api/x/tests/a.rs", "fn f() { g(\"the spot\") }"), 0, "the data of a test");
    assert_eq!(found("api/cli/src/commands/a.rs", "/// The spot.\nfn f() {}"), 1, "a help text");
    assert_eq!(found("api/x/src/a.rs", "fn taken_back() {}"), 1);
    assert_eq!(found("registry/x/src/a.rs", "fn taken_back() {}"), 0, "another folder");
    assert_eq!(texts_of_sql("ADD COLUMN spot text -- the spot\n")[0].1.trim(), "ADD COLUMN spot text");
    assert!(is_new_migration("migrations/0022_x.sql") && !is_new_migration("migrations/0021_x.sql"));
}
