//! One risk at a time: each is enough, and is called by its name.

use super::*;

/// A change that adds a risk, the class that must be named, and what is to be done about it.
pub(super) type Change = (&'static str, RiskClass, Suggestion, fn(&mut CrateReport));

/// The same for what is worth knowing.
pub(super) type Note = (RiskClass, fn(&mut CrateReport));

pub(super) const CHANGES: &[Change] = &[
    ("old facts", RiskClass::FactsOutdated, ONE, |r| r.revision = FACTS_REVISION - 1),
    ("another name", RiskClass::Identity, ONE, |r| r.source.package = Some("other 1.0.0".to_owned())),
    ("no manifest", RiskClass::Identity, ONE, |r| r.source.package = None),
    ("geiger counts", RiskClass::UnsafeGeiger, TWO, |r| {
        let methods = Count { safe: 1, unsafe_: 1 };
        let counts = GeigerCounts { methods, ..GeigerCounts::default() };
        r.source.files[0].geiger = GeigerReport::Counted { counts, forbids_unsafe: false };
    }),
    ("geiger crashed", RiskClass::UnknownGeiger, TWO, |r| {
        r.source.files[0].geiger = GeigerReport::Unknown { reason: "it crashed".to_owned() };
    }),
    ("tokens", RiskClass::UnsafeTokens, TWO, |r| add_hotspot(r, HotspotKind::Unsafe)),
    ("foreign block", RiskClass::UnsafeTokens, TWO, |r| add_hotspot(r, HotspotKind::ExternBlock)),
    ("unreadable", RiskClass::UnknownTokens, TWO, |r| add_hotspot(r, HotspotKind::Unreadable)),
    ("a hotspot that was not counted", RiskClass::UnsafeTokens, TWO, |r| {
        let kind = HotspotKind::UnsafeAttribute;
        r.source.files[0].tokens.hotspots.push(Hotspot {
            kind,
            what: "#[x]".to_owned(),
            inside: None,
            span: span(),
        });
        r.source.summary.unsafe_code = UnsafeCode::Counted;
    }),
    ("no library", RiskClass::UnknownGeiger, TWO, |r| r.source.files[0].role = Role::Aside),
    ("no file of a library", RiskClass::UnknownTokens, TWO, |r| r.source.files[0].role = Role::BuildScript),
    ("compiler refuses", RiskClass::UnsafeCompiler, TWO, |r| {
        let hotspots =
            vec![CompilerHotspot { span: span(), message: "usage of an `unsafe` block".to_owned() }];
        r.compiler = CompilerVerdict::Unsafe { errors: 1, hotspots };
    }),
    ("compiler refuses nothing", RiskClass::UnsafeCompiler, TWO, |r| {
        r.compiler = CompilerVerdict::Unsafe { errors: 0, hotspots: Vec::new() };
    }),
    ("compiler failed", RiskClass::UnknownCompiler, TWO, |r| {
        r.compiler = CompilerVerdict::Failed { reason: "E0425".to_owned() };
    }),
    ("compiler not run", RiskClass::UnknownCompiler, TWO, |r| {
        r.compiler = CompilerVerdict::NotRun { reason: "no sandbox".to_owned() };
    }),
    ("the summary knows more", RiskClass::UnknownTokens, TWO, |r| {
        r.source.summary.unsafe_code = UnsafeCode::Unknown;
    }),
    ("build script", RiskClass::BuildScript, TWO, |r| r.kind.build_script = true),
    ("build script found", RiskClass::BuildScript, TWO, |r| r.source.build_script = true),
    ("procedural macro", RiskClass::ProcMacro, TWO, |r| r.kind.proc_macro = true),
    ("procedural macro found", RiskClass::ProcMacro, TWO, |r| r.source.proc_macro = true),
    ("macro with power", RiskClass::MacroPower, ONE, |r| add_macro(r, &[HotspotKind::Linkage], false, false)),
    ("macro passes attributes", RiskClass::MacroAttributes, ONE, |r| add_macro(r, &[], true, false)),
    ("macro wraps", RiskClass::MacroWrapsCaller, ONE, |r| add_macro(r, &[], false, true)),
    ("links", RiskClass::NativeLinks, ONE, |r| r.kind.links = Some("z".to_owned())),
    ("native source", RiskClass::NativeSource, ONE, |r| r.archive.native_sources.push("a.c".to_owned())),
    ("ELF", RiskClass::Binary, ONE, |r| add_binary(r, BinaryKind::Elf)),
    ("unknown binary", RiskClass::Binary, ONE, |r| add_binary(r, BinaryKind::Unknown)),
    ("copyleft", RiskClass::LicenceNotPermitted, ONE, |r| set_licence(r, Some("GPL-3.0-only"))),
    ("no licence", RiskClass::LicenceUnknown, ONE, |r| set_licence(r, None)),
    ("files", RiskClass::ApiFs, ONE, |r| add_touch(r, ApiClass::Fs)),
    ("network", RiskClass::ApiNet, ONE, |r| add_touch(r, ApiClass::Net)),
    ("processes", RiskClass::ApiProcess, ONE, |r| add_touch(r, ApiClass::Process)),
    ("environment", RiskClass::ApiEnv, ONE, |r| add_touch(r, ApiClass::Env)),
    ("standard output", RiskClass::ApiStdio, ONE, |r| add_touch(r, ApiClass::Stdio)),
    ("threads", RiskClass::ApiThread, ONE, |r| add_touch(r, ApiClass::Thread)),
    ("a hole's shape", RiskClass::SoundnessShape, ONE, |r| {
        let text = "`f`: what it implies".to_owned();
        r.shapes.shapes.push(ShapeHotspot { lint: "a_lint".to_owned(), text, span: Some(span()) });
    }),
    ("unread shapes", RiskClass::Unread, ONE, |r| r.shapes.unread.push("too long".to_owned())),
    ("yanked", RiskClass::Yanked, ONE, |r| r.yanked = Some(true)),
    ("yanked or not", RiskClass::YankedUnknown, ONE, |r| r.yanked = None),
    ("invisible", RiskClass::Invisible, ONE, |r| add_hotspot(r, HotspotKind::Invisible)),
    ("OUT_DIR", RiskClass::OutDir, ONE, |r| add_hotspot(r, HotspotKind::OutDir)),
    ("unread source", RiskClass::Unread, TWO, |r| r.source.unread.push("a link".to_owned())),
    ("unread archive", RiskClass::Unread, ONE, |r| r.archive.unread.push("a link".to_owned())),
    ("unread paths", RiskClass::Unread, ONE, |r| r.touches.unread.push("too many".to_owned())),
    ("unknown dependency", RiskClass::ClosureIncomplete, ONE, |r| {
        let checksum = Digest::of(b"x");
        r.needs.push(Need { name: name("dep"), version: version("1.0.0"), checksum });
    }),
];

/// What is shown and stops nothing.
pub(super) const NOTES: &[Note] = &[
    (RiskClass::ApiTime, |r| add_touch(r, ApiClass::Time)),
    (RiskClass::ApiGlobalState, |r| add_touch(r, ApiClass::GlobalState)),
    (RiskClass::Include, |r| add_hotspot(r, HotspotKind::Include)),
    (RiskClass::Include, |r| add_hotspot(r, HotspotKind::ModulePath)),
    (RiskClass::BuildInput, |r| add_hotspot(r, HotspotKind::BuildInput)),
    (RiskClass::WordInLiteral, |r| add_hotspot(r, HotspotKind::WordInLiteral)),
    (RiskClass::Quote, |r| add_hotspot(r, HotspotKind::Quote)),
];

fn add_hotspot(report: &mut CrateReport, kind: HotspotKind) {
    let file = &mut report.source.files[0];
    *file.tokens.counts.entry(kind).or_default() += 1;
    file.tokens.hotspots.push(Hotspot { kind, what: "there".to_owned(), inside: None, span: span() });
}

fn add_macro(report: &mut CrateReport, powers: &[HotspotKind], passes_attributes: bool, wraps_caller: bool) {
    report.source.exported_macros.push(ExportedMacro {
        name: "m".to_owned(),
        powers: powers.to_vec(),
        passes_attributes,
        wraps_caller,
        span: span(),
    });
}

fn add_binary(report: &mut CrateReport, kind: BinaryKind) {
    report.archive.binaries.push(BinaryFile { path: "tests/blob".to_owned(), kind });
}

fn add_touch(report: &mut CrateReport, class: ApiClass) {
    let hotspots = vec![ApiHotspot { path: "std::somewhere".to_owned(), span: span() }];
    report.touches.classes.push(ApiTouch { class, count: 1, hotspots });
}

fn set_licence(report: &mut CrateReport, expression: Option<&str>) {
    report.licence.expression = expression.map(str::to_owned);
}

#[test]
fn a_crate_with_nothing_to_say_against_it_needs_no_person() {
    let judgement = judge_alone(&clean("plain", "1.2.3"));
    assert_eq!(judgement.suggestion, Suggestion::AdmitAutomatically);
    assert_eq!(judgement.reasons, []);
    assert_eq!(judgement.rules_revision, RULES_REVISION);
}

#[test]
fn each_risk_alone_is_enough_and_has_its_name() {
    for (what, risk, suggestion, change) in CHANGES {
        let mut report = clean("plain", "1.2.3");
        change(&mut report);
        let only_in_summary = report.source.summary != clean("plain", "1.2.3").source.summary;
        let summary_made_anew = if only_in_summary { report.clone() } else { summarised(report.clone()) };
        for report in [report, summary_made_anew] {
            let judgement = judge_alone(&report);
            assert!(risks_of(&judgement).contains(risk), "{what}: {:?}", judgement.reasons);
            assert_eq!(judgement.suggestion, *suggestion, "{what}: {:?}", judgement.reasons);
        }
    }
}

#[test]
fn notes_are_shown_and_stop_nothing() {
    for (risk, change) in NOTES {
        let mut report = clean("plain", "1.2.3");
        change(&mut report);
        let judgement = judge_alone(&summarised(report));
        assert_eq!(risks_of(&judgement), [*risk]);
        assert_eq!(judgement.suggestion, Suggestion::AdmitAutomatically, "{risk:?}");
    }
}

/// A class that no change brings forth, and no advisory or audit, would be a row that nobody needs.
#[test]
fn every_class_has_a_case() {
    let outside = [
        RiskClass::AdvisoryMalicious,
        RiskClass::AdvisoryUnsound,
        RiskClass::AdvisoryVulnerability,
        RiskClass::AdvisoryUnmaintained,
        RiskClass::AdvisoryNotice,
        RiskClass::AdvisoriesUnread,
        RiskClass::AuditViolation,
        RiskClass::AuditsUnread,
        RiskClass::Closure,
    ];
    for class in RiskClass::ALL {
        let changed = CHANGES.iter().any(|(_, risk, _, _)| risk == class);
        let noted = NOTES.iter().any(|(risk, _)| risk == class);
        assert!(changed || noted || outside.contains(class), "{class:?}");
    }
}

#[test]
fn no_file_at_all_is_no_zero() {
    let mut report = clean("plain", "1.2.3");
    report.source.files.clear();
    assert_eq!(judge_alone(&report).suggestion, TWO);
}

#[test]
fn what_lies_aside_is_not_judged() {
    let mut report = clean("plain", "1.2.3");
    let mut aside = file(Role::Aside);
    aside.geiger = GeigerReport::Unknown { reason: "it crashed".to_owned() };
    aside.tokens.counts.insert(HotspotKind::Unsafe, 3);
    aside.tokens.counts.insert(HotspotKind::Invisible, 3);
    report.source.files.push(aside);
    assert_eq!(judge_alone(&summarised(report)).suggestion, Suggestion::AdmitAutomatically);
}

#[test]
fn hostile_text_is_shown_sanitised() {
    let mut report = clean("plain", "1.2.3");
    report.licence.expression = Some("MIT\u{202e}\u{1b}[2J".to_owned());
    report.compiler = CompilerVerdict::Failed { reason: "\u{202e}".repeat(10_000) };
    for reason in judge_alone(&report).reasons {
        assert!(!reason.text.contains(['\u{202e}', '\u{1b}']), "{}", reason.text);
        assert!(reason.text.len() <= crate::limits::CRATE_RULES.text_bytes_max + '…'.len_utf8());
    }
}

#[test]
fn a_judgement_survives_json_and_people_are_a_number() {
    let mut report = clean("plain", "1.2.3");
    report.compiler = CompilerVerdict::NotRun { reason: "no sandbox".to_owned() };
    let judgement = judge_alone(&report);
    let json = serde_json::to_value(&judgement).unwrap();
    assert_eq!(json["suggestion"]["review"]["people"], 2);
    assert_eq!(json["reasons"][0]["risk"], "unknown-compiler");
    assert_eq!(serde_json::from_value::<CrateJudgement>(json).unwrap(), judgement);
    let report_again: CrateReport = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(report_again, report);
    assert!(serde_json::from_str::<People>("3").is_err());
}
