//! Cargo.toml as data.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_audit::manifest::read;
use mfaas_rules::facts::{ManifestFact, ManifestFacts};
use mfaas_rules::judge_manifest;
use proptest::prelude::*;

fn codes(text: &str) -> Vec<String> {
    judge_manifest(&read(text.as_bytes())).iter().map(|finding| finding.code.id().to_owned()).collect()
}

fn keys(facts: &ManifestFacts) -> Vec<String> {
    let key =
        |fact: &ManifestFact| if let ManifestFact::Key(path) = fact { Some(path.join("/")) } else { None };
    facts.facts.iter().filter_map(|(fact, _)| key(fact)).collect()
}

const PACKAGE: &str = "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

#[test]
fn an_ordinary_manifest_is_read_whole() {
    let text = format!(
        "{PACKAGE}publish = false\n\n[package.metadata.mfaas]\nhandler = \"api::handle\"\nbudget = \"10ms\"\nmemory = \"4MiB\"\n\n\
         [dependencies]\nitoa = \"1\"\nserde = {{ version = \"1.0.229\", features = [\"derive\"], default-features = false }}\n\
         json = {{ package = \"serde_json\", version = \"1\" }}\n"
    );
    let facts = read(text.as_bytes());
    assert_eq!(judge_manifest(&facts), Vec::new());
    assert_eq!(facts.name.unwrap().as_str(), "hello");
    assert_eq!(facts.handler.unwrap().as_str(), "api::handle");
    assert_eq!(facts.budget.unwrap().as_micros(), 10_000);
    assert_eq!(facts.memory.unwrap().as_bytes(), 4 << 20);
    let [itoa, serde, json] = facts.dependencies.as_slice() else { panic!("{:?}", facts.dependencies) };
    assert_eq!((itoa.name.as_str(), itoa.default_features, itoa.rename.as_deref()), ("itoa", true, None));
    assert_eq!(
        (serde.features.as_slice(), serde.default_features),
        (["derive".to_owned()].as_slice(), false)
    );
    assert_eq!((json.name.as_str(), json.rename.as_deref()), ("serde_json", Some("json")));
    assert!(serde.requirement.matches(&semver::Version::new(1, 0, 300)));
    let span = serde.span.as_ref().unwrap();
    assert_eq!((span.line, span.column, span.end_column), (14, 1, 6));
}

#[test]
fn every_key_is_reported_at_its_place() {
    let text = "[package]\nname = \"x\"\nlinks = \"z\"\n[profile.release]\npanic = \"unwind\"\n\
                [[bin]]\nname = \"b\"\n[x]\na = [{ b = 1 }, [{ c = 2 }]]\nd.e.f = 1\n";
    let facts = read(text.as_bytes());
    let expected = [
        "package",
        "package/name",
        "package/links",
        "profile",
        "profile/release",
        "profile/release/panic",
        "bin",
        "bin/name",
        "x",
        "x/a",
        "x/a/b",
        "x/a/c",
        "x/d",
        "x/d/e",
        "x/d/e/f",
    ];
    let mut found = keys(&facts);
    found.sort();
    let mut expected = expected.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(found, expected);
    let findings = judge_manifest(&facts);
    let panic = findings.iter().find(|finding| finding.message.contains("profile.release.panic")).unwrap();
    let span = panic.span.as_ref().unwrap();
    assert_eq!((span.file.as_str(), span.line, span.text.as_str()), ("Cargo.toml", 5, "panic = \"unwind\""));
}

#[test]
fn a_dependency_from_elsewhere_is_named_as_that() {
    for (source, line) in [
        ("git", "x = { git = \"https://example.invalid/x\", branch = \"main\" }"),
        ("path", "x = { path = \"../x\", version = \"1\" }"),
        ("registry", "x = { version = \"1\", registry = \"own\" }"),
        ("registry-index", "x = { version = \"1\", registry-index = \"sparse+https://example.invalid/\" }"),
        ("workspace", "x.workspace = true"),
        ("git", "[dependencies.x]\ngit = \"https://example.invalid/x\"\nrev = \"1\""),
    ] {
        let text = format!("{PACKAGE}[dependencies]\n{line}\n").replace("[dependencies]\n[dep", "[dep");
        let facts = read(text.as_bytes());
        let foreign = ManifestFact::ForeignDependency { name: "x".to_owned(), source: source.to_owned() };
        assert!(facts.facts.iter().any(|(fact, _)| *fact == foreign), "{line}: {:?}", facts.facts);
        assert!(facts.dependencies.is_empty());
        assert_eq!(codes(&text), ["MF0203"], "{line}");
    }
}

#[test]
fn a_dependency_is_renamed_to_a_plain_name_only() {
    for name in ["a=/src/evil.rlib", "noprelude:a", "a b", "a\\n@file", "", "-L", "../a"] {
        let text =
            format!("{PACKAGE}[dependencies]\n\"{name}\" = {{ package = \"serde\", version = \"1\" }}\n");
        assert_eq!(codes(&text), ["MF0207"], "{name}");
        assert!(read(text.as_bytes()).dependencies.is_empty(), "{name}");
    }
}

#[test]
fn keys_that_steer_a_build_are_refused() {
    for addition in [
        "build = \"x.rs\"",
        "links = \"z\"",
        "[lib]\npath = \"x.rs\"",
        "[lib]\nproc-macro = true",
        "[lib]\ncrate-type = [\"bin\"]",
        "[lints.rust]\nunsafe_code = \"allow\"",
        "[profile.release]\nrustflags = []",
        "[patch.crates-io]\nx = { path = \".\" }",
        "[replace]\n\"x:1\" = { path = \".\" }",
        "[workspace]",
        "[build-dependencies]\ncc = \"1\"",
        "[target.'cfg(unix)'.dependencies]\nx = \"1\"",
        "[dependencies]\nx = { version = \"1\", artifact = \"bin\" }",
        "[dependencies]\nx = { version = \"1\", optional = true }",
        "[badges]",
        "[[bin]]\nname = \"x\"",
        "metabuild = \"x\"",
        "resolver = \"3\"",
        "[package.metadata.other]",
    ] {
        let codes = codes(&format!("{PACKAGE}{addition}\n"));
        assert!(codes.iter().any(|code| code == "MF0202" || code == "MF0109"), "{addition}: {codes:?}");
    }
    assert!(!codes(&format!("cargo-features = [\"x\"]\n{PACKAGE}")).is_empty());
}

#[test]
fn values_must_be_what_their_key_demands() {
    for (addition, code) in [
        ("[package.metadata.mfaas]\nhandler = \"handle; std::process::exit(7)\"", "MF0207"),
        ("[package.metadata.mfaas]\nhandler = 3", "MF0207"),
        ("[package.metadata.mfaas]\nbudget = \"11s\"", "MF0207"),
        ("[package.metadata.mfaas]\nmemory = \"1GiB\"", "MF0207"),
        ("[dependencies]\nx = \"not a version\"", "MF0207"),
        ("[dependencies]\nx = 1", "MF0207"),
        ("[dependencies]\nx = {}", "MF0207"),
        ("[dependencies]\n\"a b\" = \"1\"", "MF0207"),
        ("[dependencies]\nx = { version = \"1\", features = \"a\" }", "MF0207"),
        ("[dependencies]\nx = { version = \"1\", default-features = 1 }", "MF0207"),
        ("[dependencies]\nx = { version = \"1\", package = \"../y\" }", "MF0207"),
    ] {
        assert_eq!(codes(&format!("{PACKAGE}{addition}\n")), [code], "{addition}");
    }
    assert_eq!(codes(&format!("dependencies = 1\n{PACKAGE}")), ["MF0207"]);
    assert_eq!(codes("[package]\nname = \"Ünïcode\"\n"), ["MF0207"]);
    assert_eq!(codes("[package]\nversion = \"1.0.0\"\n"), ["MF0201"]);
    assert_eq!(codes(""), ["MF0201"]);
}

#[test]
fn what_would_trouble_the_parser_never_reaches_it() {
    let nested = format!("{PACKAGE}x = {}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let inline = format!("{PACKAGE}x = {}1{}", "{a=".repeat(5_000), "}".repeat(5_000));
    let dotted = format!("{PACKAGE}{}x = 1", "a.".repeat(5_000));
    let header = format!("{PACKAGE}[{}x]", "a.".repeat(5_000));
    let quoted = format!("{PACKAGE}{}x = 1", "\"a\" . ".repeat(5_000));
    let large = format!("{PACKAGE}# {}", "x".repeat(70_000));
    for text in [nested, inline, dotted, header, quoted, large] {
        assert_eq!(codes(&text), ["MF0201"], "{:.80}", text);
    }
    for text in [
        format!("{PACKAGE}name = \"twice\""),
        "[package".to_owned(),
        "\"unterminated".to_owned(),
        "a = '''".to_owned(),
    ] {
        assert_eq!(codes(&text), ["MF0201"], "{text}");
    }
    assert_eq!(judge_manifest(&read(b"[package]\nname = \"\xff\"")).len(), 1);
    let harmless = format!(
        "{PACKAGE}description = \"[[[[[[[[[[[[[[[[[[[[ a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s\" # {}\n",
        "[".repeat(99)
    );
    assert_eq!(codes(&harmless), Vec::<String>::new());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        let _ = read(&bytes);
    }

    #[test]
    fn no_sequence_of_tokens_panics(words in prop::collection::vec(prop::sample::select(&[
        "[package]", "[dependencies]", "[", "]", "[[", "]]", "{", "}", "=", ".", ",", "\n", "name", "version", "\"", "'", "\"\"\"", "'''",
        "\\", "#", "x", "1", "true", "1979-05-27", "metadata", "mfaas", "git", "\"1\"",
    ][..]), 0..60)) {
        let _ = read(words.concat().as_bytes());
        let _ = read(words.join(" ").as_bytes());
    }
}
