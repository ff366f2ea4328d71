#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn the_nearest_version_is_one_that_fits_or_the_least_far_one() {
    let versions = ["0.9.0", "1.2.0", "1.8.3", "3.0.0"].map(|text| text.parse::<Version>().unwrap());
    let of = |text: &str| nearest(&text.parse().unwrap(), &versions).unwrap().to_string();
    assert_eq!(of("^1"), "1.8.3");
    assert_eq!(of("=1.3.0"), "1.2.0");
    assert_eq!(of(">=1.9, <2"), "1.8.3");
    assert_eq!(of("^2"), "3.0.0");
    assert_eq!(of("^7"), "3.0.0");
    assert_eq!(of("=1.8.4"), "1.8.3");
    let minors = ["0.13.0", "0.14.0"].map(|text| text.parse::<Version>().unwrap());
    assert_eq!(nearest(&"^99".parse().unwrap(), &minors).unwrap().to_string(), "0.14.0");
    assert_eq!(nearest(&VersionReq::STAR, &[]), None);
}
