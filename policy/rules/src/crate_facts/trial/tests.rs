use super::*;

#[test]
fn what_is_granted_is_not_missing_and_real_is_everything() {
    let needs = BTreeSet::from([Capability::Abort, Capability::Threads]);
    let trial = TrialBuild::Compiles { needs: needs.clone() };
    assert_eq!(trial.missing(&BTreeSet::new()), needs);
    assert_eq!(trial.missing(&BTreeSet::from([Capability::Abort])), BTreeSet::from([Capability::Threads]));
    assert!(trial.missing(&needs).is_empty());
    assert!(trial.missing(&BTreeSet::from([Capability::Real])).is_empty());
    let real = TrialBuild::Compiles { needs: BTreeSet::from([Capability::Real]) };
    assert_eq!(real.missing(&needs), BTreeSet::from([Capability::Real]));
    let fails = TrialBuild::Fails { reason: "E0432".to_owned() };
    assert!(fails.missing(&BTreeSet::new()).is_empty());
    assert!(fails.objection(&needs).is_some_and(|text| text.contains("E0432")));
    let said = trial.objection(&BTreeSet::from([Capability::Abort]));
    assert!(said.is_some_and(|text| text.ends_with("granted threads")));
    assert_eq!(trial.objection(&needs), None);
    assert_eq!(TrialBuild::NotRun { reason: String::new() }.objection(&BTreeSet::new()), None);
}
