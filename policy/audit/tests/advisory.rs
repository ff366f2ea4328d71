//! Files of the advisory database: each shape that occurs, and those that must not pass.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_audit::advisory::{read, read_all};
use mfaas_rules::crate_facts::AdvisoryKind;
use mfaas_rules::limits::ADVISORY;
use proptest::prelude::*;

const PATH: &str = "crates/thing/RUSTSEC-2021-0001.md";
const BODY: &str = "\n# A headline\n\nSome text.\n";

fn file(advisory: &str, versions: &str) -> String {
    format!(
        "```toml\n[advisory]\nid = \"RUSTSEC-2021-0001\"\npackage = \"thing\"\ndate = \"2021-01-01\"\n{advisory}\n\n[versions]\n{versions}\n```\n{BODY}"
    )
}

fn kind(advisory: &str, versions: &str) -> AdvisoryKind {
    read(PATH, file(advisory, versions).as_bytes()).unwrap().kind
}

#[test]
fn an_advisory_is_read_whole() {
    let text = file(
        "url = \"https://example.org/\\u202E\"\naliases = [\"CVE-2021-1\"]\ncategories = [\"memory-corruption\"]",
        "patched = [\">= 1.2.0, < 2.0.0\", \"^2.1\"]\nunaffected = [\"< 0.3\"]",
    );
    let advisory = read(PATH, text.as_bytes()).unwrap();
    assert_eq!((advisory.id.as_str(), advisory.package.as_str()), ("RUSTSEC-2021-0001", "thing"));
    assert_eq!((advisory.title.as_str(), advisory.withdrawn), ("A headline", false));
    assert_eq!(advisory.kind, AdvisoryKind::Vulnerability);
    let written = |list: &[semver::VersionReq]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(written(&advisory.patched), [">=1.2.0, <2.0.0", "^2.1"]);
    assert_eq!(written(&advisory.unaffected), ["<0.3"]);
    assert_eq!(advisory.url.as_deref(), Some("https://example.org/\\u{202e}"));
}

#[test]
fn lines_may_end_as_on_windows_and_tables_that_decide_nothing_are_left_alone() {
    let affected =
        "patched = []\n\n[affected]\nos = [\"windows\"]\n[affected.functions]\n\"thing::f\" = [\"< 1\"]";
    let text = file("", affected).replace('\n', "\r\n");
    assert!(read(PATH, text.as_bytes()).is_ok());
}

#[test]
fn kinds_are_told_by_the_head_and_by_the_title() {
    let open = "patched = []";
    assert_eq!(kind("informational = \"unsound\"", open), AdvisoryKind::Unsound);
    assert_eq!(kind("informational = \"unmaintained\"", open), AdvisoryKind::Unmaintained);
    assert_eq!(kind("informational = \"notice\"", open), AdvisoryKind::Notice);
    assert_eq!(kind("", open), AdvisoryKind::Vulnerability);
    assert_eq!(kind("aliases = [\"MAL-2022-1\"]", open), AdvisoryKind::Malicious);
    assert_eq!(kind("keywords = [\"typosquatting\"]", open), AdvisoryKind::Malicious);
    assert_eq!(kind("keywords = [\"malware\"]", "patched = [\">= 1\"]"), AdvisoryKind::Vulnerability);
    let titled = |title: &str| {
        let text = file("", open).replace("A headline", title);
        read(PATH, text.as_bytes()).unwrap().kind
    };
    assert_eq!(titled("Malicious crate `thing`"), AdvisoryKind::Malicious);
    assert_eq!(titled("`thing` was removed from crates.io for malicious code"), AdvisoryKind::Malicious);
    assert_eq!(titled("Overflow on malicious input"), AdvisoryKind::Vulnerability);
}

#[test]
fn only_a_date_withdraws() {
    let withdrawn = |line: &str| read(PATH, file(line, "patched = []").as_bytes()).map(|read| read.withdrawn);
    assert_eq!(withdrawn("withdrawn = \"2022-08-14\" # why"), Ok(true));
    assert_eq!(withdrawn(""), Ok(false));
    for line in ["withdrawn = true", "withdrawn = \"\"", "withdrawn = \"yes\"", "withdrawn = 2022-08-14"] {
        assert!(withdrawn(line).is_err(), "{line}");
    }
}

/// Each of these is kept as unread, under the crate that its directory names.
#[test]
fn what_is_malformed_is_unread_and_never_absent() {
    let good = file("", "patched = []");
    assert!(read(PATH, good.as_bytes()).is_ok());
    let mut cases: Vec<(&str, String)> = [
        ("no head", BODY.to_owned()),
        ("empty", String::new()),
        ("head never ends", good.replace("```\n", "")),
        ("no title", good.replace("# A headline", "A headline")),
        ("empty title", good.replace("# A headline", "#  ")),
        ("another crate", good.replace("\"thing\"", "\"other\"")),
        ("another id", good.replace("2021-0001", "2021-0002")),
        ("no versions", good.replace("[versions]\npatched = []", "")),
        ("no patched", good.replace("patched = []", "")),
        ("unknown key of versions", good.replace("patched = []", "patched = []\nfixed = [\">= 1\"]")),
        ("patched is a text", good.replace("[]", "\">= 1\"")),
        ("unknown kind", file("informational = \"other\"", "patched = []")),
        ("not TOML", good.replace("[advisory]", "[advisory")),
    ]
    .into();
    for range in ["*", "", "1.*", "1.2.x", ">= one", ">= 1.0.0.0", "x"] {
        cases.push(("range", file("", &format!("patched = [\"{range}\"]"))));
        cases.push(("range", file("", &format!("patched = []\nunaffected = [\"{range}\"]"))));
    }
    let many = vec!["\">= 1\""; ADVISORY.requirements_max + 1].join(",");
    cases.push(("too many ranges", file("", &format!("patched = [{many}]"))));
    cases.push(("too deep", file(&format!("x = {}", "[".repeat(5_000)), "patched = []")));
    cases.push(("too large", format!("{good}{}", " ".repeat(ADVISORY.file_bytes_max))));
    for (what, text) in &cases {
        let set = read_all([(PATH, text.as_bytes())]);
        assert_eq!((set.advisories.len(), set.unread.len()), (0, 1), "{what}: {text}");
        assert_eq!(set.unread[0].package.as_ref().unwrap().as_str(), "thing");
        assert!(set.unread[0].reason.starts_with(PATH), "{}", set.unread[0].reason);
    }
    let not_utf8 = [good.as_bytes(), &[0xff]].concat();
    assert!(read(PATH, &not_utf8).is_err());
}

#[test]
fn a_file_without_a_place_may_be_about_any_crate() {
    let good = file("", "patched = []");
    for path in ["RUSTSEC-2021-0001.md", "", "/", "../RUSTSEC-2021-0001.md", "a b/RUSTSEC-2021-0001.md"] {
        assert_eq!(read(path, good.as_bytes()).unwrap_err().package, None, "{path}");
    }
    let elsewhere = read("crates/other/RUSTSEC-2021-0001.md", good.as_bytes()).unwrap_err();
    assert_eq!(elsewhere.package.unwrap().as_str(), "other");
}

proptest! {
    /// Whatever is cut out of a file or put into it: no panic, and never nothing at all.
    #[test]
    fn any_text_is_an_advisory_or_unread(at in 0usize..300, cut in 0usize..40, put in "(```|\\[|\"|=|\\n|# |>|\u{202e}|\\PC){0,8}") {
        let good = file("url = \"u\"", "patched = [\">= 1.2.0\"]\nunaffected = [\"< 0.3\"]");
        let from = good.floor_char_boundary(at.min(good.len()));
        let to = good.floor_char_boundary((from + cut).min(good.len()));
        let text = format!("{}{put}{}", &good[..from], &good[to..]);
        let set = read_all([(PATH, text.as_bytes())]);
        prop_assert_eq!(set.advisories.len() + set.unread.len(), 1);
        for advisory in &set.advisories {
            let hidden = [&advisory.title, &advisory.id].iter().any(|text| text.contains('\u{202e}'));
            prop_assert!(!hidden);
            prop_assert_eq!(advisory.package.as_str(), "thing");
        }
    }
}
