#![allow(clippy::unwrap_used, reason = "tests")]

use mfaas_ident::{Access, AssetContent, Assets, Bindings, Budget, Class, Digest, MemoryLimit};

use crate::tests::{key, signed_as_it_is, statement, trust};
use crate::{Admission, AttestError, Fields, Purpose, Statement, sign, verify};

/// A function of class `micro` is not said to be one, so that its statement has the bytes that older nodes know; a bulk function's
/// has a critical field, which they refuse by name.
#[test]
fn only_a_bulk_function_says_its_class_and_within_its_class_a_statement_may_ask_for_more() {
    let key = key();
    let with = |class, budget: &str, memory: &str| {
        let fields = Some(Fields::new(Access::Token).with_class(class));
        let (budget_us, memory_bytes) = (Budget::parse(budget).unwrap(), MemoryLimit::parse(memory).unwrap());
        Statement::new(Admission { fields, budget_us, memory_bytes, ..statement().predicate })
    };
    let read = |statement: &Statement| {
        let document = serde_json::to_value(statement).unwrap();
        verify::<Statement>(&signed_as_it_is(&document, &key), &trust(Purpose::Artifact, &key))
    };
    let micro = with(Class::Micro, "10s", "256MiB");
    let fields = serde_json::to_value(&micro.predicate.fields).unwrap();
    assert_eq!(fields, serde_json::json!({"critical": {"access": "token"}}));
    assert_eq!(read(&micro).unwrap().predicate.declares().class, Class::Micro);

    let bulk = with(Class::Bulk, "600s", "1024MiB");
    let fields = serde_json::to_value(&bulk.predicate.fields).unwrap();
    assert_eq!(fields, serde_json::json!({"critical": {"access": "token", "class": "bulk"}}));
    let declared = serde_json::to_value(bulk.predicate.declared).unwrap();
    assert!(declared.get("class").is_none(), "it is said once: {declared}");
    assert_eq!(read(&bulk).unwrap().predicate.declares().class, Class::Bulk);

    for (budget, memory) in [("11s", "4MiB"), ("10ms", "257MiB")] {
        let refused = read(&with(Class::Micro, budget, memory));
        assert!(matches!(refused, Err(AttestError::Inconsistent { .. })), "{budget} {memory}: {refused:?}");
        assert!(read(&with(Class::Bulk, budget, memory)).is_ok());
    }
    for class in ["micro", "batch", ""] {
        let mut document = serde_json::to_value(&micro).unwrap();
        document["predicate"]["fields"]["critical"]["class"] = class.into();
        let refused = verify::<Statement>(&signed_as_it_is(&document, &key), &trust(Purpose::Artifact, &key));
        assert!(matches!(refused, Err(AttestError::Inconsistent { .. })), "{class:?}: {refused:?}");
    }
    let mut document = serde_json::to_value(&micro).unwrap();
    document["predicate"]["declared"]["class"] = "bulk".into();
    let refused = verify::<Statement>(&signed_as_it_is(&document, &key), &trust(Purpose::Artifact, &key));
    assert!(matches!(refused, Err(AttestError::Inconsistent { .. })), "{refused:?}");
}

/// Said of a function that reaches data alone: the statements of all others are what they were.
#[test]
fn what_data_a_function_reaches_is_a_critical_field() {
    let key = key();
    let binding = |access: &str| serde_json::json!({"kind": "kv", "resource": "orders", "access": access});
    let function = |name: &str| serde_json::json!({"kind": "function", "function": name});
    let (own, foreign) = (function("rank"), function("travel/rank"));
    let bindings = serde_json::json!({"a": binding("read"), "b": binding("write"), "c": own, "d": foreign});
    let bound: mfaas_ident::Bindings = serde_json::from_value(bindings.clone()).unwrap();
    let mut written = statement();
    written.predicate.fields = Some(Fields::new(Access::Token).with_bindings(&bound));
    let signed = sign(&written, &[&key]).unwrap();
    let read = verify::<Statement>(&signed, &trust(Purpose::Artifact, &key)).unwrap();
    assert_eq!(read.predicate.bound(), bound);
    let fields = serde_json::to_value(&read.predicate.fields).unwrap();
    assert_eq!(fields, serde_json::json!({"critical": {"access": "token", "bindings": bindings}}));
    let silent = Fields::new(Access::Token).with_bindings(&mfaas_ident::Bindings::new());
    assert_eq!(silent, Fields::new(Access::Token));
    assert!(statement().predicate.bound().is_empty());

    let many: serde_json::Map<_, _> = (0..17).map(|number| (format!("b{number}"), binding("read"))).collect();
    for wrong in [
        serde_json::json!({}),
        serde_json::json!([]),
        serde_json::json!(null),
        serde_json::json!({"a": binding("admin")}),
        serde_json::json!({"A": binding("read")}),
        serde_json::json!({"a": {"kind": "kv", "resource": "orders"}}),
        serde_json::json!({"a": {"kind": "file", "resource": "orders", "access": "read"}}),
        serde_json::json!({"a": {"kind": "kv", "resource": "orders", "access": "read", "more": 1}}),
        serde_json::json!({"a": {"kind": "kv", "function": "rank"}}),
        serde_json::json!({"a": {"kind": "function", "function": "other/rank/1"}}),
        serde_json::json!({"a": {"kind": "function", "function": "rank", "access": "read"}}),
        serde_json::Value::Object(many),
    ] {
        let mut document = serde_json::to_value(&written).unwrap();
        document["predicate"]["fields"]["critical"]["bindings"] = wrong.clone();
        let refused = verify::<Statement>(&signed_as_it_is(&document, &key), &trust(Purpose::Artifact, &key));
        let Err(AttestError::Inconsistent { reason }) = refused else { panic!("{wrong}: {refused:?}") };
        assert!(reason.contains("the data that the function may reach"), "{wrong}: {reason}");
    }
}

/// Said of a function that lets in other tenants' functions alone.
#[test]
fn which_tenants_functions_may_call_it_is_a_critical_field() {
    let key = key();
    let callers: mfaas_ident::Callers = ["bank", "shop"].map(|name| name.parse().unwrap()).into();
    let mut written = statement();
    written.predicate.fields = Some(Fields::new(Access::Token).with_callers(&callers));
    let signed = sign(&written, &[&key]).unwrap();
    let read = verify::<Statement>(&signed, &trust(Purpose::Artifact, &key)).unwrap();
    assert_eq!(read.predicate.callers(), callers);
    let fields = serde_json::to_value(&read.predicate.fields).unwrap();
    assert_eq!(fields, serde_json::json!({"critical": {"access": "token", "callers": ["bank", "shop"]}}));
    assert_eq!(Fields::new(Access::Token).with_callers(&Default::default()), Fields::new(Access::Token));
    assert!(statement().predicate.callers().is_empty());
    let many: Vec<String> = (0..33).map(|number| format!("t{number}")).collect();
    for wrong in [
        serde_json::json!([]),
        serde_json::json!({}),
        serde_json::json!(null),
        serde_json::json!("bank"),
        serde_json::json!(["*"]),
        serde_json::json!(["bank/pay"]),
        serde_json::json!(many),
    ] {
        let mut document = serde_json::to_value(&written).unwrap();
        document["predicate"]["fields"]["critical"]["callers"] = wrong.clone();
        let refused = verify::<Statement>(&signed_as_it_is(&document, &key), &trust(Purpose::Artifact, &key));
        let Err(AttestError::Inconsistent { reason }) = refused else { panic!("{wrong}: {refused:?}") };
        assert!(reason.contains("tenants whose functions may call it"), "{wrong}: {reason}");
    }
}

/// What a release to come may write: a restriction that this one does not know, and a remark.
#[test]
fn an_unknown_critical_field_is_refused_and_an_unknown_optional_one_kept() {
    let key = key();
    let good = serde_json::to_value(statement()).unwrap();
    let read = |fields: serde_json::Value| {
        let mut document = good.clone();
        document["predicate"]["fields"] = fields;
        verify::<Statement>(&signed_as_it_is(&document, &key), &trust(Purpose::Artifact, &key))
    };
    let remark = serde_json::json!({"team": {"name": "maps", "floor": 3}});
    let kept = read(serde_json::json!({"critical": {"access": "tenant"}, "optional": remark})).unwrap();
    let fields = kept.predicate.fields.clone().unwrap();
    assert_eq!(serde_json::to_value(fields.optional()).unwrap(), remark);
    assert_eq!(kept.predicate.declares().access(), Access::Tenant);
    let again = sign(kept.get(), &[&key]).unwrap();
    let again = verify::<Statement>(&again, &trust(Purpose::Artifact, &key)).unwrap();
    assert_eq!(again.get(), kept.get(), "signed again, it says the same");

    let refusal = |fields| match read(fields) {
        Err(AttestError::Inconsistent { reason }) => reason,
        other => panic!("{other:?}"),
    };
    let restricted = refusal(serde_json::json!({"critical": {"access": "token", "regions": ["eu"]}}));
    assert_eq!(restricted, "the critical field `regions` is not known to this release: update it");
    for (fields, why) in [
        (serde_json::json!({"critical": {}}), "who may call"),
        (serde_json::json!({"critical": {"access": "anybody"}}), "who may call"),
        (serde_json::json!({"critical": {"access": null}}), "who may call"),
        (serde_json::json!({"critical": {}, "optional": {"access": "public"}}), "who may call"),
        (
            serde_json::json!({"critical": {"access": "token"}, "optional": {"access": "public"}}),
            "critical and optional",
        ),
        (serde_json::json!({"critical": {"access": "token"}, "optional": {"Team": 1}}), "is called Team"),
        (serde_json::json!({"critical": {"access": "token"}, "optional": {"": 1}}), "is called"),
        (
            serde_json::json!({"critical": {"access": "token"}, "optional":
                (0..33).map(|n| ("a".repeat(n + 1), n)).collect::<std::collections::BTreeMap<_, _>>()}),
            "33 optional fields",
        ),
    ] {
        let said = refusal(fields.clone());
        assert!(said.contains(why), "{fields}: {said}");
    }
    for fields in [serde_json::json!(null), serde_json::json!({"critical": {"access": "token"}, "other": {}})]
    {
        assert!(matches!(read(fields), Err(AttestError::Malformed { .. })));
    }
}

/// The bytes of exactly the assets that are bound, and no more than a function of the class may have.
#[test]
fn a_statement_says_the_bytes_of_each_asset_that_is_bound() {
    let key = key();
    let bound = |kind: &str, access: &str| -> Bindings {
        let binding = serde_json::json!({"kind": kind, "resource": "model", "access": access});
        serde_json::from_value(serde_json::json!({ "model": binding })).unwrap()
    };
    let content = |bytes: u64| AssetContent { digest: Digest::of(b"model"), bytes };
    let said = |name: &str, bytes: u64| Assets::from([(name.parse().unwrap(), content(bytes))]);
    let read = |class: Class, bindings: &Bindings, assets: &Assets| {
        let fields = Fields::new(Access::Token).with_class(class).with_bindings(bindings).with_assets(assets);
        let statement = Statement::new(Admission { fields: Some(fields), ..statement().predicate });
        let document = serde_json::to_value(&statement).unwrap();
        verify::<Statement>(&signed_as_it_is(&document, &key), &trust(Purpose::Artifact, &key))
    };
    let (asset, most) = (bound("asset", "read"), Class::Micro.asset_bytes_max());
    let good = read(Class::Micro, &asset, &said("model", most)).unwrap();
    assert_eq!(good.predicate.assets(), said("model", most));
    assert!(read(Class::Bulk, &asset, &said("model", most + 1)).is_ok());
    assert!(read(Class::Micro, &bound("kv", "write"), &Assets::new()).unwrap().predicate.assets().is_empty());
    for (class, bindings, assets) in [
        (Class::Micro, &asset, Assets::new()),
        (Class::Micro, &asset, said("other", 1)),
        (Class::Micro, &asset, said("model", 0)),
        (Class::Micro, &asset, said("model", most + 1)),
        (Class::Bulk, &asset, said("model", Class::Bulk.asset_bytes_max() + 1)),
        (Class::Micro, &bound("asset", "write"), said("model", 1)),
        (Class::Micro, &bound("kv", "read"), said("model", 1)),
        (Class::Micro, &Bindings::new(), said("model", 1)),
    ] {
        let refused = read(class, bindings, &assets);
        assert!(
            matches!(refused, Err(AttestError::Inconsistent { .. })),
            "{bindings:?} {assets:?}: {refused:?}"
        );
    }
}
