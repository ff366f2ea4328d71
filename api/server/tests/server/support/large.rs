//! A crate of 5 MB, made up: 500 files, one of them far larger than the others, with 2,000 hotspots, and the version
//! before it, which differs in two lines of each file.

use std::fmt::Write as _;

use mfaas_ident::{Digest, Scope};
use serde_json::{Value, json};

use super::{AskedFor, Server, compared, crate_report, delta, file_delta, open_review, source_file, span};

/// Files.
const FILES: usize = 500;
/// Lines of the largest file, and of each of the others.
const LINES: (usize, usize) = (9_000, 216);
/// Hotspots of each file; geiger's word about the whole file is one more.
const HOTSPOTS: u32 = 3;

/// The crate.
pub(crate) struct Large {
    pub(crate) names: Vec<String>,
    pub(crate) texts: Vec<String>,
    pub(crate) old: Vec<String>,
}

impl Large {
    pub(crate) fn new() -> Self {
        let names: Vec<String> = (0..FILES).map(|n| format!("src/m{n:03}.rs")).collect();
        let texts: Vec<String> = (0..FILES).map(text).collect();
        let old = texts.iter().map(|text| text.replacen("[1]", "[2]", 2)).collect();
        Self { names, texts, old }
    }

    /// The position of its largest file.
    #[allow(dead_code, reason = "the benchmark asks for it")]
    pub(crate) const LARGEST: usize = 0;

    /// All its texts.
    pub(crate) fn bytes(&self) -> usize {
        self.texts.iter().map(String::len).sum()
    }

    /// Opens a review of it that `a/test` asked for, with its comparison; answers the number of the review. Of the
    /// texts only those of the `shown` files are in the store, so that whoever reads another one fails.
    pub(crate) async fn store(&self, server: &Server, shown: &[usize]) -> i64 {
        let token = server.token("a", &[Scope::Deploy]).await;
        let created = server.upload("hello", &token, vec![1]).await.json();
        let blobs = server.blobs();
        for at in shown {
            for text in [&self.texts[*at], &self.old[*at]] {
                blobs.put(text.clone().into_bytes().into()).await.unwrap();
            }
        }
        let digests = |texts: &[String]| -> Vec<(String, Digest)> {
            self.names.iter().cloned().zip(texts.iter().map(|text| Digest::of(text.as_bytes()))).collect()
        };
        let files = digests(&self.texts);
        let sources: Vec<Value> = self.names.iter().map(|name| source(name)).collect();
        let report = crate_report(&sources, &json!("clean"), &[]);
        let judgement = json!({ "suggestion": { "review": { "people": 2 } }, "reasons": [], "hints": [], "rules_revision": "test" });
        let deployment = created["deployment"]["id"].as_str().unwrap();
        let asked = AskedFor {
            people: 2,
            report: &report,
            judgement: &judgement,
            files: &files,
            requirement: "^1",
            deployment,
        };
        let review = open_review(&server.db, &asked);
        let changes: Vec<Value> = self.names.iter().map(|name| file_delta(name, "changed", 2, 2)).collect();
        compared(server, review, &digests(&self.old), &delta(&changes, &[]), "ann");
        review
    }
}

/// Lines as Rust has them: names, strings, numbers, comments, calls of macros.
fn text(file: usize) -> String {
    let lines = if file == 0 { LINES.0 } else { LINES.1 };
    let mut text = format!("//! Module {file}.\n");
    for line in 0..lines {
        let at = line % 7;
        writeln!(text, "pub fn f{line}(a: &[u8]) -> u8 {{ a[{at}] }} // \"{line}\"").unwrap();
    }
    text
}

fn source(name: &str) -> Value {
    let hotspot = |at: u32| json!({ "kind": "unsafe", "what": "unsafe block", "span": span(name, at * 70 + 2, (5, 7), "pub fn f(a: &[u8])") });
    source_file(name, "library", &(0..HOTSPOTS).map(hotspot).collect::<Vec<_>>())
}
