use super::{Condition, Trouble, move_to_builder};

fn trouble(part: &str) -> Trouble {
    Trouble { part: part.to_owned(), cause: "No space left".to_owned() }
}

#[test]
fn what_the_server_says_of_builders_is_shown_with_the_builder() {
    let names = ["postgres", "server", "builder"];
    let both = || Condition::Degraded(vec![trouble("blobs"), trouble("builders")]);
    let mut conditions = [Condition::Runs, both(), Condition::Runs];
    move_to_builder(&names, &mut conditions);
    let degraded = |part| Condition::Degraded(vec![trouble(part)]);
    assert_eq!(conditions, [Condition::Runs, degraded("blobs"), degraded("builders")]);
    let mut conditions = [Condition::Runs, degraded("builders"), Condition::Runs];
    move_to_builder(&names, &mut conditions);
    assert_eq!(conditions, [Condition::Runs, Condition::Ready, degraded("builders")]);
    let mut conditions = [Condition::Runs, both(), Condition::Stopped];
    move_to_builder(&names, &mut conditions);
    assert_eq!(conditions, [Condition::Runs, both(), Condition::Stopped], "the kernel knows better");
    let mut conditions = [Condition::Runs, both()];
    move_to_builder(&names[..2], &mut conditions);
    assert_eq!(conditions[1], both(), "none runs here");
}

#[test]
fn a_degraded_program_is_not_well_and_says_so_to_programs() {
    let degraded = Condition::of(vec![trouble("blobs")]);
    assert!(!degraded.is_well() && Condition::of(Vec::new()).is_well());
    let json = serde_json::to_value(&degraded).unwrap_or_default();
    let expected =
        serde_json::json!({"is": "degraded", "why": [{"part": "blobs", "cause": "No space left"}]});
    assert_eq!(json, expected);
}
