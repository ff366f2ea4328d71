use super::codes;
use crate::{
    facts::{DepInfoFacts, ExpansionFact, ExpansionFacts, MacroOrigin, PrivilegedKind},
    judge_dep_info, judge_expansion,
};

fn origin(name: &str, kind: &str, own: bool) -> MacroOrigin {
    MacroOrigin { name: name.into(), kind: kind.into(), own, borrowed: false }
}

/// In a region that std emitted.
fn judged(
    kind: PrivilegedKind,
    chain: Vec<MacroOrigin>,
    tokens: &[&str],
    types: &[&str],
) -> Vec<&'static str> {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let fact = ExpansionFact::Privileged {
        kind,
        chain,
        by_std: true,
        tenant_tokens: owned(tokens),
        type_tokens: owned(types),
        span: None,
    };
    codes(&judge_expansion(&ExpansionFacts { facts: vec![fact], unreadable: None }))
}

#[test]
fn a_foreign_macro_may_not_emit_power() {
    let wrap = || vec![origin("dep::wrap", "Bang", false)];
    assert_eq!(judged(PrivilegedKind::Block, wrap(), &["p"], &[]), ["MF0308"]);
    assert_eq!(judged(PrivilegedKind::Block, wrap(), &[], &["T"]), ["MF0308"]);
    assert_eq!(judged(PrivilegedKind::Block, wrap(), &[], &[]), ["MF0308"]);
    assert_eq!(judged(PrivilegedKind::Assembly, wrap(), &[], &[]), ["MF0308"]);
    assert_eq!(judged(PrivilegedKind::ExternBlock, wrap(), &[], &[]), ["MF0308"]);
    assert_eq!(judged(PrivilegedKind::Attribute, wrap(), &[], &[]), ["MF0308"]);
}

#[test]
fn audited_macros_of_std_take_the_tenants_types_and_nothing_else() {
    let audited =
        vec![origin("thread_local", "Bang", false), origin("$crate::x::thread_local_inner", "Bang", false)];
    assert!(judged(PrivilegedKind::Block, audited.clone(), &[], &["RefCell"]).is_empty());
    assert_eq!(judged(PrivilegedKind::Block, audited.clone(), &["p"], &[]), ["MF0308"]);
    let mut own = audited;
    own.insert(0, origin("mine", "Bang", true));
    assert!(judged(PrivilegedKind::Block, own, &[], &["RefCell"]).is_empty());
    assert_eq!(judged(PrivilegedKind::Block, Vec::new(), &[], &[]), ["MF0308"]);
    assert_eq!(judged(PrivilegedKind::Block, vec![origin("mine", "Bang", true)], &[], &[]), ["MF0308"]);
    let hidden = vec![origin("dep::wrap", "Bang", false), origin("pin", "Bang", false)];
    assert_eq!(judged(PrivilegedKind::Block, hidden, &[], &["T"]), ["MF0308"]);
}

#[test]
fn a_borrowed_name_is_not_audited() {
    let mut chain = vec![origin("pin", "Bang", false)];
    assert!(judged(PrivilegedKind::Block, chain.clone(), &[], &["T"]).is_empty());
    chain[0].borrowed = true;
    assert_eq!(judged(PrivilegedKind::Block, chain, &[], &["T"]), ["MF0308"]);
}

#[test]
fn a_derive_answers_for_itself_in_any_crate() {
    use PrivilegedKind::{Attribute, Block, Impl, Trait};
    let through = |name: &str| vec![origin("dep::flags", "Bang", false), origin(name, "Derive", false)];
    assert!(judged(Impl, through("Clone"), &[], &["Mode"]).is_empty());
    assert!(judged(Block, through("PartialEq"), &[], &[]).is_empty());
    assert_eq!(judged(Impl, through("Clone"), &["Send"], &["Mode"]), ["MF0308"]);
    assert_eq!(judged(Trait, through("Clone"), &[], &[]), ["MF0308"]);
    assert_eq!(judged(Attribute, through("Clone"), &[], &[]), ["MF0308"]);
    // Not std's, or not the derive's: what the dependency's own derive or macro emits.
    assert_eq!(judged(Impl, through("Serialize"), &[], &["Mode"]), ["MF0308"]);
    assert_eq!(judged(Impl, through("$crate::Clone"), &[], &["Mode"]), ["MF0308"]);
    let mut inside = through("Clone");
    inside.push(origin("dep::more", "Bang", false));
    assert_eq!(judged(Impl, inside, &[], &["Mode"]), ["MF0308"]);
    let mut borrowed = through("Clone");
    borrowed[1].borrowed = true;
    assert_eq!(judged(Impl, borrowed, &[], &["Mode"]), ["MF0308"]);
}

#[test]
fn a_macro_of_another_crate_with_an_audited_name_is_not_audited() {
    let judged = |by_std| {
        let fact = ExpansionFact::Privileged {
            kind: PrivilegedKind::Block,
            chain: vec![origin("pin", "Bang", false)],
            by_std,
            tenant_tokens: Vec::new(),
            type_tokens: Vec::new(),
            span: None,
        };
        codes(&judge_expansion(&ExpansionFacts { facts: vec![fact], unreadable: None }))
    };
    assert_eq!(judged(false), ["MF0308"]);
    assert!(judged(true).is_empty());
}

#[test]
fn what_is_not_understood_is_refused() {
    let facts = ExpansionFacts { facts: Vec::new(), unreadable: Some("no table".into()) };
    assert_eq!(codes(&judge_expansion(&facts)), ["MF0312"]);
    let facts = DepInfoFacts { unreadable: Some("no colon".into()), ..DepInfoFacts::default() };
    assert_eq!(codes(&judge_dep_info(&facts, "/src", &[])), ["MF0311"]);
}

#[test]
fn the_compiler_reads_the_upload_and_nothing_else() {
    let read = |files: &[&str], variables: &[&str]| {
        let facts = DepInfoFacts {
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            variables: variables.iter().map(|name| (*name).to_owned()).collect(),
            unreadable: None,
        };
        codes(&judge_dep_info(&facts, "/src", &["/deps"]))
    };
    assert!(read(&["/src/src/lib.rs", "/deps/lib/libserde.rlib"], &[]).is_empty());
    // A file that is not `.rs` has passed no lexer, though it lies in the upload.
    for bad in [
        "/etc/passwd",
        "/srcs/lib.rs",
        "/src/../etc/passwd",
        "src/lib.rs",
        "/src",
        "/src/src/table.txt",
        "/src/evil.rlib",
    ] {
        assert_eq!(read(&[bad], &[]), ["MF0311"], "{bad}");
    }
    assert_eq!(read(&[], &["HOME"]), ["MF0311"]);
}
