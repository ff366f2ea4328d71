#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::os::unix::ffi::OsStringExt as _;

use super::*;

fn one(name: &str, value: &str) -> Variables {
    Variables::from_iter([(name, value)])
}

#[test]
fn an_empty_variable_is_not_set() {
    let variables = one("MFAAS_X", "");
    assert_eq!(variables.optional("MFAAS_X"), Ok(None));
    assert_eq!(variables.required("MFAAS_X").unwrap_err().to_string(), "MFAAS_X is not set");
    assert_eq!(variables.switch("MFAAS_X"), Ok(false));
    assert_eq!(variables.number("MFAAS_X", 1..=9, 5), Ok(5));
}

#[test]
fn text_that_is_not_utf_8_does_not_pass_for_a_default() {
    let variables = Variables::from_iter([("MFAAS_X", OsString::from_vec(vec![0xff]))]);
    let expected = VariableError::invalid("MFAAS_X", "it is not UTF-8");
    assert_eq!(variables.optional("MFAAS_X").unwrap_err(), expected);
    assert_eq!(variables.list::<u8>("MFAAS_X", 9).unwrap_err(), expected);
}

#[test]
fn a_value_that_does_not_fit_is_named_with_what_is_expected() {
    for text in ["0", "10", "-1", "many", " 5"] {
        let error = one("MFAAS_X", text).number("MFAAS_X", 1..=9, 5).unwrap_err().to_string();
        assert_eq!(error, "MFAAS_X: expected a whole number from 1 to 9", "{text}");
    }
    assert_eq!(one("MFAAS_X", "9").number("MFAAS_X", 1..=9, 5), Ok(9));
    assert!(one("MFAAS_X", "yes").switch("MFAAS_X").is_err());
    assert_eq!(one("MFAAS_X", "1").switch("MFAAS_X"), Ok(true));
    assert_eq!(one("MFAAS_X", " 3,2 ,,3").list("MFAAS_X", 2), Ok(BTreeSet::from([2, 3])));
    assert!(one("MFAAS_X", "1,2,3").list::<u8>("MFAAS_X", 2).is_err());
    assert!(one("MFAAS_X", "1,x").list::<u8>("MFAAS_X", 2).is_err());
}

#[test]
fn an_older_name_counts_where_the_present_one_is_not_set() {
    let both = [("MFAAS_LOCAL_CALLS", "acme/new"), ("MFAAS_DOOR_CALLS", "acme/old")];
    assert_eq!(Variables::from_iter(both).required("MFAAS_LOCAL_CALLS").unwrap(), "acme/new");
    let old = one("MFAAS_DOOR_CALLS", "acme/old");
    assert_eq!(old.required("MFAAS_LOCAL_CALLS").unwrap(), "acme/old");
    let left_out = [("MFAAS_LOCAL_CALLS", ""), ("MFAAS_DOOR_CALLS", "acme/old")];
    assert_eq!(Variables::from_iter(left_out).required("MFAAS_LOCAL_CALLS").unwrap(), "acme/old");
}

#[test]
fn values_do_not_reach_a_log() {
    let shown = format!("{:?}", one("MFAAS_DATABASE_URL", "postgres://u:hidden@h/d"));
    assert_eq!(shown, r#"{"MFAAS_DATABASE_URL"}"#);
}

#[test]
fn users_are_named_or_numbered_and_have_to_be_there() {
    assert_eq!(one("MFAAS_X", "root, 12345").users("MFAAS_X", 2), Ok(BTreeSet::from([0, 12_345])));
    assert_eq!(Variables::from_iter([("MFAAS_Y", "")]).users("MFAAS_X", 2), Ok(BTreeSet::new()));
    let error = one("MFAAS_X", "nobody-of-that-name").users("MFAAS_X", 2).unwrap_err().to_string();
    assert_eq!(error, "MFAAS_X: there is no user nobody-of-that-name");
    assert!(one("MFAAS_X", "1,2,3").users("MFAAS_X", 2).is_err());
}
