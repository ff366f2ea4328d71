#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{
    Access, Budget, CallScope, Class, Digest, FunctionName, FunctionRef, HandlerPath, IdentitySource,
    Isolation, MemoryLimit, PersonName, Role, Scope, Selector, VersionNumber, sanitise,
};

#[test]
fn a_handler_is_source_text_so_only_plain_paths_pass() {
    for good in ["handle", "api::v1::handle", "_x", "a::b::c::d::e::f::g::h"] {
        assert_eq!(HandlerPath::parse(good).unwrap().as_str(), good);
    }
    for bad in [
        "",
        "handle; std::process::exit(7)",
        "r#fn",
        "fn",
        "crate::handle",
        "self",
        "a::",
        "::a",
        "a:b",
        "a b",
        "_",
        "a::b::c::d::e::f::g::h::i",
        "hänDle",
        "handle::<u8>",
        "Self",
    ] {
        assert!(HandlerPath::parse(bad).is_err(), "{bad:?} must be refused");
    }
}

#[test]
fn persons_that_look_alike_are_the_same() {
    for good in ["acme/ci", "alice@example.org", "9to5", "oidc:https://id.example/alice+review"] {
        assert!(PersonName::parse(good).is_ok(), "{good:?} must be accepted");
    }
    for bad in ["", "Alice", " alice", "alice ", "al ice", "аlice", "ali\u{200b}ce", "/x", &"a".repeat(201)]
    {
        assert!(PersonName::parse(bad).is_err(), "{bad:?} must be refused");
    }
}

#[test]
fn names_have_one_spelling() {
    assert!(FunctionName::parse("markdown-to-html").is_ok());
    for bad in ["", "-a", "9a", "A", "a/b", "a.b", "ä", &"a".repeat(64), "a\0"] {
        assert!(FunctionName::parse(bad).is_err(), "{bad:?} must be refused");
    }
}

#[test]
fn quantities_keep_their_unit_and_bounds() {
    assert_eq!(Budget::parse("10ms").unwrap().as_micros(), 10_000);
    assert_eq!(Budget::parse("93us").unwrap().to_string(), "93us");
    assert_eq!(MemoryLimit::parse("4MiB").unwrap().as_bytes(), 4 << 20);
    for bad in ["", "10", "ms", "-1ms", "1.5ms", "601s", "9us", "99999999999999999999s", "10 ms", "1h"] {
        assert!(Budget::parse(bad).is_err(), "{bad:?} must be refused");
    }
    for bad in ["4MB", "63KiB", "1025MiB", "65KiB", "4mib", ""] {
        assert!(MemoryLimit::parse(bad).is_err(), "{bad:?} must be refused");
    }
}

#[test]
fn a_class_has_two_words_and_nothing_means_a_third() {
    for class in Class::ALL {
        assert_eq!(Class::parse(class.as_str()).unwrap(), class);
        assert_eq!(serde_json::to_value(class).unwrap(), class.as_str());
    }
    assert_eq!(Class::default(), Class::Micro);
    for bad in ["", "Bulk", "bulk ", "batch", "micro,bulk"] {
        assert!(Class::parse(bad).is_err(), "{bad:?} must be refused");
        assert!(serde_json::from_value::<Class>(bad.into()).is_err(), "{bad:?} must be refused");
    }
    assert_eq!(
        (Class::Micro.budget_max(), Class::Bulk.budget_max()),
        (Budget::parse("10s").unwrap(), Budget::parse("600s").unwrap(),)
    );
    assert_eq!(
        (Class::Micro.memory_max(), Class::Bulk.memory_max()),
        (MemoryLimit::parse("256MiB").unwrap(), MemoryLimit::parse("1024MiB").unwrap(),)
    );
}

#[test]
fn isolation_has_two_words_and_nothing_means_a_third() {
    for isolation in Isolation::ALL {
        assert_eq!(Isolation::parse(isolation.as_str()).unwrap(), isolation);
        assert_eq!(serde_json::to_value(isolation).unwrap(), isolation.as_str());
    }
    assert_eq!(Isolation::default(), Isolation::Shared);
    for bad in ["", "Process", "process ", "none", "thread", "shared,process"] {
        assert!(Isolation::parse(bad).is_err(), "{bad:?} must be refused");
        assert!(serde_json::from_value::<Isolation>(bad.into()).is_err(), "{bad:?} must be refused");
    }
}

#[test]
fn access_has_three_words_and_nothing_means_a_fourth() {
    for access in Access::ALL {
        assert_eq!(Access::parse(access.as_str()).unwrap(), access);
        assert_eq!(serde_json::to_value(access).unwrap(), access.as_str());
    }
    assert_eq!(Access::default(), Access::Tenant);
    for bad in ["", "Public", "public ", "none", "private", "public,tenant", "*"] {
        assert!(Access::parse(bad).is_err(), "{bad:?} must be refused");
        assert!(serde_json::from_value::<Access>(bad.into()).is_err(), "{bad:?} must be refused");
    }
}

#[test]
fn a_scope_opens_what_it_names_and_a_star_not_what_has_to_be_named() {
    let name = |text| FunctionName::parse(text).unwrap();
    let opens = |texts: &[&str]| {
        let scope = CallScope::parse(texts).unwrap();
        Access::ALL.map(|access| scope.opens(&name("pay"), access))
    };
    assert_eq!(opens(&["pay"]), [true, true, true]);
    assert_eq!(opens(&["*"]), [true, true, false]);
    assert_eq!(opens(&["*", "pay"]), [true, true, true]);
    assert_eq!(opens(&["other"]), [true, false, false]);
    let none: &[&str] = &[];
    assert!(CallScope::parse(none).is_err(), "a scope of nothing is a mistake");
    assert!(CallScope::parse(&["pay", "**"]).is_err());
    assert!(CallScope::parse(&vec!["pay"; CallScope::NAMES_MAX + 1]).is_err());
    let json = serde_json::json!(["*", "pay"]);
    let scope: CallScope = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&scope).unwrap(), json);
    assert!(serde_json::from_value::<CallScope>(serde_json::json!("*")).is_err());
}

#[test]
fn a_selector_is_a_version_or_an_alias() {
    assert_eq!(Selector::parse("3").unwrap(), Selector::Version(VersionNumber::new(3).unwrap()));
    assert!(matches!(Selector::parse("live").unwrap(), Selector::Alias(_)));
    assert!(Selector::parse("03").is_err());
    assert!(Selector::parse("0").is_err());
    assert!("hello@".parse::<FunctionRef>().is_err());
    assert!("hello@2".parse::<FunctionRef>().unwrap().selector.is_some());
}

#[test]
fn a_digest_has_one_spelling_and_survives_json() {
    let digest = Digest::of(b"mfaas");
    assert_eq!(Digest::parse(&digest.to_string()).unwrap(), digest);
    assert!(Digest::parse(&digest.to_string().to_uppercase()).is_err());
    let json = serde_json::to_string(&digest).unwrap();
    assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
    assert!(serde_json::from_str::<Digest>("\"abc\"").is_err());
}

#[test]
fn the_sanitiser_shows_what_would_hide_and_bounds_what_it_shows() {
    assert_eq!(sanitise("a\u{1b}[2Jb\n\u{202e}c", 100), "a\\u{1b}[2Jb\n\\u{202e}c");
    assert_eq!(sanitise("aaaa", 3), "aaa…");
    assert_eq!(sanitise("äöü", 4), "äö…");
}

#[test]
fn a_scope_to_change_something_may_see_it_and_nothing_else() {
    use Scope::{Admin, Deploy, Operate, Read, Review};
    let implied =
        |scope: Scope| Scope::ALL.into_iter().filter(|other| scope.implies(*other)).collect::<Vec<_>>();
    assert_eq!(implied(Read), [Read]);
    assert_eq!(implied(Deploy), [Read, Deploy]);
    assert_eq!(implied(Review), [Read, Review]);
    assert_eq!(implied(Operate), [Read, Operate]);
    assert_eq!(implied(Admin), [Read, Deploy, Review, Operate, Admin]);
    let voters: Vec<_> = Scope::ALL.into_iter().filter(|scope| scope.may_vote()).collect();
    assert_eq!(voters, [Review, Admin]);
}

#[test]
fn a_role_is_read_off_the_scopes_and_no_two_roles_are_the_same() {
    for role in Role::ALL {
        assert_eq!(Role::of(role.scopes()), Some(role));
        assert_eq!(Role::parse(role.as_str()), Ok(role));
    }
    assert_eq!(Role::of(&[Scope::Review]), Some(Role::Reviewer), "review implies read");
    assert_eq!(Role::of(&[Scope::Admin]), Some(Role::Admin));
    for unnamed in [&[][..], &[Scope::Deploy, Scope::Review], &[Scope::Operate, Scope::Review]] {
        assert_eq!(Role::of(unnamed), None, "{unnamed:?}");
    }
    let words = Role::ALL.map(Role::as_str);
    assert_eq!(words, ["viewer", "deployer", "reviewer", "operator", "admin"]);
    assert_eq!(Scope::ALL.map(Scope::as_str), ["read", "deploy", "review", "operate", "admin"]);
    assert_eq!(IdentitySource::ALL.map(IdentitySource::as_str), ["nobody", "admin", "provider"]);
    assert!(Role::parse("Admin").is_err() && IdentitySource::parse("me").is_err());
    for source in IdentitySource::ALL {
        assert_eq!(IdentitySource::parse(source.as_str()), Ok(source));
    }
}

#[test]
fn json_keeps_its_meaning_and_loses_its_invisible_characters() {
    let hostile = "a\u{7f}\u{9b}1m\u{202e}b\u{e0041}\u{200b}\u{feff}";
    let json = format!("{{\n  \"text\": \"{hostile} \\u001b \u{e9}\"\n}}");
    let escaped = crate::escape_json(&json);
    assert_eq!(
        escaped,
        "{\n  \"text\": \"a\\u007f\\u009b1m\\u202eb\\udb40\\udc41\\u200b\\ufeff \\u001b \u{e9}\"\n}"
    );
}
