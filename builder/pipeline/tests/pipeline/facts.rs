//! `facts`: what geiger alone does not see, and what it does not survive.

use std::path::Path;

use serde_json::Value;

use mfaas_harness::builder;

/// A crate's directory; gone when dropped.
struct Crate(tempfile::TempDir);

impl Crate {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
            .with("Cargo.toml", "[package]\nname = \"sample\"\nversion = \"1.2.3\"\nedition = \"2024\"\n")
    }

    fn library(source: &str) -> Self {
        Self::new().with("src/lib.rs", source)
    }

    fn with(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn facts(&self) -> Value {
        let output = builder().args(["facts", "--json"]).arg(self.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn answer(facts: &Value) -> &str {
    facts["summary"]["unsafe"].as_str().unwrap()
}

/// geiger's sum, and what the token scan found.
fn counts(facts: &Value) -> (u64, u64) {
    let geiger = facts["summary"]["geiger"].as_object().unwrap();
    let sum = geiger.values().map(|count| count["unsafe"].as_u64().unwrap()).sum();
    (sum, facts["summary"]["token_spots"].as_u64().unwrap())
}

fn file<'a>(facts: &'a Value, path: &str) -> &'a Value {
    let files = facts["files"].as_array().unwrap();
    files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("no {path} in {facts}"))
}

#[test]
fn a_safe_crate_is_none_and_an_unsafe_one_is_counted() {
    let safe = Crate::library("#![forbid(unsafe_code)]\npub fn one() -> u8 { 1 } // unsafe, in a comment\n");
    let facts = safe.facts();
    assert_eq!((answer(&facts), &facts["package"]), ("none", &"sample 1.2.3".into()), "{facts}");
    assert_eq!(file(&facts, "src/lib.rs")["geiger"]["counted"]["forbids_unsafe"], true);
    let counted = Crate::library("pub fn first(b: &[u8]) -> u8 { unsafe { *b.get_unchecked(0) } }\n").facts();
    assert_eq!(answer(&counted), "counted");
    let (geiger, tokens) = counts(&counted);
    assert!(geiger > 0 && tokens == 1, "{counted}");
}

/// Each of these is unsafe, and geiger counts nothing.
#[test]
fn what_geiger_counts_as_zero_is_found_beside_it() {
    let cases = [
        ("unsafe", "#[macro_export] macro_rules! get { ($e:expr) => { unsafe { $e } } }\n"),
        (
            "unsafe",
            "macro_rules! local { ($n:ident) => { pub fn $n(p: usize) -> u8 { unsafe { *(p as *const u8) } } } }\nlocal!(read);\n",
        ),
        ("unsafe_attribute", "#[unsafe(no_mangle)] pub extern \"C\" fn sneaky() {}\n"),
        ("machine_code", "#[unsafe(naked)] pub extern \"C\" fn raw() { core::arch::naked_asm!(\"ret\") }\n"),
        ("linkage", "#[link_section = \".init_array\"] pub static START: fn() = start;\nfn start() {}\n"),
        ("extern_block", "unsafe extern \"C\" { pub safe fn getpid() -> i32; }\n"),
        ("static_mut", "pub static mut COUNTER: u64 = 0;\n"),
        ("machine_code", "core::arch::global_asm!(\"nop\");\n"),
        ("unsafe", "pub fn tokens() -> T { quote! { unsafe { *pointer } } }\n"),
    ];
    for (kind, source) in cases {
        let facts = Crate::library(source).facts();
        let (geiger, tokens) = counts(&facts);
        assert_eq!(geiger, 0, "geiger sees {source}, so this case shows nothing");
        assert!(tokens > 0 && answer(&facts) == "counted", "{source}\n{facts}");
        assert!(file(&facts, "src/lib.rs")["tokens"]["counts"][kind].is_u64(), "no {kind}: {facts}");
    }
}

/// What ends geiger is unknown, and only that: the files around it are counted.
#[test]
fn a_file_that_ends_geiger_is_unknown_and_its_neighbours_are_not() {
    let deep = |open: &str, close: &str| {
        format!("pub const DEEP: u8 = {}1{};\n", open.repeat(3_000), close.repeat(3_000))
    };
    let broken = "pub fn broken( { unsafe { }\n";
    let package = Crate::library("mod a;\nmod z;\npub fn safe() {}\n")
        .with("src/a.rs", "pub fn get(b: &[u8]) -> u8 { unsafe { *b.get_unchecked(0) } }\n")
        .with("src/brackets.rs", deep("(", ")"))
        .with("src/blocks.rs", deep("{", "}"))
        .with("src/broken.rs", broken)
        .with("src/minus.rs", deep("-", ""))
        .with("src/latin1.rs", b"pub const A: &str = \"\xe4\";\n")
        .with("src/z.rs", "pub unsafe fn z() {}\n");
    let facts = package.facts();
    assert_eq!(answer(&facts), "unknown");
    for path in ["brackets", "blocks", "broken", "minus", "latin1"] {
        let geiger = &file(&facts, &format!("src/{path}.rs"))["geiger"];
        assert!(geiger["unknown"]["reason"].is_string(), "{path}: {geiger}");
        let reasons = facts["summary"]["reasons"].as_array().unwrap();
        assert!(reasons.iter().any(|reason| reason.as_str().unwrap().contains(path)), "{path}: {reasons:?}");
    }
    for path in ["src/a.rs", "src/z.rs"] {
        assert!(file(&facts, path)["geiger"]["counted"].is_object(), "{path}: {facts}");
    }
}

#[test]
fn what_a_crate_includes_from_elsewhere_is_followed_or_reported() {
    let table = "pub fn table(p: usize) -> u8 { unsafe { *(p as *const u8) } }\n";
    let included = Crate::library("include!(\"table.inc\");\n").with("src/table.inc", table).facts();
    assert_eq!(answer(&included), "counted");
    assert!(counts(&included).0 > 0, "{included}");
    let module =
        Crate::library("#[path = \"hidden.txt\"] mod hidden;\n").with("src/hidden.txt", table).facts();
    assert_eq!(
        (answer(&module), file(&module, "src/hidden.txt")["role"].as_str()),
        ("counted", Some("library"))
    );
    let test = Crate::library("#[path = \"../tests/t.rs\"] mod t;\n").with("tests/t.rs", table).facts();
    assert_eq!((answer(&test), file(&test, "tests/t.rs")["role"].as_str()), ("counted", Some("library")));
    for lost in [
        "include!(concat!(env!(\"OUT_DIR\"), \"/generated.rs\"));\n",
        "include!(\"missing.inc\");\n",
        "include!(\"/etc/passwd\");\n",
        "#[path = \"../../outside.rs\"] mod outside;\n",
        "use core::include as take; take!(\"x\");\n",
    ] {
        let facts = Crate::library(lost).facts();
        assert_eq!(answer(&facts), "unknown", "{lost}\n{facts}");
        assert_eq!(facts["unread"].as_array().map(Vec::len), Some(1), "{lost}\n{facts}");
    }
}

#[test]
fn links_are_not_followed_and_tests_do_not_count() {
    let package = Crate::library("pub fn one() -> u8 { 1 }\n").with("tests/t.rs", "fn t() { unsafe {} }\n");
    let facts = package.facts();
    assert_eq!((answer(&facts), file(&facts, "tests/t.rs")["role"].as_str()), ("none", Some("aside")));
    std::os::unix::fs::symlink("/etc/passwd", package.path().join("src/linked.rs")).unwrap();
    let facts = package.facts();
    assert_eq!(answer(&facts), "unknown");
    assert!(facts["unread"][0].as_str().unwrap().starts_with("src/linked.rs: a link"), "{facts}");
}

#[test]
fn what_runs_is_flagged_and_never_none() {
    let source =
        "#[proc_macro] pub fn wrap(_: TokenStream) -> TokenStream { \"unsafe { go() }\".parse().unwrap() }\n";
    let facts = Crate::library(source).facts();
    assert_eq!((answer(&facts), &facts["proc_macro"], counts(&facts)), ("unknown", &true.into(), (0, 0)));
    assert_eq!(file(&facts, "src/lib.rs")["tokens"]["counts"]["word_in_literal"], 1);
    let declared = Crate::library("pub fn one() -> u8 { 1 }\n")
        .with("Cargo.toml", "[package]\nname = \"m\"\nversion = \"1.0.0\"\n[lib]\nproc-macro = true\n");
    assert_eq!(declared.facts()["proc_macro"], true);
    let script = Crate::library("pub fn one() -> u8 { 1 }\n").with("build.rs", "fn main() {}\n").facts();
    assert_eq!((answer(&script), &script["build_script"]), ("unknown", &true.into()));
}

#[test]
fn exported_macros_are_listed_with_the_power_in_their_bodies() {
    let source = "#[doc(hidden)]\n#[macro_export]\nmacro_rules! get { ($e:expr) => { unsafe { $e } } }\n\
        #[macro_export] macro_rules! decorated { ($(#[$m:meta])* $n:ident) => { $(#[$m])* pub fn $n() {} } }\n\
        #[macro_export] macro_rules! plain { () => { 1 } }\n\
        macro_rules! own { ($e:expr) => { unsafe { $e } } }\n";
    let facts = Crate::library(source).facts();
    let macros = facts["exported_macros"].as_array().unwrap();
    let row = |at: usize| {
        let row = &macros[at];
        (
            row["name"].as_str().unwrap(),
            row["powers"].to_string(),
            row["passes_attributes"].as_bool().unwrap(),
        )
    };
    assert_eq!(macros.len(), 3, "{facts}");
    assert_eq!(row(0), ("get", "[\"unsafe\"]".to_owned(), false));
    assert_eq!(row(1), ("decorated", "[]".to_owned(), true));
    assert_eq!(row(2), ("plain", "[]".to_owned(), false));
}

#[test]
fn hostile_text_is_visible_in_facts() {
    let source =
        "// \u{202e}backwards \u{200b}\nmacro_rules! m\u{e9} { () => { unsafe { \"\u{1b}[2J\" } } }\n";
    let package = Crate::library(source).with("src/\u{1b}[31m.rs", "fn x() {}");
    let facts = package.facts();
    assert_eq!(file(&facts, "src/lib.rs")["tokens"]["counts"]["invisible"], 3);
    assert!(facts["unread"][0].as_str().unwrap().contains("\\u{1b}[31m.rs"), "{facts}");
    let text = builder().arg("facts").arg(package.path()).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'), "{text:?}");
}
