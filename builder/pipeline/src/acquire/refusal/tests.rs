#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! The texts are cargo 1.95's.

use super::{AcquireError, classify};

#[test]
fn a_crate_that_is_not_there_is_named() {
    let text = "    Updating an index\nerror: no matching package named `humanzise` found\n\
                location searched: an index\nrequired by package `mfaas-seed v0.1.0 (/scratch)`\n";
    assert_eq!(classify(text), AcquireError::NoSuchCrate { name: "humanzise".to_owned() });
}

#[test]
fn a_version_that_is_not_there_comes_with_the_newest() {
    let text = "    Updating an index\nerror: failed to select a version for the requirement `humansize = \"^99\"`\n\
                candidate versions found which didn't match: 2.1.3, 2.1.2, 2.1.1, ...\nlocation searched: an index\n";
    let newest = ["2.1.3", "2.1.2", "2.1.1"].map(str::to_owned).to_vec();
    let (name, requirement) = ("humansize".to_owned(), "^99".to_owned());
    assert_eq!(classify(text), AcquireError::NoVersion { name, requirement, newest, offered: None });
}

#[test]
fn a_conflict_names_what_is_offered() {
    let text = "error: failed to select a version for `memchr`.\n    ... required by package `mfaas-seed v0.1.0 (/scratch)`\n\
                versions that meet the requirements `=2.6.0` are: 2.6.0\n\n\
                all possible versions conflict with previously selected packages.\n\n\
                \u{20} previously selected package `memchr v2.8.3`\n\
                \u{20}   ... which satisfies dependency `memchr = \"^2.8.3\"` of package `mfaas-seed v0.1.0 (/scratch)`\n";
    let AcquireError::Conflict { name, offered, reason } = classify(text) else {
        panic!("{:?}", classify(text))
    };
    assert_eq!((name.as_str(), offered.to_string()), ("memchr", "2.8.3".to_owned()));
    assert!(reason.contains("`=2.6.0`"), "{reason}");
}

#[test]
fn a_missing_feature_is_named_with_its_crate() {
    let text = "error: failed to select a version for `time`.\n    ... required by package `mfaas-seed v0.1.0 (/scratch)`\n\
                versions that meet the requirements `^0.3` are: 0.3.55\n\n\
                package `mfaas-seed` depends on `time` with feature `nope` but `time` does not have that feature.\n\
                \u{20}available features: alloc, default\n";
    let (name, feature) = ("time".to_owned(), "nope".to_owned());
    assert_eq!(classify(text), AcquireError::NoFeature { name, feature });
}

#[test]
fn an_unreachable_registry_can_be_asked_again() {
    let text = "warning: spurious network error (1 try remaining): [7] Could not connect to server\n\
                error: failed to get `adler2` as a dependency of package `mfaas-seed v0.1.0 (/scratch)`\n\n\
                Caused by:\n  download of config.json failed\n\nCaused by:\n  failed to download from `https://example.com/config.json`\n";
    assert!(matches!(classify(text), AcquireError::Network { .. }));
}

#[test]
fn anything_else_keeps_its_words_and_nothing_of_a_terminal() {
    let AcquireError::Other { reason } = classify("error: \u{1b}[2Jsomething\n") else {
        panic!("it was recognised")
    };
    assert!(reason.contains("something") && !reason.contains('\u{1b}'));
}
