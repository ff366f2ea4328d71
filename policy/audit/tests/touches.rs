//! What crates reach for in std, honestly and in disguise.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_audit::touches::touches;
use mfaas_rules::crate_facts::ApiClass::{self, *};
use mfaas_rules::limits::CRATE_FACTS;
use mfaas_rules::profiles::crate_rules::{API, API_PATHS};
use proptest::prelude::*;

fn classes_of(files: &[(&str, &str)]) -> Vec<ApiClass> {
    let report = touches(files.iter().copied());
    assert_eq!(report.unread, [] as [&str; 0]);
    report.classes.iter().map(|touch| touch.class).collect()
}

fn classes(source: &str) -> Vec<ApiClass> {
    classes_of(&[("src/lib.rs", source)])
}

#[test]
fn each_class_is_found_where_it_is_written_out() {
    for (source, class) in [
        ("fn f() { std::fs::read(\"x\"); }", Fs),
        ("fn f() { <std::fs::File>::open(\"x\"); }", Fs),
        ("use std::os::fd::OwnedFd;", Fs),
        ("use std::os::unix::fs::PermissionsExt as _;", Fs),
        ("use std::net::TcpStream;", Net),
        ("use std::{fmt, net::{IpAddr, ToSocketAddrs}};", Net),
        ("use std::os::unix::net::UnixStream;", Net),
        ("fn f() { std::process::exit(1) }", Process),
        ("use std::os::unix::process::CommandExt;", Process),
        ("use std::os::linux::anything;", Process),
        ("fn f() { std::env::var(\"X\"); }", Env),
        ("use std::backtrace::Backtrace;", Env),
        ("use std::io; fn f() { io::stdout(); }", Stdio),
        ("fn f() { println!(); }", Stdio),
        ("fn f() { std::eprintln! {} }", Stdio),
        ("use std::println as say;", Stdio),
        ("fn f() { std::thread::sleep(d); }", Thread),
        ("fn f() { std::time::Instant::now(); }", Time),
        ("use std::time::{Duration, SystemTime};", Time),
        ("thread_local! { static A: u8 = 0; }", GlobalState),
        ("static A: std::sync::Mutex<u8> = x;", GlobalState),
        ("static A: AtomicUsize = x;", GlobalState),
        ("static mut A: u8 = 0;", GlobalState),
        ("fn f() { std::panic::set_hook(h); }", GlobalState),
    ] {
        assert_eq!(classes(source), [class], "{source}");
    }
}

#[test]
fn what_is_pure_touches_nothing() {
    for source in [
        "use std::{collections::HashMap, fmt, io::{self, Read, Write}}; fn f() -> io::Result<()> { Ok(()) }",
        "use std::net::{IpAddr, Ipv4Addr, SocketAddr};",
        "use core::time::Duration; fn f() -> std::time::Duration { x }",
        "use std::env::consts::OS;",
        "use std::os::raw::c_int; use std::os::unix::ffi::OsStrExt;",
        "// std::fs::read\nconst A: &str = \"std::fs::read\";",
        "mod fs { pub fn read() {} } fn f() { fs::read(); self::fs::read(); crate::fs::read(); }",
        "const A: &str = std::env!(\"CARGO_PKG_NAME\");",
        "static TABLE: [u8; 4] = [1, 2, 3, 4];",
        "fn f(x: S) { x.exists(); x.metadata(); }",
        "#![cfg_attr(not(feature = \"std\"), no_std)] #[cfg(feature = \"std\")] extern crate std;",
        "extern crate core as std; mod std; fn f(std: u8) -> u8 { std }",
        "macro_rules! m { ($t:ident) => { impl std::fmt::$t for S {} } }",
        "use std::sync::{Mutex, atomic::AtomicUsize}; struct S(Mutex<u8>);",
    ] {
        assert_eq!(classes(source), [], "{source}");
    }
}

#[test]
fn names_are_followed_through_use_and_across_files() {
    for source in [
        "use std::fs; fn f() { fs::read(\"x\"); }",
        "use std as s; fn f() { s::fs::read(\"x\"); }",
        "extern crate std as s; fn f() { s::fs::read(\"x\"); }",
        "use std::fs as a; use a as b; fn f() { b::read(\"x\"); }",
        "fn f() { ::r#std::r#fs::read(\"x\"); }",
        "use other::__private::std; fn f() { other::__private::std::fs::read(\"x\"); }",
        "macro_rules! m { () => { $crate::__private::std::fs::read(\"x\") } } pub mod __private { pub use std; }",
    ] {
        let report = touches([("src/lib.rs", source)]);
        assert!(report.classes.iter().any(|touch| touch.class == Fs), "{source}: {report:?}");
    }
    let files = [
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "pub use std::env as surroundings;"),
        ("src/b.rs", "use crate::a::surroundings; fn f() { surroundings::vars(); }"),
    ];
    assert_eq!(classes_of(&files), [Env]);
    let report = touches(files);
    let places: Vec<(&str, &str)> = report.classes[0]
        .hotspots
        .iter()
        .map(|hotspot| (hotspot.span.file.as_str(), hotspot.path.as_str()))
        .collect();
    assert!(places.contains(&("src/b.rs", "std::env::vars")), "{places:?}");
}

#[test]
fn what_is_imported_whole_or_handed_on_counts_whole() {
    assert_eq!(classes("use std::io::*; fn f() { stdout(); }"), [Stdio]);
    assert_eq!(classes("pub use std::io;"), [Stdio]);
    assert_eq!(classes("use std::io::prelude::*;"), []);
    let every: Vec<ApiClass> = API.iter().map(|row| row.class).collect();
    assert_eq!(classes("use std::*; fn f() { fs::read(\"x\"); }"), every);
    assert_eq!(classes("pub use std as __std;"), every);
}

#[test]
fn methods_of_paths_ask_the_file_system() {
    assert_eq!(classes("use std::path::Path; fn f(p: &Path) -> bool { p.exists() }"), [Fs]);
    assert_eq!(classes("use std::path::Path; fn f(p: &Path) -> bool { Path::is_dir(p) }"), [Fs]);
    assert_eq!(classes("use std::path::Path; fn f(p: &Path) -> usize { p.components().count() }"), []);
    let files = [
        ("src/lib.rs", "mod a; use std::path::PathBuf;"),
        ("src/a.rs", "fn f(p: super::PathBuf) { p.canonicalize(); }"),
    ];
    assert_eq!(classes_of(&files), [Fs]);
}

#[test]
fn paths_that_macros_put_together_are_said_to_be_untold() {
    for source in [
        "macro_rules! m { ($r:ident) => { $r::fs::read(\"x\") } } fn f() { m!(std); }",
        "macro_rules! m { ($m:ident) => { std::$m::read(\"x\") } } fn f() { m!(fs); }",
        "macro_rules! m { ($m:ident) => { use std::$m::read; } } m!(fs);",
        "m! { std :: fs }",
    ] {
        let report = touches([("src/lib.rs", source)]);
        let told = report.classes.iter().any(|touch| touch.class == Fs);
        assert!(told || !report.unread.is_empty(), "{source}: {report:?}");
    }
}

#[test]
fn only_what_no_user_compiles_is_left_out() {
    let tests = "#[cfg(test)]\nmod tests { fn f() { std::fs::read(\"x\"); } }";
    assert_eq!(classes(tests), []);
    assert_eq!(classes(&format!("{tests}\nfn f() {{ std::env::vars(); }}")), [Env]);
    for source in [
        "#[cfg(not(test))] mod a { fn f() { std::fs::read(\"x\"); } }",
        "#[cfg(any(test, unix))] mod a { fn f() { std::fs::read(\"x\"); } }",
        "#[cfg(test, unix)] mod a { fn f() { std::fs::read(\"x\"); } }",
        "#[takes_apart] #[cfg(test)] mod a { fn f() { std::fs::read(\"x\"); } }",
        "takes_apart! { #[cfg(test)] mod a { fn f() { std::fs::read(\"x\"); } } }",
        "#[cfg(test)] mod a; fn f() { std::fs::read(\"x\"); }",
        "#[cfg(test)] use x; mod a { fn f() { std::fs::read(\"x\"); } }",
    ] {
        assert_eq!(classes(source), [Fs], "{source}");
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    for source in ["const A: &str = \"never closed", "/* never closed", "const A: &str = \"\u{202e}\";"] {
        assert_eq!(touches([("src/lib.rs", source)]).unread.len(), 1, "{source}");
    }
}

#[test]
fn many_places_are_counted_and_few_are_kept() {
    let source = "fn f() { std::fs::read(x); }\n".repeat(CRATE_FACTS.hotspots_max + 50);
    let report = touches([("src/lib.rs", source.as_str())]);
    assert_eq!(report.classes[0].count, CRATE_FACTS.hotspots_max + 50);
    assert_eq!(report.classes[0].hotspots.len(), CRATE_FACTS.hotspots_max);
}

/// A row that names nothing would be a row that nobody needs: each leads to its class.
#[test]
fn each_row_of_paths_is_found() {
    for row in API_PATHS {
        let path = row.path.join("::").replace('*', "unix");
        let expected: Vec<ApiClass> = row.class.into_iter().collect();
        assert_eq!(classes(&format!("fn f() {{ std::{path}::anything(); }}")), expected, "{path}");
    }
}

proptest! {
    /// Whatever stands before it: a path that is written out is found, or something is said to be unread.
    #[test]
    fn any_text_is_read(text in "(use |std|::|fs|[{}()*;,$!#\"]|mod |pub |#\\[cfg\\(test\\)\\]|[a-z ]|\\PC){0,40}") {
        let more = format!("{text}\nfn f() {{ ::std::process::exit(1) }}\n");
        let report = touches([("src/lib.rs", more.as_str())]);
        let found = report.classes.iter().any(|touch| touch.class == Process);
        // Text that swallows what follows is a literal, a comment, or code of tests.
        prop_assert!(found || !report.unread.is_empty() || more.contains("cfg(test)") || more.contains("use"), "{report:?}");
    }
}
