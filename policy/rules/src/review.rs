//! One review of a crate: who may vote, how many votes it takes, and what ends it.
//!
//! The rules of people, as [`crate::judge_crate`] is the rule of facts. Pure: the catalog keeps the review in
//! rows and asks here what an act leads to; triggers of the database hold the same rules a second time.
//! Nothing here knows a name beyond whether it is the same as another.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_ident::{PersonName, TenantName};
use serde::{Deserialize, Serialize};

use crate::People;
use crate::profiles::std_items::Capability;

/// Where a review stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// Votes are missing.
    Open,
    /// The crate may be used, on the terms of the review.
    Approved,
    /// Somebody said no.
    Denied,
    /// It was approved and is no longer.
    Revoked,
    /// Nobody asks any more.
    Withdrawn,
}

impl ReviewState {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Open, Self::Approved, Self::Denied, Self::Revoked, Self::Withdrawn];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Revoked => "revoked",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// The state of that word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What a yes is for. Terms stand from the first vote on: the second one is about the same.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// The one tenant that may use it; everybody when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// What it is granted of the standard library beyond what a function has.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub grants: BTreeSet<Capability>,
    /// When the yes ends by itself, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

/// What a reviewer found at one hotspot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HotspotState {
    /// Nobody has looked yet, or somebody wants it to be looked at again.
    Unseen,
    /// Looked at.
    Seen,
    /// Sound, with the reason in the note.
    Justified,
    /// Not sound. While one hotspot is, nobody can approve.
    Unsound,
}

impl HotspotState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Unseen, Self::Seen, Self::Justified, Self::Unsound];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unseen => "unseen",
            Self::Seen => "seen",
            Self::Justified => "justified",
            Self::Unsound => "unsound",
        }
    }

    /// The state of that word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What somebody wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewAct {
    /// To vote. A yes names its terms.
    Vote {
        /// Who.
        person: PersonName,
        /// On these terms; `None` for a no.
        approve: Option<Terms>,
    },
    /// To say what is at a hotspot.
    Mark {
        /// Who.
        person: PersonName,
        /// Which hotspot.
        hotspot: String,
        /// What is there.
        state: HotspotState,
    },
    /// To revoke an approval.
    Revoke,
    /// To ask no longer.
    Withdraw,
}

/// Why an act is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReviewRefusal {
    /// It is decided.
    #[error("the review is {} and takes no more votes", .0.as_str())]
    NotOpen(ReviewState),
    /// Only an approval can be revoked.
    #[error("the review is {}, not approved", .0.as_str())]
    NotApproved(ReviewState),
    /// Whoever asks does not decide.
    #[error("the requester of a crate cannot decide about it")]
    Requester,
    /// One vote each.
    #[error("this person has voted already")]
    VotedAlready,
    /// Somebody found a hotspot unsound.
    #[error("a hotspot is marked unsound; say why it is not before anybody approves")]
    Unsound,
    /// Somebody has voted for other terms.
    #[error("another reviewer has approved other terms; approve the same, or deny")]
    OtherTerms,
}

/// A review, as far as its rules are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// How many votes it takes.
    pub people: People,
    /// Where it stands.
    pub state: ReviewState,
    /// Who asked for the crate.
    pub requesters: BTreeSet<PersonName>,
    /// Who has voted, and how.
    pub votes: BTreeMap<PersonName, bool>,
    /// The terms of the first yes.
    pub terms: Terms,
    /// Hotspots that are found unsound.
    pub unsound: BTreeSet<String>,
}

impl Review {
    /// A new question.
    pub fn new(people: People, requesters: impl IntoIterator<Item = PersonName>) -> Self {
        Self {
            people,
            state: ReviewState::Open,
            requesters: requesters.into_iter().collect(),
            votes: BTreeMap::new(),
            terms: Terms::default(),
            unsound: BTreeSet::new(),
        }
    }

    /// Does it, or says why not; then nothing has changed. Answers where the review stands now.
    pub fn act(&mut self, act: ReviewAct) -> Result<ReviewState, ReviewRefusal> {
        match act {
            ReviewAct::Vote { person, approve } => self.vote(person, approve)?,
            ReviewAct::Mark { person, hotspot, state } => self.mark(&person, hotspot, state)?,
            ReviewAct::Revoke => {
                if self.state != ReviewState::Approved {
                    return Err(ReviewRefusal::NotApproved(self.state));
                }
                self.state = ReviewState::Revoked;
            }
            ReviewAct::Withdraw => {
                self.must_be_open()?;
                self.state = ReviewState::Withdrawn;
            }
        }
        Ok(self.state)
    }

    fn must_be_open(&self) -> Result<(), ReviewRefusal> {
        if self.state == ReviewState::Open { Ok(()) } else { Err(ReviewRefusal::NotOpen(self.state)) }
    }

    fn vote(&mut self, person: PersonName, approve: Option<Terms>) -> Result<(), ReviewRefusal> {
        self.must_be_open()?;
        if self.requesters.contains(&person) {
            return Err(ReviewRefusal::Requester);
        }
        if self.votes.contains_key(&person) {
            return Err(ReviewRefusal::VotedAlready);
        }
        let Some(terms) = approve else {
            self.votes.insert(person, false);
            self.state = ReviewState::Denied;
            return Ok(());
        };
        if !self.unsound.is_empty() {
            return Err(ReviewRefusal::Unsound);
        }
        if !self.votes.is_empty() && terms != self.terms {
            return Err(ReviewRefusal::OtherTerms);
        }
        self.terms = terms;
        self.votes.insert(person, true);
        if self.votes.len() >= self.people.count() {
            self.state = ReviewState::Approved;
        }
        Ok(())
    }

    /// Whoever asked has no say here either: a mark that somebody found a hotspot unsound is not theirs to lift.
    fn mark(
        &mut self,
        person: &PersonName,
        hotspot: String,
        state: HotspotState,
    ) -> Result<(), ReviewRefusal> {
        self.must_be_open()?;
        if self.requesters.contains(person) {
            return Err(ReviewRefusal::Requester);
        }
        if state == HotspotState::Unsound {
            self.unsound.insert(hotspot);
        } else {
            self.unsound.remove(&hotspot);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
