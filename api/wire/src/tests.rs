#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::CrateName;
use mfaas_rules::{Finding, Layer, Span, codes};

use crate::{
    CrateStatus, DeploymentState, Diagnostic, Event, Level, NodeState, Problem, STATUSES, SourceSpan,
    bindings_text, duration_text, render, status_of,
};

fn unsafe_finding() -> Finding {
    Finding::new(codes::MF0301, Layer::Lexer, "`unsafe` is not available to functions").at(Span {
        file: "src/lib.rs".to_owned(),
        line: 12,
        column: 5,
        end_column: 11,
        text: "    unsafe { *p }".to_owned(),
    })
}

#[test]
fn every_code_has_exactly_one_status_and_no_row_is_left_over() {
    let coded: Vec<_> = codes::ALL.iter().map(|code| code.id()).collect();
    let tabled: Vec<_> = STATUSES.iter().map(|(code, _)| code.id()).collect();
    assert_eq!(coded, tabled, "status.rs lists the codes in their own order, each once");
    for (code, status) in STATUSES {
        assert!((400..=599).contains(status), "{code} has status {status}, which is no error");
    }
    assert_eq!(status_of(codes::MF0101), 413);
    assert_eq!(status_of(codes::MF0906), 421);
}

#[test]
fn times_have_three_digits_and_a_unit() {
    let shown = [0, 999, 1_000, 12_340, 999_999, 5_000_000, 61_000_000_000, u64::MAX].map(duration_text);
    let wanted = ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "1000 µs", "5.00 ms", "1.02 min", "5124096 h"];
    assert_eq!(shown, wanted);
}

/// What the description says of a binding is what a version's view holds.
#[test]
fn a_binding_is_described_as_it_is_written() {
    use utoipa::PartialSchema as _;

    let binding = serde_json::json!({"kind": "kv", "resource": "short-links", "access": "read"});
    let bindings: mfaas_ident::Bindings =
        serde_json::from_value(serde_json::json!({ "links": binding })).unwrap();
    assert_eq!(bindings_text(&bindings), "links (read kv short-links)");
    let calls: mfaas_ident::Bindings =
        serde_json::from_str(r#"{"rank": {"kind": "function", "function": "rank-eu"}}"#).unwrap();
    assert_eq!(bindings_text(&calls), "rank (call rank-eu)");
    assert_eq!(bindings_text(&mfaas_ident::Bindings::new()), "-");
    let described = serde_json::to_value(crate::schema::Binding::schema()).unwrap();
    for (bindings, name, form) in [(bindings, "links", 0), (calls, "rank", 1)] {
        let described = &described["anyOf"][form];
        let required = described["required"].as_array().unwrap();
        let written = serde_json::to_value(bindings).unwrap()[name].clone();
        let written = written.as_object().unwrap();
        assert!(required.len() == written.len(), "{described}");
        for (name, word) in written {
            assert!(required.contains(&name.as_str().into()), "{name}: {described}");
            let words = &described["properties"][name]["enum"];
            assert!(words.is_null() || words.as_array().unwrap().contains(word), "{name}: {described}");
        }
    }
}

#[test]
fn a_finding_is_drawn_in_the_look_of_rustc() {
    let finding = unsafe_finding().hint("Write it in safe Rust.");
    let expected = "\
error[MF0301]: `unsafe` is not available to functions
  --> src/lib.rs:12:5
   |
12 |     unsafe { *p }
   |     ^^^^^^
   |
   = help: Write it in safe Rust.
";
    assert_eq!(render::finding(&finding), expected);
}

#[test]
fn a_finding_without_a_place_is_a_headline_and_its_help() {
    let finding = Finding::new(codes::MF0108, Layer::Archive, "there is no Cargo.toml").hint("Add one.");
    assert_eq!(render::finding(&finding), "error[MF0108]: there is no Cargo.toml\n = help: Add one.\n");
}

#[test]
fn carets_stay_inside_the_line_whatever_the_span_says() {
    let mut span = SourceSpan {
        file: "src/lib.rs".to_owned(),
        line: 1,
        column: 4_000_000_000,
        end_column: 0,
        text: "\tä x".to_owned(),
    };
    let drawing = render::diagnostic(Level::Warning, "MF0301", "m", Some(&span), "");
    assert!(drawing.ends_with("1 |     ä x\n  |        ^\n"), "{drawing}");
    (span.column, span.end_column) = (2, 4_000_000_000);
    let drawing = render::diagnostic(Level::Error, "MF0301", "m", Some(&span), "");
    assert!(drawing.ends_with("  |     ^^^\n"), "tabs are four columns, ä is one: {drawing}");
}

#[test]
fn no_control_character_survives_a_drawing() {
    let span = SourceSpan {
        file: "src/\u{1b}[2J.rs".to_owned(),
        line: 1,
        column: 1,
        end_column: 2,
        text: "a\u{202e}\r\u{1b}]0;x\u{7}".to_owned(),
    };
    let drawing = render::diagnostic(Level::Error, "M\u{7}", "x\n\u{1b}[31m", Some(&span), "\u{9b}1m");
    let foreign = render::foreign("error\u{1b}[2K: \u{202e}x\n");
    for text in [drawing, foreign] {
        assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{text:?}");
    }
}

#[test]
fn a_problem_keeps_its_shape_on_the_wire() {
    let problem = Problem::new(codes::MF0204, "`rand\u{1b}[2J` is not on the allowlist.")
        .with_request_id("r1")
        .with_hint("")
        .with_review(Some(CrateName::parse("rand").unwrap()), "http://localhost:7700/crates");
    let json = serde_json::to_value(&problem).unwrap();
    assert_eq!(json["type"], "urn:mfaas:error:MF0204");
    assert_eq!(json["status"], 422);
    assert_eq!((&json["code"], &json["crate"]), (&"MF0204".into(), &"rand".into()));
    assert_eq!((&json["request_id"], &json["hint"]), (&"r1".into(), &codes::MF0204.hint().into()));
    assert!(!json["detail"].as_str().unwrap().contains('\u{1b}'));
    assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
    let bare = serde_json::to_value(Problem::new(codes::MF0909, "x")).unwrap();
    assert!(bare.get("crate").is_none() && bare.get("diagnostics").is_none(), "absent members are left out");
}

#[test]
fn layers_are_spelled_as_the_rules_spell_them() {
    let word = |layer| Diagnostic::from(&Finding::new(codes::MF0401, layer, "x")).layer;
    for layer in [Layer::Archive, Layer::DepInfo, Layer::ThrowawayLoad, Layer::Runtime] {
        assert_eq!(serde_json::to_value(layer).unwrap(), word(layer));
    }
    // Findings are kept under the older name, and shown under the new one.
    assert_eq!(word(Layer::Sandbox), "sandbox");
    assert_eq!(serde_json::to_value(Layer::Sandbox).unwrap(), "cage");
    for kept in ["cage", "sandbox"] {
        assert_eq!(serde_json::from_value::<Layer>(kept.into()).unwrap(), Layer::Sandbox);
    }
}

#[test]
fn words_of_nodes_and_crates_stay_as_they_are() {
    let states = [NodeState::Ready, NodeState::Behind, NodeState::Silent, NodeState::Joined];
    assert_eq!(states.map(NodeState::as_str), ["ready", "behind", "silent", "joined"]);
    let statuses = [CrateStatus::Allowed, CrateStatus::Denied, CrateStatus::Revoked, CrateStatus::Waiting];
    assert_eq!(statuses.map(CrateStatus::as_str), ["allowed", "denied", "revoked", "waiting"]);
}

#[test]
fn states_know_their_words_and_which_end_a_stream() {
    for &state in DeploymentState::ALL {
        assert_eq!(DeploymentState::parse(state.as_str()), Some(state));
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
    assert!(DeploymentState::Waiting.ends_stream() && !DeploymentState::Built.ends_stream());
}

#[test]
fn an_event_needs_only_what_it_has() {
    let event: Event = serde_json::from_str(
        r#"{"seq":3,"at":"2026-01-02T03:04:05Z","stage":"compile","kind":"finished","wall_ms":12,"cpu_ms":11.5}"#,
    )
    .unwrap();
    assert_eq!((event.wall_ms, event.cpu_ms, event.version), (Some(12.0), Some(11.5), None));
}

/// The longest text that a schema lets through is one that the type takes, and the next is not.
#[test]
fn schemas_have_the_bounds_of_the_types_that_parse() {
    use mfaas_ident::{
        AliasName, BindingName, BuildVersion, CrateName, FunctionName, NodeName, PersonName, ResourceName,
        ScheduleName, TenantName, TriggerName, VersionNumber,
    };
    use utoipa::PartialSchema as _;

    use crate::schema;

    let bound =
        |schema: serde_json::Value, key: &str| usize::try_from(schema[key].as_u64().unwrap()).unwrap();
    let fits = |parse: &dyn Fn(&str) -> bool, schema: utoipa::openapi::RefOr<utoipa::openapi::Schema>| {
        let longest = bound(serde_json::to_value(schema).unwrap(), "maxLength");
        assert!(parse(&"a".repeat(longest)) && !parse(&"a".repeat(longest + 1)) && !parse(""), "{longest}");
    };
    fits(&|text| TenantName::parse(text).is_ok(), schema::TenantName::schema());
    fits(&|text| FunctionName::parse(text).is_ok(), schema::FunctionName::schema());
    fits(&|text| AliasName::parse(text).is_ok(), schema::AliasName::schema());
    fits(&|text| NodeName::parse(text).is_ok(), schema::NodeName::schema());
    fits(&|text| ResourceName::parse(text).is_ok(), schema::ResourceName::schema());
    fits(&|text| BindingName::parse(text).is_ok(), schema::BindingName::schema());
    fits(&|text| ScheduleName::parse(text).is_ok(), schema::ScheduleName::schema());
    fits(&|text| TriggerName::parse(text).is_ok(), schema::TriggerName::schema());
    // It begins with a digit.
    let is_build = |text: &str| BuildVersion::parse(&text.replacen('a', "1", 1)).is_ok();
    fits(&is_build, schema::BuildVersion::schema());
    fits(&|text| CrateName::parse(text).is_ok(), schema::CrateName::schema());
    fits(&|text| PersonName::parse(text).is_ok(), schema::PersonName::schema());
    fits(&|text| mfaas_ident::Digest::parse(text).is_ok(), schema::Digest::schema());
    let version = serde_json::to_value(schema::VersionNumber::schema()).unwrap();
    let highest = u32::try_from(bound(version, "maximum")).unwrap();
    assert!(VersionNumber::new(highest).is_ok() && VersionNumber::new(highest + 1).is_err());
    let lists = serde_json::to_value(schema::KeyListVersion::schema()).unwrap();
    assert_eq!(bound(lists, "maximum"), usize::try_from(u32::MAX).unwrap());
    let scopes = serde_json::to_value(schema::Scope::schema()).unwrap();
    assert_eq!(scopes["enum"], serde_json::to_value(mfaas_ident::Scope::ALL).unwrap());
}

/// What is described as an object is read from no list of its fields.
#[test]
fn objects_in_a_body_are_objects() {
    use crate::{CastVote, ImportAdvisories, Object, RotateCallKey};

    let vote = |terms: &str| {
        let text = format!(r#"{{"approve":true,"note":"yes","terms":{terms}}}"#);
        serde_json::from_str::<Object<CastVote>>(&text)
    };
    assert!(vote("{}").unwrap().0.terms.is_some());
    assert!(vote("null").unwrap().0.terms.is_none());
    assert!(vote("[]").is_err() && vote("[null]").is_err() && vote("1").is_err());
    assert!(serde_json::from_str::<Object<CastVote>>(r#"[true,"yes"]"#).is_err());
    assert!(serde_json::from_str::<Object<RotateCallKey>>("[]").is_err());
    assert!(serde_json::from_str::<Object<RotateCallKey>>(r#"{"leaked":true,"leaked":true}"#).is_err());
    let advisories = |set: &str| {
        let text = format!(r#"{{"severity":"block","set":{set}}}"#);
        serde_json::from_str::<ImportAdvisories>(&text)
    };
    assert!(advisories(r#"{"advisories":[],"unread":[]}"#).is_ok());
    assert!(advisories("[[],[]]").is_err());
}

#[test]
fn whole_numbers_in_a_body_are_those_of_json_schema() {
    use crate::{CreateCallToken, MoveAlias};

    let version = |number: &str| {
        let text = format!(r#"{{"version":{number}}}"#);
        serde_json::from_str::<MoveAlias>(&text).ok().map(|body| body.version.get())
    };
    assert_eq!((version("7"), version("7.0"), version("7e2")), (Some(7), Some(7), Some(700)));
    assert_eq!(version("2147483647.0"), Some(2_147_483_647));
    for number in
        ["0", "0.0", "-1", "-1.0", "1.5", "2147483648", "2147483648.0", "4294967297.0", "1e400", "\"1\""]
    {
        assert_eq!(version(number), None, "{number}");
    }
    let rate = |number: &str| {
        let text = format!(r#"{{"functions":["pay"],"rate":{number}}}"#);
        serde_json::from_str::<CreateCallToken>(&text).ok().map(|body| body.rate)
    };
    assert_eq!((rate("3.0"), rate("null")), (Some(Some(3)), Some(None)));
    assert_eq!((rate("4294967295.0"), rate("4294967296.0")), (Some(Some(u32::MAX)), None));
    assert_eq!((rate("0.5"), rate("-1")), (None, None));
}
