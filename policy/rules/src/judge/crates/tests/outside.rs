//! Advisories and other people's audits.

use super::*;

fn audit(source: &str, package: &str, kind: AuditKind, criteria: &[&str]) -> ImportedAudit {
    ImportedAudit {
        source: source.to_owned(),
        package: name(package),
        kind,
        criteria: criteria.iter().map(|text| (*text).to_owned()).collect(),
        who: vec!["A Reviewer".to_owned()],
        notes: None,
    }
}

fn with_audits(report: &CrateReport, audits: Vec<ImportedAudit>) -> CrateJudgement {
    let set = AuditSet { audits, ..AuditSet::default() };
    judge_crate(report, &[], Outside { advisories: &advisories(), audits: &set })
}

#[test]
fn each_kind_of_advisory_has_its_effect() {
    let expected = [
        (AdvisoryKind::Malicious, RiskClass::AdvisoryMalicious, Suggestion::Refuse),
        (AdvisoryKind::Unsound, RiskClass::AdvisoryUnsound, Suggestion::Refuse),
        (AdvisoryKind::Vulnerability, RiskClass::AdvisoryVulnerability, Suggestion::Refuse),
        (AdvisoryKind::Unmaintained, RiskClass::AdvisoryUnmaintained, ONE),
        (AdvisoryKind::Notice, RiskClass::AdvisoryNotice, ONE),
    ];
    for (kind, risk, suggestion) in expected {
        let mut known = advisories();
        known.advisories.push(advisory("a_name", kind));
        for spelling in ["a_name", "a-name", "A-Name"] {
            let judgement = judge_with(&clean(spelling, "1.0.0"), &[], &known);
            assert_eq!((risks_of(&judgement), judgement.suggestion), (vec![risk], suggestion));
            assert_eq!(judgement.reasons[0].text, "RUSTSEC-2000-0001: what it is about");
        }
        assert_eq!(
            judge_with(&clean("aname", "1.0.0"), &[], &known).suggestion,
            Suggestion::AdmitAutomatically
        );
        known.advisories[1].withdrawn = true;
        assert_eq!(judge_with(&clean("a_name", "1.0.0"), &[], &known).reasons, []);
    }
}

#[test]
fn advisories_that_were_not_read_are_not_advisories_that_do_not_exist() {
    let report = clean("plain", "1.0.0");
    let nothing = AdvisorySet { advisories: Vec::new(), unread: Vec::new() };
    for known in [nothing, AdvisorySet::missing("no directory")] {
        let judgement = judge_with(&report, &[], &known);
        assert_eq!((risks_of(&judgement), judgement.suggestion), (vec![RiskClass::AdvisoriesUnread], ONE));
    }
    let unread = |package: Option<&str>| {
        let unread = UnreadAdvisory { package: package.map(name), reason: "cut off".to_owned() };
        AdvisorySet { unread: vec![unread], ..advisories() }
    };
    for package in [None, Some("plain"), Some("PLAIN")] {
        assert_eq!(judge_with(&report, &[], &unread(package)).suggestion, ONE, "{package:?}");
    }
    let other = judge_with(&report, &[], &unread(Some("other")));
    assert_eq!(other.suggestion, Suggestion::AdmitAutomatically);
}

#[test]
fn no_audit_of_anyone_satisfies_anything() {
    let mut report = clean("plain", "1.2.3");
    report.compiler = CompilerVerdict::NotRun { reason: "no sandbox".to_owned() };
    let alone = judge_alone(&report);
    let everything: Vec<ImportedAudit> = ["mozilla", "google", "bytecode-alliance", "somebody"]
        .iter()
        .map(|source| {
            let kind = AuditKind::Full { version: version("1.2.3") };
            audit(
                source,
                "plain",
                kind,
                &["safe-to-deploy", "safe-to-run", "ub-risk-0", "ub-risk-2", "hostile-caller"],
            )
        })
        .collect();
    let judged = with_audits(&report, everything);
    assert_eq!((judged.suggestion, &judged.reasons), (alone.suggestion, &alone.reasons));
    let trust: Vec<Trust> = judged.hints.iter().map(|hint| hint.trust).collect();
    assert_eq!(trust, [Trust::Careful, Trust::Careful, Trust::Careful, Trust::Unknown]);
}

#[test]
fn hints_about_this_version_come_first() {
    let (from, to) = (version("1.2.2"), version("1.2.3"));
    let audits = vec![
        audit("mozilla", "plain", AuditKind::Full { version: version("1.0.0") }, &["safe-to-deploy"]),
        audit("somebody", "plain", AuditKind::Delta { from, to }, &["safe-to-run"]),
        audit("mozilla", "other", AuditKind::Full { version: version("1.2.3") }, &["safe-to-deploy"]),
    ];
    let hints = with_audits(&clean("plain", "1.2.3"), audits).hints;
    let shown: Vec<(bool, &str)> =
        hints.iter().map(|hint| (hint.this_version, hint.audit.source.as_str())).collect();
    assert_eq!(shown, [(true, "somebody"), (false, "mozilla")]);
}

#[test]
fn a_violation_refuses_and_an_unread_file_may_hold_one() {
    let violation = |text: &str| AuditKind::Violation { versions: semver::VersionReq::parse(text).unwrap() };
    for (versions, suggestion) in [
        ("*", Suggestion::Refuse),
        ("<1.2.4", Suggestion::Refuse),
        ("=1.2.3", Suggestion::Refuse),
        ("<1.2.3", Suggestion::AdmitAutomatically),
        (">=1.3", Suggestion::AdmitAutomatically),
    ] {
        let judged = with_audits(
            &clean("plain", "1.2.3"),
            vec![audit("somebody", "plain", violation(versions), &["safe-to-run"])],
        );
        assert_eq!(judged.suggestion, suggestion, "{versions}: {:?}", judged.reasons);
        assert!(judged.reasons.iter().all(|reason| reason.risk == RiskClass::AuditViolation));
    }
    let before = clean("plain", "1.2.4-beta");
    let judged = with_audits(&before, vec![audit("a", "plain", violation("<1.2.4"), &["safe-to-run"])]);
    assert_eq!(judged.suggestion, Suggestion::Refuse, "a pre-release comes before its version");
    let set = AuditSet { unread: vec!["audits.toml: cut off".to_owned()], ..AuditSet::default() };
    let outside = Outside { advisories: &advisories(), audits: &set };
    assert_eq!(judge_crate(&clean("plain", "1.2.3"), &[], outside).suggestion, ONE);
}
