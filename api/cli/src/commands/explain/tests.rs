use super::{codes, family, pages};

#[test]
fn every_code_belongs_to_a_part() {
    for code in codes::ALL {
        assert_ne!(family(*code), "unknown", "{code}");
    }
}

#[test]
fn every_code_has_its_page_built_in() {
    for code in codes::ALL {
        assert!(pages::has(code.id()), "{code} is missing in explain/pages.rs");
    }
}

/// Whoever reads about a refusal of an archive or a manifest finds what to write instead.
#[test]
fn refusals_of_uploads_and_manifests_show_what_to_write() {
    for code in codes::ALL.iter().filter(|code| matches!(code.family(), "01" | "02")) {
        let more = pages::more(code.id()).unwrap_or_default();
        assert!(
            more.contains("instead") || more.contains("# refused") || more.contains("at once"),
            "{code}: {more}"
        );
    }
}
