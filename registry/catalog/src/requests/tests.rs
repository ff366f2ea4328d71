use super::*;

#[test]
fn words_of_requests_stay_as_the_database_has_them() {
    let words: Vec<_> = RequestStatus::VARIANTS.iter().map(|status| status.as_str()).collect();
    assert_eq!(words, ["open", "reviewing", "building", "ready", "denied", "failed", "withdrawn"]);
    for word in words {
        assert_eq!(RequestStatus::parse(word).map(RequestStatus::as_str), Some(word));
    }
    assert_eq!(RequestStatus::parse("approved"), Some(RequestStatus::Ready));
    assert_eq!(RequestStatus::parse("retried"), Some(RequestStatus::Ready));
    assert_eq!(RequestStatus::parse("Open"), None);
}
