#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn only_a_crate_for_functions_gets_a_facade_and_an_unknown_one_nothing_at_all() {
    let plan = Plan { packages: [("a".to_owned(), vec!["--extern=std=x".to_owned()])].into() };
    let target: Vec<OsString> = ["--crate-name", "a", "--target", "t"].map(OsString::from).into();
    let joined: Vec<OsString> = ["--target=t"].map(OsString::from).into();
    let host: Vec<OsString> = ["--crate-name", "build_script_build"].map(OsString::from).into();
    assert_eq!(flags(&plan, Some("a"), &target).unwrap(), ["--extern=std=x"]);
    assert_eq!(flags(&plan, Some("a"), &joined).unwrap(), ["--extern=std=x"]);
    assert!(flags(&plan, Some("a"), &host).unwrap().is_empty());
    assert!(flags(&plan, None, &target).unwrap().is_empty());
    assert!(flags(&plan, Some("b"), &target).is_err());
}
