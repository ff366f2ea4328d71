//! The rows and words of this revision.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;
use crate::profiles::crate_rules::{API, AUDIT_SOURCES, EXCEPTIONS, LICENCES};

/// The revision is recorded with every decision of the rules: rows that change under the same name
/// would make two policies look like one. The snapshot's file bears the revision's name.
#[test]
fn the_rows_of_this_revision_are_what_they_were() {
    let mut dump = String::new();
    for class in RiskClass::ALL {
        writeln!(dump, "risk {:?} {} {}", class.effect(), class.word(), class.label()).unwrap();
    }
    for row in LICENCES {
        writeln!(dump, "licence {}", row.id).unwrap();
    }
    for row in EXCEPTIONS {
        writeln!(dump, "exception {}", row.id).unwrap();
    }
    for row in API {
        writeln!(dump, "api {:?} person: {}", row.class, row.needs_person).unwrap();
    }
    for row in AUDIT_SOURCES {
        writeln!(dump, "source {} {:?}", row.source, row.trust).unwrap();
    }
    writeln!(dump, "limits {:?}", crate::limits::CRATE_RULES).unwrap();
    insta::assert_snapshot!(format!("rules-{RULES_REVISION}"), dump);
}

#[test]
fn words_are_unique_and_parse_back() {
    let words: BTreeSet<&str> = RiskClass::ALL.iter().map(|class| class.word()).collect();
    assert_eq!(words.len(), RiskClass::ALL.len());
    for class in RiskClass::ALL {
        assert_eq!(RiskClass::parse(class.word()), Some(*class));
        assert_eq!(serde_json::to_value(class).unwrap(), class.word());
        assert!(class.hint().ends_with(['.', '?']) && !class.label().ends_with('.'), "{class:?}");
    }
    assert!(RiskClass::ALL.is_sorted_by_key(|class| std::cmp::Reverse(class.effect())));
}

#[test]
fn each_interface_class_has_one_row_and_the_effect_that_it_says() {
    let classes = [
        ApiClass::Fs,
        ApiClass::Net,
        ApiClass::Process,
        ApiClass::Env,
        ApiClass::Stdio,
        ApiClass::Thread,
        ApiClass::Time,
        ApiClass::GlobalState,
    ];
    assert_eq!(API.len(), classes.len());
    for class in classes {
        let row = API.iter().find(|row| row.class == class).unwrap();
        let effect = super::super::source::api_risk(class).effect();
        assert_eq!(effect == Effect::Review, row.needs_person, "{class:?}");
        assert!(effect < Effect::Refuse && !row.why.is_empty());
    }
}

#[test]
fn licences_are_known_by_their_identifiers() {
    for row in LICENCES {
        assert_eq!(spdx::license_id(row.id).map(|id| id.name), Some(row.id), "{}", row.why);
    }
    for row in EXCEPTIONS {
        assert_eq!(spdx::exception_id(row.id).map(|id| id.name), Some(row.id), "{}", row.why);
    }
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    let judge = |text: &str| judge_licence(&LicenceFacts { expression: Some(text.to_owned()), file: None });
    for text in [
        "MIT",
        "MIT/Apache-2.0",
        "MIT OR GPL-3.0-only",
        "GPL-2.0-only OR (MIT AND ISC)",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
    ] {
        assert_eq!(judge(text), LicenceVerdict::Permitted, "{text}");
    }
    for text in [
        "GPL-3.0-only",
        "MIT AND GPL-3.0-or-later",
        "MPL-2.0",
        "AGPL-3.0-only OR SSPL-1.0",
        "LicenseRef-mine",
        "Apache-2.0 WITH Classpath-exception-2.0",
        "MIT AND (ISC AND LGPL-2.1-only)",
    ] {
        assert!(matches!(judge(text), LicenceVerdict::NotPermitted { .. }), "{text}: {:?}", judge(text));
    }
    let deep = "(".repeat(5_000);
    for text in ["", " ", "mit", "MIT, Apache-2.0", "MIT OR", "non-standard", "MIT APACHE", deep.as_str()] {
        assert!(matches!(judge(text), LicenceVerdict::Unknown { .. }), "{text}: {:?}", judge(text));
    }
    let file = LicenceFacts { expression: None, file: Some("LICENSE".to_owned()) };
    assert!(matches!(judge_licence(&file), LicenceVerdict::Unknown { .. }));
}
