#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use proptest::prelude::*;

use super::*;

/// Runs of the state machine; each has up to thirty acts.
const RUNS: u32 = 10_000;

fn person(number: u8) -> PersonName {
    PersonName::parse(&format!("person-{number}")).unwrap()
}

fn terms(number: u8) -> Terms {
    Terms { expires_at: (number > 0).then(|| i64::from(number)), ..Terms::default() }
}

fn acts() -> impl Strategy<Value = ReviewAct> {
    let vote = (0..5_u8, proptest::option::weighted(0.8, 0..2_u8))
        .prop_map(|(who, yes)| ReviewAct::Vote { person: person(who), approve: yes.map(terms) });
    let mark = (0..5_u8, 0..3_u8, prop::sample::select(HotspotState::ALL.to_vec())).prop_map(
        |(who, hotspot, state)| ReviewAct::Mark {
            person: person(who),
            hotspot: format!("lib.rs:{hotspot}"),
            state,
        },
    );
    prop_oneof![8 => vote, 4 => mark, 1 => Just(ReviewAct::Revoke), 1 => Just(ReviewAct::Withdraw)]
}

/// What an observer who only writes down accepted acts knows.
#[derive(Default)]
struct Observer {
    accepted: Vec<ReviewAct>,
}

impl Observer {
    fn votes(&self, yes: bool) -> Vec<(&PersonName, Option<&Terms>)> {
        let votes = self.accepted.iter().filter_map(|act| match act {
            ReviewAct::Vote { person, approve } => Some((person, approve.as_ref())),
            ReviewAct::Mark { .. } | ReviewAct::Revoke | ReviewAct::Withdraw => None,
        });
        votes.filter(|(_, terms)| terms.is_some() == yes).collect()
    }

    fn last_marks(&self) -> BTreeMap<&str, HotspotState> {
        let marks = self.accepted.iter().filter_map(|act| match act {
            ReviewAct::Mark { hotspot, state, .. } => Some((hotspot.as_str(), *state)),
            ReviewAct::Vote { .. } | ReviewAct::Revoke | ReviewAct::Withdraw => None,
        });
        marks.collect()
    }

    fn check(&self, review: &Review, requesters: &BTreeSet<PersonName>) {
        let (yes, no) = (self.votes(true), self.votes(false));
        let speakers: BTreeSet<_> = yes.iter().chain(&no).map(|(who, _)| *who).collect();
        assert_eq!(speakers.len(), yes.len() + no.len(), "one vote each");
        assert!(speakers.iter().all(|who| !requesters.contains(*who)), "whoever asks does not decide");
        let marks = self.accepted.iter().filter_map(|act| match act {
            ReviewAct::Mark { person, .. } => Some(person),
            ReviewAct::Vote { .. } | ReviewAct::Revoke | ReviewAct::Withdraw => None,
        });
        assert!(marks.into_iter().all(|who| !requesters.contains(who)), "nor lift what others have found");
        let decided = match review.state {
            ReviewState::Open => yes.len() < review.people.count() && no.is_empty(),
            ReviewState::Approved | ReviewState::Revoked => {
                yes.len() == review.people.count()
                    && no.is_empty()
                    && yes.iter().all(|(_, terms)| *terms == Some(&review.terms))
                    && self.last_marks().values().all(|state| *state != HotspotState::Unsound)
            }
            ReviewState::Denied => no.len() == 1,
            ReviewState::Withdrawn => self.accepted.last() == Some(&ReviewAct::Withdraw),
        };
        assert!(decided, "{review:?} after {:?}", self.accepted);
        assert_eq!(review.state == ReviewState::Revoked, self.accepted.contains(&ReviewAct::Revoke));
    }
}

fn may_follow(before: ReviewState, after: ReviewState) -> bool {
    before == after
        || before == ReviewState::Open && after != ReviewState::Revoked
        || (before, after) == (ReviewState::Approved, ReviewState::Revoked)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(RUNS))]

    #[test]
    fn no_run_of_acts_decides_with_a_vote_too_few(
        two in any::<bool>(), requester in 0..5_u8, acts in proptest::collection::vec(acts(), 0..30)
    ) {
        let people = if two { People::Two } else { People::One };
        let requesters = BTreeSet::from([person(requester)]);
        let mut review = Review::new(people, requesters.clone());
        let mut observer = Observer::default();
        for act in acts {
            let before = review.clone();
            match review.act(act.clone()) {
                Ok(state) => {
                    prop_assert_eq!(state, review.state);
                    observer.accepted.push(act);
                }
                Err(_) => prop_assert_eq!(&review, &before, "a refused act changes nothing"),
            }
            prop_assert!(may_follow(before.state, review.state));
            observer.check(&review, &requesters);
        }
    }
}

#[test]
fn unsafe_code_takes_two_who_did_not_ask() {
    let mut review = Review::new(People::Two, [person(0)]);
    let vote = |who| ReviewAct::Vote { person: person(who), approve: Some(Terms::default()) };
    assert_eq!(review.act(vote(0)), Err(ReviewRefusal::Requester));
    assert_eq!(review.act(vote(1)), Ok(ReviewState::Open));
    assert_eq!(review.act(vote(1)), Err(ReviewRefusal::VotedAlready));
    let other = ReviewAct::Vote { person: person(2), approve: Some(terms(1)) };
    assert_eq!(review.act(other), Err(ReviewRefusal::OtherTerms));
    let mark = |state| ReviewAct::Mark { person: person(2), hotspot: "lib.rs:1:1".to_owned(), state };
    review.act(mark(HotspotState::Unsound)).unwrap();
    assert_eq!(review.act(vote(2)), Err(ReviewRefusal::Unsound));
    let own = ReviewAct::Mark {
        person: person(0),
        hotspot: "lib.rs:1:1".to_owned(),
        state: HotspotState::Justified,
    };
    assert_eq!(review.act(own), Err(ReviewRefusal::Requester));
    review.act(mark(HotspotState::Justified)).unwrap();
    assert_eq!(review.act(vote(2)), Ok(ReviewState::Approved));
    assert_eq!(review.act(vote(3)), Err(ReviewRefusal::NotOpen(ReviewState::Approved)));
    assert_eq!(review.act(ReviewAct::Revoke), Ok(ReviewState::Revoked));
    assert_eq!(review.act(ReviewAct::Revoke), Err(ReviewRefusal::NotApproved(ReviewState::Revoked)));
}

#[test]
fn one_no_is_enough() {
    let mut review = Review::new(People::Two, []);
    let no = |who| ReviewAct::Vote { person: person(who), approve: None };
    assert_eq!(review.act(no(1)), Ok(ReviewState::Denied));
    assert_eq!(review.act(no(2)), Err(ReviewRefusal::NotOpen(ReviewState::Denied)));
}

#[test]
fn words_are_read_as_they_are_written() {
    for state in ReviewState::ALL {
        assert_eq!(ReviewState::parse(state.as_str()), Some(state));
    }
    for state in HotspotState::ALL {
        assert_eq!(HotspotState::parse(state.as_str()), Some(state));
    }
    assert_eq!((ReviewState::parse("Open"), HotspotState::parse("")), (None, None));
    let states = ["open", "approved", "denied", "revoked", "withdrawn"];
    assert_eq!(ReviewState::ALL.map(ReviewState::as_str), states);
    assert_eq!(HotspotState::ALL.map(HotspotState::as_str), ["unseen", "seen", "justified", "unsound"]);
}
