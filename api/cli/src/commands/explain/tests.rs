use super::{codes, family};

#[test]
fn every_code_belongs_to_a_part() {
    for code in codes::ALL {
        assert_ne!(family(*code), "unknown", "{code}");
    }
}
