#![allow(clippy::single_range_in_vec_init, reason = "one window of lines is a list of one")]

use super::*;

fn page(text: &str, wanted: &[Range<usize>]) -> Vec<LineRow> {
    line_rows(text, true, wanted, &[], false, &mut Budget::of_page())
}

fn drawn(row: &LineRow) -> String {
    let part = |part: &Part| match part.class {
        "" => part.text.clone(),
        class => format!("{}({})", &class[2..], part.text),
    };
    let run = |run: &Run| {
        let text: String = run.parts.iter().map(part).collect();
        if run.marked { format!("[{text}]") } else { text }
    };
    row.runs.iter().map(run).collect()
}

fn marked(line: &str, columns: &[(u32, u32)]) -> String {
    let runs = runs(line, &[], columns);
    drawn(&LineRow { number: 1, runs, cut: 0, hotspots: Vec::new() })
}

#[test]
fn columns_are_characters_and_marks_may_overlap_or_miss() {
    assert_eq!(marked("ä unsafe { x }", &[(3, 9)]), "ä [unsafe] { x }");
    assert_eq!(marked("abcdef", &[(2, 4), (3, 5), (9, 12), (0, 0), (5, 2)]), "a[bcd]ef");
    assert_eq!(marked("a\u{202e}b\u{1b}\tc", &[(2, 3)]), "a[\\u{202e}]b\\u{1b}\tc");
    assert_eq!(marked("", &[(1, 2)]), "");
}

#[test]
fn a_token_of_several_lines_is_right_wherever_a_page_begins() {
    let text = "let s = \"one\nunsafe \\\" two\n\"; unsafe { f() } /* x\nunsafe */ 'a'\n";
    let drawn: Vec<String> = page(text, &[1..2, 2..4]).iter().map(drawn).collect();
    assert_eq!(
        drawn,
        [
            "str(unsafe \\\" two)",
            "str(\")op(;) unsafe(unsafe) op({) fop(()) op(}) comment(/* x)",
            "comment(unsafe */) char('a')",
        ]
    );
}

#[test]
fn a_text_that_is_no_rust_has_no_classes() {
    let rows = line_rows("unsafe \"x\n", false, &[0..1], &[], false, &mut Budget::of_page());
    assert_eq!(drawn(&rows[0]), "unsafe \"x");
    assert!(is_rust("src/lib.rs") && !is_rust("Cargo.toml") && !is_rust("rs"));
}

#[test]
fn hostile_characters_are_written_out_behind_the_lexer() {
    let rows = page("\"\u{202e}\" // \u{2066}unsafe\n", &[0..1]);
    assert_eq!(drawn(&rows[0]), "str(\"\\u{202e}\") comment(// \\u{2066}unsafe)");
}

#[test]
fn line_ends_are_seen_when_they_are_asked_for() {
    assert_eq!(drawn(&page("a\r\nb", &[0..2])[0]), "a");
    let rows = line_rows("a\r\n", false, &[0..1], &[], true, &mut Budget::of_page());
    assert_eq!(drawn(&rows[0]), "a\\u{d}");
}

#[test]
fn a_long_line_says_how_much_is_missing() {
    let rows = page(&"ä".repeat(limits::CONSOLE_LINE_BYTES_MAX), &[0..1]);
    assert_eq!(
        (rows[0].runs[0].parts[0].text.len(), rows[0].cut),
        (limits::CONSOLE_LINE_BYTES_MAX, limits::CONSOLE_LINE_BYTES_MAX)
    );
}

#[test]
fn a_page_that_is_full_loses_colours_and_then_says_what_it_cuts() {
    let mut budget = Budget { bytes: 10, pieces: 3 };
    let rows = line_rows("a+b+\nc+d+e\nfff\n", true, &[0..3], &[], false, &mut budget);
    assert_eq!(rows.iter().map(drawn).collect::<Vec<_>>(), ["aop(+)b+", "c+d+e", "f"]);
    assert_eq!((rows[2].cut, budget.is_plain()), (2, true));
}
