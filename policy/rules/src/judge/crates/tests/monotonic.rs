//! Whatever is added to what is known about a crate, it is never nearer to admission than before.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::risks::{CHANGES, NOTES};
use super::*;

/// One more thing that is known.
#[derive(Debug, Clone)]
enum More {
    /// A change of the crate's own facts, by its number.
    Own(Index),
    Note(Index),
    /// Another crate in the closure, with a change.
    Member(Index, bool),
    Advisory(AdvisoryKind, bool),
    UnreadAdvisory(bool),
    Audit(bool, bool),
    UnreadAudits,
}

#[derive(Debug, Clone)]
struct Known {
    report: CrateReport,
    closure: Vec<CrateReport>,
    advisories: AdvisorySet,
    audits: AuditSet,
}

impl Known {
    fn new() -> Self {
        let (report, audits) = (clean("plain", "1.2.3"), AuditSet::default());
        Self { report, closure: Vec::new(), advisories: advisories(), audits }
    }

    fn add(&mut self, more: &More) {
        match more {
            More::Own(index) => index.get(CHANGES).3(&mut self.report),
            More::Note(index) => index.get(NOTES).1(&mut self.report),
            More::Member(index, needed) => self.member(*index, *needed),
            More::Advisory(kind, about) => {
                let package = if *about { "plain" } else { "other" };
                self.advisories.advisories.push(advisory(package, *kind));
            }
            More::UnreadAdvisory(about) => {
                let package = about.then(|| name("plain"));
                self.advisories.unread.push(UnreadAdvisory { package, reason: "cut off".to_owned() });
            }
            More::Audit(violation, about) => self.audit(*violation, *about),
            More::UnreadAudits => self.audits.unread.push("cut off".to_owned()),
        }
    }

    fn member(&mut self, index: Index, needed: bool) {
        let mut member = clean(&format!("member{}", self.closure.len()), "1.2.3");
        index.get(CHANGES).3(&mut member);
        if needed {
            let (name, version, checksum) = (member.name.clone(), member.version.clone(), member.checksum);
            self.report.needs.push(Need { name, version, checksum });
        }
        self.closure.push(member);
    }

    fn audit(&mut self, violation: bool, about: bool) {
        let kind = match violation {
            true => AuditKind::Violation { versions: semver::VersionReq::STAR },
            false => AuditKind::Full { version: version("1.2.3") },
        };
        self.audits.audits.push(ImportedAudit {
            source: "mozilla".to_owned(),
            package: name(if about { "plain" } else { "other" }),
            kind,
            criteria: vec!["safe-to-deploy".to_owned()],
            who: Vec::new(),
            notes: None,
        });
    }

    fn judge(&self) -> CrateJudgement {
        let closure: Vec<&CrateReport> = self.closure.iter().collect();
        let outside = Outside { advisories: &self.advisories, audits: &self.audits };
        judge_crate(&self.report, &closure, outside)
    }
}

fn more() -> impl Strategy<Value = More> {
    let kinds = vec![
        AdvisoryKind::Malicious,
        AdvisoryKind::Unsound,
        AdvisoryKind::Vulnerability,
        AdvisoryKind::Unmaintained,
        AdvisoryKind::Notice,
    ];
    prop_oneof![
        6 => any::<Index>().prop_map(More::Own),
        2 => any::<Index>().prop_map(More::Note),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(index, needed)| More::Member(index, needed)),
        1 => (select(kinds), any::<bool>()).prop_map(|(kind, about)| More::Advisory(kind, about)),
        1 => any::<bool>().prop_map(More::UnreadAdvisory),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(violation, about)| More::Audit(violation, about)),
        1 => Just(More::UnreadAudits),
    ]
}

fn silent(report: &CrateReport) -> bool {
    let compiler = matches!(report.compiler, CompilerVerdict::Failed { .. } | CompilerVerdict::NotRun { .. });
    let geiger = |file: &FileFacts| matches!(file.geiger, GeigerReport::Unknown { .. });
    let source = &report.source;
    compiler
        || source.files.iter().any(geiger)
        || source.summary.unsafe_code == UnsafeCode::Unknown
        || !source.unread.is_empty()
        || !report.touches.unread.is_empty()
        || report.yanked.is_none()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn more_knowledge_of_risks_never_leads_towards_admission(steps in prop::collection::vec(more(), 1..12)) {
        let mut known = Known::new();
        let mut before = known.judge();
        prop_assert_eq!(before.suggestion, Suggestion::AdmitAutomatically);
        for step in &steps {
            known.add(step);
            let after = known.judge();
            prop_assert!(after.suggestion >= before.suggestion, "{:?}: {:?} then {:?}", step, before, after);
            before = after;
        }
    }

    #[test]
    fn a_missing_answer_is_never_an_admission(steps in prop::collection::vec(more(), 1..12)) {
        let mut known = Known::new();
        steps.iter().for_each(|step| known.add(step));
        let judgement = known.judge();
        let anyone_silent = silent(&known.report) || known.closure.iter().any(silent);
        if anyone_silent || !known.advisories.unread.iter().all(|unread| unread.package.is_some()) {
            prop_assert!(judgement.suggestion > Suggestion::AdmitAutomatically);
        }
        if silent_about_unsafe(&known.report) {
            prop_assert!(judgement.suggestion >= TWO);
        }
    }

    /// No verdict depends on the order of its input.
    #[test]
    fn the_order_of_what_is_known_changes_nothing(steps in prop::collection::vec(more(), 1..8)) {
        let mut known = Known::new();
        steps.iter().for_each(|step| known.add(step));
        let first = known.judge();
        known.closure.reverse();
        known.report.needs.reverse();
        known.report.touches.classes.reverse();
        known.report.source.exported_macros.reverse();
        known.advisories.advisories.reverse();
        known.audits.audits.reverse();
        prop_assert_eq!(known.judge(), first);
    }
}

fn silent_about_unsafe(report: &CrateReport) -> bool {
    let compiler = matches!(report.compiler, CompilerVerdict::Failed { .. } | CompilerVerdict::NotRun { .. });
    compiler || report.source.files.iter().any(|file| matches!(file.geiger, GeigerReport::Unknown { .. }))
}
