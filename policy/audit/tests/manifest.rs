//! Cargo.toml as data.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_audit::manifest::read;
use mfaas_ident::{Access, Class, DataAccess, Isolation, ResourceKind, TenantName};
use mfaas_rules::facts::{ManifestFact, ManifestFacts};
use mfaas_rules::judge_manifest;
use mfaas_rules::limits::MANIFEST;
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
        "{PACKAGE}publish = false\n\n[package.metadata.mfaas]\nhandler = \"api::handle\"\nbudget = \"10ms\"\nmemory = \"4MiB\"\n\
         idempotent = true\nisolation = \"process\"\naccess = \"token\"\n\n[dependencies]\nitoa = \"1\"\nserde = {{ version = \"1.0.229\", features = [\"derive\"], default-features = false }}\n\
         json = {{ package = \"serde_json\", version = \"1\" }}\n"
    );
    let facts = read(text.as_bytes());
    assert_eq!(judge_manifest(&facts), Vec::new());
    assert_eq!(facts.name.unwrap().as_str(), "hello");
    assert_eq!(facts.handler.unwrap().as_str(), "api::handle");
    assert_eq!(facts.budget.unwrap().as_micros(), 10_000);
    assert_eq!(facts.memory.unwrap().as_bytes(), 4 << 20);
    assert_eq!((facts.idempotent, facts.isolation), (Some(true), Some(Isolation::Process)));
    assert_eq!(facts.access, Some(Access::Token));
    let [itoa, serde, json] = facts.dependencies.as_slice() else { panic!("{:?}", facts.dependencies) };
    assert_eq!((itoa.name.as_str(), itoa.default_features, itoa.rename.as_deref()), ("itoa", true, None));
    assert_eq!(
        (serde.features.as_slice(), serde.default_features),
        (["derive".to_owned()].as_slice(), false)
    );
    assert_eq!((json.name.as_str(), json.rename.as_deref()), ("serde_json", Some("json")));
    assert!(serde.requirement.matches(&semver::Version::new(1, 0, 300)));
    let span = serde.span.as_ref().unwrap();
    assert_eq!((span.line, span.column, span.end_column), (17, 1, 6));
}

/// Which data a function reaches: what is left out is the resource of the same name, to read.
#[test]
fn bindings_are_read_with_what_they_leave_out() {
    let text = format!(
        "{PACKAGE}[package.metadata.mfaas.bindings.links]\nkind = \"kv\"\naccess = \"write\"\n\
         [package.metadata.mfaas.bindings]\nrates = {{ kind = \"cache\", resource = \"rates-eu\" }}\n\
         rank = {{ kind = \"function\", function = \"rank-eu\" }}\ngeo = {{ kind = \"function\" }}\n\
         hotels = {{ kind = \"function\", function = \"travel/hotels\" }}\n"
    );
    let facts = read(text.as_bytes());
    assert_eq!(judge_manifest(&facts), Vec::new());
    let functions =
        facts.bindings.iter().filter_map(|(name, to)| Some((name.as_str(), to.function()?.to_string())));
    let said = [("geo", "geo"), ("hotels", "travel/hotels"), ("rank", "rank-eu")];
    assert_eq!(functions.collect::<Vec<_>>(), said.map(|(name, function)| (name, function.to_owned())));
    let resources = facts.bindings.iter().filter_map(|(name, to)| Some((name.as_str(), to.resource()?)));
    let said: Vec<_> = resources
        .map(|(name, binding)| (name, binding.kind, binding.resource.as_str(), binding.access))
        .collect();
    assert_eq!(
        said,
        [
            ("links", ResourceKind::Kv, "links", DataAccess::Write),
            ("rates", ResourceKind::Cache, "rates-eu", DataAccess::Read)
        ]
    );
}

#[test]
fn a_binding_of_another_form_is_refused_with_its_place() {
    for (declared, code, says) in [
        ("links = { access = \"write\" }", "MF0207", "it needs a `kind`"),
        ("links = { kind = \"files\" }", "MF0207", "one of kv, cache, object, volume, http, secret"),
        ("links = { kind = \"secret\", access = \"read\" }", "MF0207", "a secret has none"),
        ("links = { kind = \"files\" }", "MF0207", "secret, asset"),
        ("links = { kind = \"asset\", access = \"write\" }", "MF0207", "an asset never changes"),
        ("links = { kind = \"kv\", access = \"admin\" }", "MF0207", "one of read, write"),
        ("links = { kind = \"kv\", resource = \"a/b\" }", "MF0207", "1 to 63 characters"),
        ("links = { kind = true }", "MF0207", "it must be a string"),
        ("links = { kind = \"files\" }", "MF0207", "or function"),
        ("links = { kind = \"kv\", function = \"rank\" }", "MF0207", "a resource has none"),
        ("rank = { kind = \"function\", resource = \"links\" }", "MF0207", "a function has none"),
        ("rank = { kind = \"function\", access = \"read\" }", "MF0207", "a function has none"),
        ("rank = { kind = \"function\", function = \"other/rank/1\" }", "MF0207", "1 to 63 characters"),
        ("rank = { kind = \"function\", function = \"/rank\" }", "MF0207", "1 to 40 characters"),
        ("links = \"kv\"", "MF0207", "it must be a table"),
        ("\"Links\" = { kind = \"kv\" }", "MF0207", "1 to 40 characters"),
        (
            "links = { kind = \"kv\", url = \"postgres://x\" }",
            "MF0202",
            "`package.metadata.mfaas.bindings.links.url`",
        ),
    ] {
        let text = format!("{PACKAGE}[package.metadata.mfaas.bindings]\n{declared}\n");
        let findings = judge_manifest(&read(text.as_bytes()));
        let [finding] = findings.as_slice() else { panic!("{declared}: {findings:?}") };
        assert_eq!(finding.code.id(), code, "{declared}");
        assert!(finding.message.contains(says), "{declared}: {}", finding.message);
        assert!(finding.span.is_some(), "{declared}");
    }
    let many = |count: usize| -> String {
        let all: String = (0..count).map(|number| format!("b{number} = {{ kind = \"kv\" }}\n")).collect();
        format!("{PACKAGE}[package.metadata.mfaas.bindings]\n{all}")
    };
    assert_eq!(read(many(16).as_bytes()).bindings.len(), 16);
    assert_eq!(codes(&many(17)), ["MF0207"]);
}

/// Whom a function lets in besides its tenant's own functions.
#[test]
fn callers_are_names_of_tenants_and_few() {
    let read_callers =
        |callers: &str| read(format!("{PACKAGE}[package.metadata.mfaas]\ncallers = {callers}\n").as_bytes());
    let facts = read_callers("[\"shop\", \"bank\", \"shop\"]");
    assert_eq!(judge_manifest(&facts), Vec::new());
    assert_eq!(facts.callers.iter().map(TenantName::as_str).collect::<Vec<_>>(), ["bank", "shop"]);
    let many =
        |count: usize| format!("{:?}", (0..count).map(|number| format!("t{number}")).collect::<Vec<_>>());
    assert_eq!(judge_manifest(&read_callers(&many(32))), Vec::new());
    for (callers, says) in [
        ("\"shop\"".to_owned(), "a list of strings"),
        ("[\"shop/pay\"]".to_owned(), "1 to 40 characters"),
        ("[\"*\"]".to_owned(), "1 to 40 characters"),
        (many(33), "33 tenants, the limit is 32"),
    ] {
        let facts = read_callers(&callers);
        let findings = judge_manifest(&facts);
        let [finding] = findings.as_slice() else { panic!("{callers}: {findings:?}") };
        assert_eq!((finding.code.id(), facts.callers.len()), ("MF0207", 0), "{callers}");
        assert!(finding.message.contains(says), "{callers}: {}", finding.message);
    }
}

/// What a class may have is the class's, wherever in the table it stands, and the finding says both numbers.
#[test]
fn a_bulk_function_may_ask_for_more_and_no_other_may() {
    for declared in [
        "class = \"bulk\"\nbudget = \"600s\"\nmemory = \"1024MiB\"",
        "budget = \"600s\"\nmemory = \"1024MiB\"\nclass = \"bulk\"",
        "class = \"micro\"\nbudget = \"10s\"\nmemory = \"256MiB\"",
        "budget = \"10s\"\nmemory = \"256MiB\"",
    ] {
        let facts = read(format!("{PACKAGE}[package.metadata.mfaas]\n{declared}\n").as_bytes());
        assert_eq!(judge_manifest(&facts), Vec::new(), "{declared}");
        let class = declared.contains("bulk").then_some(Class::Bulk);
        assert_eq!(facts.class.filter(|class| *class != Class::Micro), class, "{declared}");
    }
    let text = format!("{PACKAGE}[package.metadata.mfaas]\nbudget = \"20s\"\n");
    let findings = judge_manifest(&read(text.as_bytes()));
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!(finding.message, "`package.metadata.mfaas.budget`: 20s is more than the 10s of class `micro`");
}

#[test]
fn what_is_not_declared_is_not_guessed_and_what_is_wrong_says_what_is_right() {
    let facts = read(PACKAGE.as_bytes());
    assert_eq!((facts.idempotent, facts.isolation, facts.access), (None, None, None));
    for (value, words) in [
        ("isolation = \"thread\"", "one of shared, process"),
        ("idempotent = \"yes\"", "it must be true or false"),
        ("access = \"everybody\"", "one of public, tenant, token"),
        ("access = false", "it must be a string"),
        ("class = \"batch\"", "one of micro, bulk"),
        ("class = true", "it must be a string"),
    ] {
        let text = format!("{PACKAGE}[package.metadata.mfaas]\n{value}\n");
        let facts = read(text.as_bytes());
        let findings = judge_manifest(&facts);
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        assert_eq!(finding.code.id(), "MF0207");
        assert!(finding.message.contains(words), "{}", finding.message);
        assert_eq!(finding.span.as_ref().unwrap().line, 6);
        assert_eq!((facts.idempotent, facts.isolation, facts.access), (None, None, None));
    }
    for access in Access::ALL {
        let facts = read(format!("{PACKAGE}[package.metadata.mfaas]\naccess = \"{access}\"\n").as_bytes());
        assert_eq!(facts.access, Some(access));
        assert_eq!(judge_manifest(&facts), Vec::new());
    }
    for (word, isolation) in [("shared", Isolation::Shared), ("process", Isolation::Process)] {
        let text = format!("{PACKAGE}[package.metadata.mfaas]\nisolation = \"{word}\"\nidempotent = false\n");
        let facts = read(text.as_bytes());
        assert_eq!((facts.idempotent, facts.isolation), (Some(false), Some(isolation)));
        assert_eq!(judge_manifest(&facts), Vec::new());
    }
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
        ("[package.metadata.mfaas]\nbudget = \"601s\"", "MF0207"),
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

/// Codes with the line that each finding points at.
fn places(text: &str) -> Vec<(String, u32)> {
    let place = |finding: &mfaas_rules::Finding| {
        let span = finding.span.as_ref().unwrap_or_else(|| panic!("no line: {finding:?}"));
        (finding.code.id().to_owned(), span.line)
    };
    judge_manifest(&read(text.as_bytes())).iter().map(place).collect()
}

/// What a line behind an ordinary package must end with; the finding points at that very line.
const BEHIND_A_PACKAGE: &[(&str, &[&str])] = &[
    // Keys of the package, plain, dotted, quoted and in other alphabets.
    ("build = \"x.rs\"", &["MF0109"]),
    ("build = false", &["MF0109"]),
    ("\"build\" = \"x.rs\"", &["MF0109"]),
    ("'links' = \"z\"", &["MF0109"]),
    ("\"bu\\u0069ld\" = \"x.rs\"", &["MF0109"]),
    ("metadata.mfaas.\"handler\" = \"a; b\"", &["MF0207"]),
    ("workspace = \"..\"", &["MF0202"]),
    ("rust-version.workspace = true", &["MF0202"]),
    ("authors = { workspace = true }", &["MF0202"]),
    ("autobins = true", &["MF0202"]),
    ("autolib = false", &["MF0202"]),
    ("default-run = \"x\"", &["MF0202"]),
    ("forced-target = \"x\"", &["MF0202"]),
    ("default-target = \"x\"", &["MF0202"]),
    ("im-a-teapot = true", &["MF0202"]),
    ("metabuild = [\"x\"]", &["MF0202"]),
    ("resolver = \"1\"", &["MF0202"]),
    ("namе = \"x\"", &["MF0201"]),
    ("\"namе\" = \"x\"", &["MF0202"]),
    ("\" name\" = \"x\"", &["MF0202"]),
    ("\"\" = 1", &["MF0202"]),
    ("\"a.b\" = 1", &["MF0202"]),
    ("metadata.docs.rs = 1", &["MF0202", "MF0202"]),
    ("metadata = 1", &["MF0207"]),
    ("metadata = { mfaas = [] }", &["MF0207"]),
    ("metadata.mfaas = { budget = \"1ms\", sandbox = \"off\" }", &["MF0202"]),
    ("metadata.mfaas.memory = 4194304", &["MF0207"]),
    ("metadata.mfaas.idempotent = \"true\"", &["MF0207"]),
    ("metadata.mfaas.idempotent = 1", &["MF0207"]),
    ("metadata.mfaas.idempotent = [true]", &["MF0207"]),
    ("metadata.mfaas.idempotent.retries = 9", &["MF0202", "MF0207"]),
    ("metadata.mfaas.isolation = true", &["MF0207"]),
    ("metadata.mfaas.isolation = \"\"", &["MF0207"]),
    ("metadata.mfaas.isolation = \"Process\"", &["MF0207"]),
    ("metadata.mfaas.isolation = \"process \"", &["MF0207"]),
    ("metadata.mfaas.isolation = \"prоcess\"", &["MF0207"]),
    ("metadata.mfaas.isolation = \"none\"", &["MF0207"]),
    ("metadata.mfaas.isolation = [\"process\"]", &["MF0207"]),
    ("metadata.mfaas.access = \"Public\"", &["MF0207"]),
    ("metadata.mfaas.access = \"\"", &["MF0207"]),
    ("metadata.mfaas.access = \"*\"", &["MF0207"]),
    ("metadata.mfaas.access = [\"public\"]", &["MF0207"]),
    ("metadata.mfaas.access.public = true", &["MF0202", "MF0207"]),
    ("metadata.mfaas.class = \"Bulk\"", &["MF0207"]),
    ("metadata.mfaas.class.bulk = true", &["MF0202", "MF0207"]),
    ("metadata.mfaas.budget = \"11s\"", &["MF0211"]),
    ("metadata.mfaas.budget = \"601s\"", &["MF0207"]),
    ("metadata.mfaas.memory = \"257MiB\"", &["MF0211"]),
    ("metadata.mfaas.memory = \"1025MiB\"", &["MF0207"]),
    ("metadata.mfaas.class = \"bulk\"\nmetadata.mfaas.budget = \"601s\"", &["MF0207"]),
    ("metadata.mfaas.class = \"micro\"\nmetadata.mfaas.budget = \"11s\"", &["MF0211"]),
    ("metadata.mfaas.budget = \"10\\u0000ms\"", &["MF0207"]),
    ("metadata.mfaas.budget = \"99999999999999999999s\"", &["MF0207"]),
    ("metadata.mfaas.budget = \"-1ms\"", &["MF0207"]),
    ("metadata.mfaas.handler = \"hаndle\"", &["MF0207"]),
    ("metadata.mfaas.handler = \"r#fn\"", &["MF0207"]),
    ("metadata.mfaas.handler = \"\"\"a\"\"\"\nx = 99999999999999999999999999", &["MF0201"]),
    // Tables.
    ("[lib]\nproc-macro = true", &["MF0202"]),
    ("[lib]\nproc_macro = true", &["MF0202"]),
    ("[lib]\ncrate-type = [\"cdylib\"]", &["MF0202"]),
    ("[lib]\npath = \"/etc/passwd\"", &["MF0202"]),
    ("[lib]\nplugin = true", &["MF0202"]),
    ("[lib]\nrequired-features = []", &["MF0202"]),
    ("[lib]\nedition = \"2015\"", &["MF0202"]),
    ("[[lib]]", &["MF0207"]),
    ("[[lib]]\nname = \"x\"\n[[lib]]", &["MF0207"]),
    ("[[bin]]", &["MF0202"]),
    ("[[example]]", &["MF0202"]),
    ("[[test]]", &["MF0202"]),
    ("[[bench]]", &["MF0202"]),
    ("[workspace]", &["MF0202"]),
    ("[workspace.lints.rust]", &["MF0202", "MF0202", "MF0202"]),
    ("[patch.crates-io]", &["MF0202", "MF0202"]),
    ("[replace]", &["MF0202"]),
    ("[lints]", &["MF0202"]),
    ("[hints]", &["MF0202"]),
    ("[badges]", &["MF0202"]),
    ("[profile.dev]", &["MF0202", "MF0202"]),
    ("[profile.release.package.\"*\"]", &["MF0202", "MF0202", "MF0202", "MF0202"]),
    ("[target.'cfg(all())'.dependencies]", &["MF0202", "MF0202", "MF0202"]),
    ("[target.x86_64-unknown-linux-gnu]", &["MF0202", "MF0202"]),
    ("[dev-dependencies]", &["MF0202"]),
    ("[dev_dependencies]", &["MF0202"]),
    ("[build-dependencies]", &["MF0109"]),
    ("[build_dependencies]", &["MF0202"]),
    ("[Dependencies]", &["MF0202"]),
    ("[project]", &["MF0202"]),
    ("[unstable]", &["MF0202"]),
    ("[[dependencies]]", &["MF0207"]),
    // Dependencies.
    ("[dependencies]\nx = { version = \"1\", git = \"https://example.invalid/x\" }", &["MF0203"]),
    ("[dependencies]\n\"x\".\"git\" = \"https://example.invalid/x\"", &["MF0203"]),
    ("[dependencies]\nx = { version = \"1\", \"p\\u0061th\" = \"..\" }", &["MF0203"]),
    ("[dependencies]\nx = { version = \"1\", base = \"b\", path = \"x\" }", &["MF0203"]),
    ("[dependencies]\nx = { version = \"1\", public = true }", &["MF0202"]),
    ("[dependencies]\nx = { version = \"1\", target = \"x\" }", &["MF0202"]),
    ("[dependencies]\nx = { version = \"1\", lib = true }", &["MF0202"]),
    ("[dependencies]\nx = { version = \"1\", artifact = [\"bin\"] }", &["MF0202"]),
    ("[dependencies]\nx = { version = \"1\", default_features = false }", &["MF0202"]),
    ("[dependencies]\nx = { version = \"1\", optional = true }", &["MF0202"]),
    ("[dependencies]\nx = { version = \"1\", features = [[\"a\"]] }", &["MF0207"]),
    ("[dependencies]\nx = { version = \"1\", features = [{ git = \"1\" }] }", &["MF0202", "MF0207"]),
    ("[dependencies]\nx = [{ git = \"1\" }]", &["MF0207"]),
    ("[dependencies]\nx = [\"1\"]", &["MF0207"]),
    ("[dependencies]\nx = { package = \"y\" }", &["MF0207"]),
    ("[dependencies]\nx = \"\"", &["MF0207"]),
    ("[dependencies]\nx = \"99999999999999999999\"", &["MF0207"]),
    ("[dependencies]\nx = \"1\\n[patch]\"", &["MF0207"]),
    ("[dependencies]\n\"x.y\" = \"1\"", &["MF0207"]),
    ("[dependencies]\n\"ſerde\" = \"1\"", &["MF0207"]),
    ("[dependencies]\na-b = \"1\"\na_b = \"1\"", &["MF0207"]),
    ("[dependencies]\n\"1x\" = \"1\"", &["MF0207"]),
    ("[dependencies.x.y]", &["MF0202", "MF0207"]),
    // Features.
    ("[features]\ndefault = [\"x\"]", &["MF0207"]),
    ("[features]\nx = \"dep:y\"", &["MF0207"]),
    ("[features]\nx = [1]", &["MF0207"]),
    ("[features]\nx.y = []", &["MF0202", "MF0207"]),
    ("[[features]]", &["MF0207"]),
    // Text that is no TOML, or TOML twice.
    ("name = \"twice\"", &["MF0201"]),
    ("\"name\" = \"twice\"", &["MF0201"]),
    ("[package]", &["MF0201"]),
    ("[[package]]", &["MF0201"]),
    ("[package.name]", &["MF0201"]),
    ("metadata = {}\n[package.metadata.mfaas]", &["MF0201"]),
    ("x = 0x", &["MF0201"]),
    ("x = 1e", &["MF0201"]),
    ("x = \"\\u{110000}\"", &["MF0201"]),
    ("x = \"\\ud800\"", &["MF0201"]),
    ("# \u{7f}", &["MF0201"]),
    ("# a\rb", &["MF0201"]),
];

#[test]
fn every_objection_points_at_its_line() {
    let mut surprises = Vec::new();
    for (addition, expected) in BEHIND_A_PACKAGE {
        let places = places(&format!("{PACKAGE}{addition}\n"));
        let codes: Vec<&str> = places.iter().map(|(code, _)| code.as_str()).collect();
        // The package has four lines; nothing points at those.
        let last = 4 + addition.lines().count() as u32;
        let is_near = places.iter().all(|(_, line)| (5..=last).contains(line));
        if codes != *expected || !is_near {
            surprises.push(format!("{addition:?}: {places:?}"));
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

#[test]
fn a_manifest_without_a_package_is_told_so_at_a_line() {
    for (text, expected) in [
        ("", ("MF0201", 1)),
        ("\n\n[dependencies]\n", ("MF0201", 1)),
        ("# a comment\n[package]\nversion = \"1.0.0\"\n", ("MF0201", 2)),
        ("package = 1\n", ("MF0207", 1)),
        ("\n[[package]]\nname = \"x\"\n", ("MF0207", 2)),
        ("[package]\nname = \"Upper\"\n", ("MF0207", 2)),
        ("[package]\nname = \"fn-tаble\"\n", ("MF0207", 2)),
        ("[package]\nname = \"\"\n", ("MF0207", 2)),
        ("[package]\nname = 1\n", ("MF0207", 2)),
    ] {
        assert_eq!(places(text), [(expected.0.to_owned(), expected.1)], "{text:?}");
    }
    let bytes = b"[package]\nname = \"x\"\ndescription = \"\xff\"\n";
    let findings = judge_manifest(&read(bytes));
    let span = findings[0].span.as_ref().unwrap();
    assert_eq!((findings[0].code.id(), span.line, span.column), ("MF0201", 3, 16));
}

/// A byte order mark and the line ends of other systems change nothing.
#[test]
fn other_editors_write_the_same_manifest() {
    let text = format!("{PACKAGE}[dependencies]\nitoa = \"1\"\n");
    let plain = read(text.as_bytes());
    for other in [text.replace('\n', "\r\n"), format!("\u{feff}{text}"), text.trim_end().to_owned()] {
        let facts = read(other.as_bytes());
        assert_eq!(judge_manifest(&facts), Vec::new(), "{other:?}");
        assert_eq!(facts.name, plain.name);
        assert_eq!(facts.dependencies[0].name, plain.dependencies[0].name);
    }
    let marked = "\u{feff}[package]\nname = \"x\"\nlinks = \"z\"\n";
    assert_eq!(places(marked), [("MF0109".to_owned(), 3)]);
}

#[test]
fn limits_of_the_manifest_hold_to_the_last_one() {
    let keys = |count: usize| {
        let names: String = (0..count).map(|number| format!("k{number} = []\n")).collect();
        // `package`, its three keys and `features` come first.
        format!("{PACKAGE}[features]\n{names}")
    };
    let before = 1 + 3 + 1;
    assert_eq!(places(&keys(MANIFEST.keys_max - before)), []);
    let one_more = places(&keys(MANIFEST.keys_max - before + 1));
    assert!(matches!(one_more.as_slice(), [(code, _)] if code == "MF0201"), "{one_more:?}");

    let dependencies = |count: usize| {
        let names: String = (0..count).map(|number| format!("d{number} = \"1\"\n")).collect();
        format!("{PACKAGE}[dependencies]\n{names}")
    };
    assert_eq!(places(&dependencies(MANIFEST.dependencies_max)), []);
    let line = 5 + MANIFEST.dependencies_max as u32 + 1;
    assert_eq!(places(&dependencies(MANIFEST.dependencies_max + 1)), [("MF0202".to_owned(), line)]);

    let comment = |bytes: usize| format!("{PACKAGE}#{}", "x".repeat(bytes - PACKAGE.len() - 1));
    assert_eq!(places(&comment(MANIFEST.bytes_max)), []);
    assert_eq!(places(&comment(MANIFEST.bytes_max + 1)), [("MF0201".to_owned(), 5)]);

    // Two ways of nesting multiply: neither brackets nor dots are too many here.
    let dots = "a.".repeat(15);
    let both = format!("{PACKAGE}metadata.x.{dots}a = {{ {dots}a = {{ {dots}a = 1 }} }}\n");
    assert_eq!(places(&both), [("MF0201".to_owned(), 5)]);
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
