#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn an_exact_version_is_a_name_and_a_version() {
    let (name, version) = exact("left-pad@1.2.3").unwrap();
    assert_eq!((name.as_str(), version.to_string().as_str()), ("left-pad", "1.2.3"));
    for bad in ["left-pad", "left-pad@", "left-pad@1", "@1.0.0", "../x@1.0.0", "left-pad@^1.0.0"] {
        assert!(matches!(exact(bad), Err(Failure::Usage(_))), "{bad}");
    }
}
