//! What a crate needs counts as much as what it is.

use super::*;

fn need(report: &CrateReport) -> Need {
    Need { name: report.name.clone(), version: report.version.clone(), checksum: report.checksum }
}

#[test]
fn a_clean_closure_is_no_reason() {
    let below = clean("below", "0.3.0");
    let mut between = clean("between", "1.0.0");
    between.needs.push(need(&below));
    let mut top = clean("top", "1.0.0");
    top.needs.push(need(&between));
    let judgement = judge_with(&top, &[&between, &below], &advisories());
    assert_eq!(judgement.suggestion, Suggestion::AdmitAutomatically, "{:?}", judgement.reasons);
    let judgement = judge_with(&top, &[&between], &advisories());
    assert_eq!(risks_of(&judgement), [RiskClass::ClosureIncomplete], "what a dependency needs, too");
}

#[test]
fn other_bytes_under_the_same_name_are_another_crate() {
    let below = clean("below", "0.3.0");
    let mut top = clean("top", "1.0.0");
    top.needs.push(need(&below));
    let mut other = below.clone();
    other.checksum = Digest::of(b"other bytes");
    assert_eq!(risks_of(&judge_with(&top, &[&other], &advisories())), [RiskClass::ClosureIncomplete]);
}

#[test]
fn each_risk_of_a_dependency_is_one_of_the_crate() {
    for (what, risk, _, change) in super::risks::CHANGES {
        let mut below = clean("below", "1.2.3");
        change(&mut below);
        let mut top = clean("top", "1.0.0");
        top.needs.push(need(&below));
        let judgement = judge_with(&top, &[&below], &advisories());
        assert_eq!(judgement.suggestion, ONE, "{what}: its own counts are zeros");
        let incomplete = *risk == RiskClass::ClosureIncomplete;
        let named = judgement
            .reasons
            .iter()
            .any(|reason| reason.risk == RiskClass::Closure && reason.text.contains(risk.word()));
        assert!(named || incomplete, "{what}: {:?}", judgement.reasons);
    }
}

/// The rule refuses what an advisory names; what merely needs it waits for a person, who cannot allow
/// the refused one.
#[test]
fn a_refused_dependency_makes_a_crate_wait() {
    let below = clean("below", "1.0.0");
    let mut top = clean("top", "1.0.0");
    top.needs.push(need(&below));
    let mut known = advisories();
    known.advisories.push(advisory("below", AdvisoryKind::Malicious));
    assert_eq!(judge_with(&below, &[], &known).suggestion, Suggestion::Refuse);
    let judgement = judge_with(&top, &[&below], &known);
    assert_eq!((judgement.suggestion, risks_of(&judgement)), (ONE, vec![RiskClass::Closure]));
    assert!(judgement.reasons[0].text.contains("advisory-malicious"));
}
