#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn drawn(page: &DiffPage) -> Vec<String> {
    let text = |row: &DiffRow| -> String {
        row.line.runs.iter().flat_map(|run| &run.parts).map(|part| part.text.as_str()).collect()
    };
    let row = |row: &DiffRow| {
        let gap = if row.kind == Kind::Gap { "…" } else { "" };
        format!("{gap}{}{}:{} {}", row.sign(), row.old, row.new_line(), text(row))
    };
    page.rows.iter().map(row).collect()
}

fn numbered(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn changed_lines_stand_between_a_few_others() {
    let old = numbered(20);
    let new = old.replace("line 10\n", "ten\nand more\n").replace("line 20\n", "");
    let page = diff_page((&old, &new), true, &[], (None, 1)).unwrap();
    assert_eq!((page.added, page.removed, page.page, page.pages), (2, 2, 1, 1));
    assert_eq!(
        drawn(&page),
        [
            "… 7:7 line 7",
            " 8:8 line 8",
            " 9:9 line 9",
            "−10:0 line 10",
            "+0:10 ten",
            "+0:11 and more",
            " 11:12 line 11",
            " 12:13 line 12",
            " 13:14 line 13",
            "… 17:18 line 17",
            " 18:19 line 18",
            " 19:20 line 19",
            "−20:0 line 20",
        ]
    );
}

#[test]
fn a_file_that_came_or_went_is_all_of_it() {
    let came = diff_page(("", "a\nb"), false, &[], (None, 1)).unwrap();
    assert_eq!(drawn(&came), ["+0:1 a", "+0:2 b"]);
    let went = diff_page(("a\r\n", ""), false, &[], (None, 1)).unwrap();
    assert_eq!(drawn(&went), ["−1:0 a\\u{d}"]);
    assert!(diff_page(("a", "a"), false, &[], (None, 1)).unwrap().rows.is_empty());
}

#[test]
fn every_row_is_on_one_page_and_a_line_leads_to_its_own() {
    let count = 2 * limits::CONSOLE_DIFF_ROWS_MAX + 1;
    let new = numbered(count);
    let of = |line, page| diff_page(("", &new), false, &[], (line, page)).unwrap();
    assert_eq!([of(None, 1).rows.len(), of(None, 3).rows.len()], [limits::CONSOLE_DIFF_ROWS_MAX, 1]);
    assert_eq!((of(None, 99).page, of(Some(count), 1).page, of(Some(1), 2).page), (3, 3, 1));
    assert_eq!(of(None, 2).added, count, "counts are of all pages");
}
