use super::{codes, document, family, lints, lints_of};

#[test]
fn every_code_belongs_to_a_part() {
    for code in codes::ALL {
        assert_ne!(family(*code), "unknown", "{code}");
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
