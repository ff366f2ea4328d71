//! What the compiler leaves behind: the list of files it read, and its messages.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_audit::depinfo;
use mfaas_audit::rustc_json::{self, Level};
use mfaas_rules::judge_dep_info;
use proptest::prelude::*;

const LIST: &str = "/out/libtenant.rmeta: /src/src/lib.rs /src/src/a\\ b.rs /etc/passwd\n\n/src/src/lib.rs:\n/src/src/a\\ b.rs:\n/etc/passwd:\n\n\
                    # env-dep:HOME=/root\n# env-dep:ABSENT\n";

#[test]
fn the_list_names_every_file_and_variable() {
    let facts = depinfo::read(LIST.as_bytes());
    assert_eq!(facts.files, ["/etc/passwd", "/src/src/a b.rs", "/src/src/lib.rs"]);
    assert_eq!(facts.variables, ["HOME", "ABSENT"]);
    assert_eq!(facts.unreadable, None);
    let findings = judge_dep_info(&facts, "/src", &[]);
    assert_eq!(findings.len(), 3, "{findings:?}");
    assert!(findings.iter().all(|finding| finding.code.id() == "MF0311"));
}

#[test]
fn a_list_that_is_not_understood_is_refused() {
    for text in [
        "",
        "\n",
        "no rule here\n",
        ": /src/lib.rs\n",
        "# env-dep:A=1\n",
        "/o: /a\n# checksum:blake3=1 /a\n",
        "/o: /a\u{1b}\n",
    ] {
        let facts = depinfo::read(text.as_bytes());
        assert!(facts.unreadable.is_some(), "{text:?}");
        assert!(!judge_dep_info(&facts, "/src", &[]).is_empty());
    }
    assert!(depinfo::read(b"/o: \xff").unreadable.is_some());
    assert!(depinfo::read(&vec![b'x'; 5 << 20]).unreadable.is_some());
}

const ERROR: &str = r#"{"$message_type":"diagnostic","message":"mismatched types","code":{"code":"E0308","explanation":"long"},"level":"error","spans":[{"file_name":"src/lib.rs","byte_start":1,"byte_end":2,"line_start":3,"line_end":3,"column_start":5,"column_end":9,"is_primary":false,"text":[]},{"file_name":"src/lib.rs","byte_start":20,"byte_end":22,"line_start":2,"line_end":2,"column_start":7,"column_end":9,"is_primary":true,"text":[{"text":"    1 // \u001b[2J","highlight_start":7,"highlight_end":9}]}],"children":[],"rendered":"error[E0308]: mismatched types\n --> src/lib.rs:2:7\n"}"#;

#[test]
fn a_message_keeps_the_compilers_own_words() {
    let diagnostic = rustc_json::read(ERROR).unwrap();
    assert_eq!((diagnostic.level, diagnostic.code.as_deref()), (Level::Error, Some("E0308")));
    assert_eq!(diagnostic.rendered, "error[E0308]: mismatched types\n --> src/lib.rs:2:7\n");
    let span = diagnostic.span.unwrap();
    assert_eq!((span.file.as_str(), span.line, span.column, span.end_column), ("src/lib.rs", 2, 7, 9));
    assert_eq!(span.text, "    1 // \\u{1b}[2J");
    let spoilt = ERROR.replace("mismatched types", "a\\u202eb\\u001b[31m");
    assert_eq!(rustc_json::read(&spoilt).unwrap().message, "a\\u{202e}b\\u{1b}[31m");
}

/// They name another file at every run, so that no two answers about one source would be the same.
#[test]
fn notes_about_files_of_the_sandbox_are_left_out() {
    let line = r#"{"message":"m","code":null,"level":"error","spans":[],"children":[],"rendered":"error: m\n  |\n  = note: the full name for the type has been written to '/out/a.long-type-17.txt'\n  = note: consider using `--verbose` to print the full type name to the console\n  = note: kept\n"}"#;
    assert_eq!(rustc_json::read(line).unwrap().rendered, "error: m\n  |\n  = note: kept\n");
}

#[test]
fn other_lines_are_no_messages() {
    for line in [
        "",
        "error: plain text",
        "{}",
        "{\"$message_type\":\"artifact\",\"artifact\":\"x\",\"emit\":\"link\"}",
        "{\"message\":1}",
        "[",
        "{",
    ] {
        assert_eq!(rustc_json::read(line), None, "{line}");
    }
    let crash = ERROR.replace("\"error\"", "\"error: internal compiler error\"");
    assert_eq!(rustc_json::read(&crash).unwrap().level, Level::InternalError);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..500), text in "\\PC{0,200}") {
        let _ = depinfo::read(&bytes);
        let _ = depinfo::read(format!("/o: {text}\n").as_bytes());
        let _ = rustc_json::read(&text);
        let _ = rustc_json::read(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_spoilt_message_panics(at in 0usize..700, bytes in "\\PC{0,5}") {
        let mut line = ERROR.to_owned();
        let at = line.floor_char_boundary(at.min(line.len()));
        line.insert_str(at, &bytes);
        let _ = rustc_json::read(&line);
    }
}

/// A note of the compiler that names a place, and a macro that was defined elsewhere: both are
/// kept, with the tenant's own line as the place of the message.
#[test]
fn the_places_of_notes_and_macros_are_kept() {
    let line = r#"{"$message_type":"diagnostic","message":"no","code":null,"level":"error","spans":[
        {"file_name":"/lib/std.rs","line_start":9,"line_end":9,"column_start":1,"column_end":2,"is_primary":true,"text":[],"label":null,
         "expansion":{"span":{"file_name":"src/lib.rs","line_start":3,"line_end":3,"column_start":5,"column_end":9,"is_primary":false,
           "text":[{"text":"    call!()"}],"label":null,"expansion":null},
           "macro_decl_name":"call!","def_site_span":{"file_name":"/lib/def.rs","line_start":1,"line_end":1,"column_start":1,
           "column_end":2,"is_primary":false,"text":[],"label":null,"expansion":null}}}],
        "children":[{"message":"found","code":null,"level":"note","spans":[{"file_name":"/lib/note.rs","line_start":1,"line_end":1,
         "column_start":1,"column_end":2,"is_primary":true,"text":[],"label":"because\u001b","expansion":null}],"children":[],"rendered":null}],
        "rendered":"error: no\n"}"#
        .replace('\n', "");
    let message = rustc_json::read(&line).unwrap();
    let span = message.span.unwrap();
    assert_eq!((span.file.as_str(), span.line, span.text.as_str()), ("src/lib.rs", 3, "    call!()"));
    let files: Vec<&str> = message.remarks.iter().map(|remark| remark.file.as_str()).collect();
    assert_eq!(files, ["/lib/std.rs", "src/lib.rs", "/lib/def.rs", "/lib/note.rs"]);
    assert!(message.remarks[3].text.starts_with("because") && !message.remarks[3].text.contains('\u{1b}'));
}
