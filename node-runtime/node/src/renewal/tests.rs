#![allow(clippy::unwrap_used, reason = "tests")]

use chrono::{TimeDelta, Utc};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::Validity;

#[test]
fn a_certificate_is_renewed_from_two_thirds_of_its_life_on() {
    let begin = Utc::now();
    let validity = Validity { begin, end: begin + TimeDelta::days(30) };
    assert!(!validity.is_due(begin - TimeDelta::days(1)));
    assert!(!validity.is_due(begin + TimeDelta::days(20) - TimeDelta::seconds(1)));
    assert!(validity.is_due(begin + TimeDelta::days(20)));
    assert!(validity.is_due(begin + TimeDelta::days(31)), "one that has ended is worth the try");
}

#[test]
fn its_life_stands_in_it() {
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 2), date_time_ymd(2027, 1, 2));
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    let validity = Validity::of(certificate.as_bytes()).unwrap();
    assert_eq!(validity.begin.to_rfc3339(), "2026-01-02T00:00:00+00:00");
    assert_eq!(validity.end - validity.begin, TimeDelta::days(365));
    assert!(Validity::of(b"nothing").is_err());
}
