//! What answers of the kernel mean. That it keeps its word is for the worker's tests, which ask it about a
//! process that has taken all controls.

use super::*;

#[test]
fn only_what_the_kernel_confirms_holds() {
    use SpeculationFeatureState as State;
    let holds = |state: State| settled(state).map(|settled| settled.is_ok());
    assert_eq!(holds(State::empty()), Some(true), "not affected");
    assert_eq!(holds(State::PRCTL | State::FORCE_DISABLE), Some(true));
    assert_eq!(holds(State::DISABLE), Some(true), "for all programs");
    assert_eq!(holds(State::ENABLE), Some(false), "always on");
    // What can be turned on again, by this process or by the program that it becomes, does not hold yet.
    assert_eq!(holds(State::PRCTL | State::ENABLE), None);
    assert_eq!(holds(State::PRCTL | State::DISABLE), None);
    assert_eq!(holds(State::PRCTL | State::DISABLE_NOEXEC), None);
}

#[test]
fn without_core_scheduling_only_single_threads_hold() {
    for (siblings, holds) in [(Some("0\n"), true), (Some("1\n"), false), (Some(""), false), (None, false)] {
        assert_eq!(without_cookie(siblings, Errno::INVAL).is_ok(), holds, "{siblings:?}");
    }
}
