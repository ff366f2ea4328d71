#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::Utc;

use super::*;

fn builder(role: &str, unwell: Option<&str>) -> Builder {
    let unwell = unwell.map(str::to_owned);
    Builder { instance: "i".to_owned(), role: role.to_owned(), seen_at: Utc::now(), unwell }
}

#[test]
fn what_strangers_are_told_names_no_place() {
    let full = "the blob store file:///srv/blobs is not available: Unable to copy /srv/blobs/x: No space left (os error 28)";
    assert_eq!(without_places(full), "No space left (os error 28)");
    for hidden in ["", "cannot write: /srv/work", "s3://bucket/secret", "it ends with: "] {
        assert_eq!(without_places(hidden), "the log of the program says why", "{hidden}");
    }
    assert_eq!(without_places("a\u{202e}b").chars().filter(|c| *c == '\u{202e}').count(), 0);
}

#[test]
fn builders_degrade_when_none_is_there_one_is_unwell_or_too_few_can_agree() {
    let (one, two) = (builder("one", None), builder("two", None));
    let ill = builder("two", Some("/work: 3 bytes are free, 9 are needed"));
    let cause = |builders: &[Builder], agreement| builders_cause(builders, agreement);
    assert_eq!(cause(&[], None).unwrap(), "no builder was seen for half a minute");
    assert_eq!(cause(std::slice::from_ref(&one), None), None);
    assert_eq!(cause(&[one.clone(), two], Some(2)), None);
    assert_eq!(
        cause(&[one.clone(), ill], Some(2)).unwrap(),
        "1 of 2 take no builds: 3 bytes are free, 9 are needed; 2 with identities of their own have to agree, and 1 take builds"
    );
    let same = cause(&[one.clone(), one], Some(2)).unwrap();
    assert!(same.ends_with("and 1 take builds"), "instances with one role are one: {same}");
}
