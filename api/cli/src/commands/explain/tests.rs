use mfaas_rules::profiles::macros::MacroRule;
use mfaas_rules::profiles::std_items::Treatment;
use mfaas_rules::profiles::{attributes, macros, std_items};

use super::{codes, document, explanation, family, lints, lints_of, pages};

#[test]
fn every_code_belongs_to_a_part() {
    for code in codes::ALL {
        assert_ne!(family(*code), "unknown", "{code}");
    }
}

#[test]
fn every_code_has_its_page_in_the_program() {
    for code in codes::ALL {
        let page = pages::of(*code).unwrap_or_else(|| panic!("{code} is not among the pages"));
        assert!(page.starts_with(&format!("# {code}\n")), "{code}");
        let text = explanation(*code);
        assert!(text.starts_with(&format!("{code}: {}\n", code.title())), "{text}");
        assert!(text.contains(code.hint()), "{code} without its hint: {text}");
        assert!(!text.contains("**"), "{code}: {text}");
    }
}

/// A page about the source or the build shows (MF0314 has a form of its own, one part for each lint) what was seen, what to write instead, and who says so.
#[test]
fn pages_about_source_and_build_are_of_use() {
    for code in codes::ALL
        .iter()
        .filter(|code| matches!(code.family(), "03" | "04" | "05") && **code != codes::MF0314)
    {
        let page = pages::of(*code).unwrap_or_default();
        for part in ["**What was seen.**", "**What to do.**", "**Who says so.**"] {
            assert!(page.contains(part), "{code} lacks {part}");
        }
        if code.family() == "03" {
            assert!(page.contains("```"), "{code} lacks an example");
        }
    }
}

#[test]
fn the_lists_hold_every_row_with_its_reason() {
    let attributes_page = explanation(codes::MF0305);
    for row in attributes::ROWS {
        assert!(attributes_page.contains(&format!(" {}", row.path)), "{}", row.path);
        assert!(attributes_page.contains(row.why), "{}", row.path);
    }
    let macros_page = explanation(codes::MF0306);
    for row in macros::ROWS {
        assert!(macros_page.contains(&format!(" {}!", row.name.trim_start_matches("r#"))), "{}", row.name);
        assert!(macros_page.contains(row.why) || row.rule == MacroRule::Allow, "{}", row.name);
    }
    let paths_page = explanation(codes::MF0307);
    for row in std_items::ROWS.iter().filter(|row| row.refuses(&[]) || row.treatment == Treatment::Own) {
        assert!(paths_page.contains(row.why), "{row:?}");
        for name in row.names {
            assert!(paths_page.contains(&format!("::{name}")), "{}::{name}", row.module);
        }
    }
}

#[test]
fn the_code_of_the_lints_lists_each_with_its_way_out() {
    let text = lints_of(codes::MF0314);
    for row in lints::ROWS {
        assert!(text.contains(row.id) && text.contains(row.instead), "{}", row.id);
    }
    assert_eq!(document(codes::MF0314)["lints"].as_array().map(Vec::len), Some(lints::ROWS.len()));
    assert!(lints_of(codes::MF0301).is_empty());
    assert!(document(codes::MF0301).get("lints").is_none());
}
