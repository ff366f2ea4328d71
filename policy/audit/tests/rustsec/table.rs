//! The table: one line for each entry, fields between tabs, ranges between bars.

use mfaas_ident::CrateName;
use mfaas_rules::crate_facts::{Advisory, AdvisoryKind};
use semver::VersionReq;

pub(crate) const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rustsec/advisories.tsv");

const HEAD: &str = "# id\tpackage\tkind\twithdrawn\tpatched\tunaffected\ttitle";

/// One entry, with its ranges as they are written, for the oracle that parses them by itself.
pub(crate) struct Row {
    pub(crate) advisory: Advisory,
    pub(crate) patched: Vec<String>,
    pub(crate) unaffected: Vec<String>,
}

pub(crate) struct Table {
    /// Commit and date.
    pub(crate) snapshot: String,
    pub(crate) rows: Vec<Row>,
}

pub(crate) fn write(table: &Table) -> String {
    let mut text = format!(
        "# RustSec advisory database, commit {}: malicious, unsound and vulnerable entries\n{HEAD}\n",
        table.snapshot
    );
    for Row { advisory, patched, unaffected } in &table.rows {
        let fields = [
            advisory.id.as_str(),
            advisory.package.as_str(),
            word(advisory.kind),
            if advisory.withdrawn { "withdrawn" } else { "" },
            &patched.join("|"),
            &unaffected.join("|"),
            &advisory.title,
        ];
        text.push_str(&fields.join("\t"));
        text.push('\n');
    }
    text
}

pub(crate) fn read() -> Table {
    let text = std::fs::read_to_string(PATH).unwrap();
    let mut lines = text.lines();
    let first = lines.next().unwrap().strip_prefix("# RustSec advisory database, commit ").unwrap();
    assert_eq!(lines.next(), Some(HEAD));
    let snapshot = first.split_once(':').unwrap().0.to_owned();
    Table { snapshot, rows: lines.map(row).collect() }
}

fn row(line: &str) -> Row {
    let fields: Vec<&str> = line.split('\t').collect();
    let [id, package, kind, withdrawn, patched, unaffected, title] = fields[..] else {
        panic!("{line:?} has not seven fields");
    };
    let ranges = |text: &str| {
        text.split('|').filter(|range| !range.is_empty()).map(str::to_owned).collect::<Vec<String>>()
    };
    let (patched, unaffected) = (ranges(patched), ranges(unaffected));
    let parsed = |ranges: &[String]| ranges.iter().map(|range| VersionReq::parse(range).unwrap()).collect();
    let advisory = Advisory {
        id: id.to_owned(),
        package: CrateName::parse(package).unwrap(),
        kind: KINDS.iter().find(|(_, word)| *word == kind).unwrap().0,
        title: title.to_owned(),
        patched: parsed(&patched),
        unaffected: parsed(&unaffected),
        withdrawn: withdrawn == "withdrawn",
        url: None,
    };
    Row { advisory, patched, unaffected }
}

const KINDS: [(AdvisoryKind, &str); 3] = [
    (AdvisoryKind::Malicious, "malicious"),
    (AdvisoryKind::Unsound, "unsound"),
    (AdvisoryKind::Vulnerability, "vulnerability"),
];

fn word(kind: AdvisoryKind) -> &'static str {
    KINDS.iter().find(|(of, _)| *of == kind).unwrap().1
}
