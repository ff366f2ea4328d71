//! A call as it comes to the dispatcher, and its one answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mfaas_dispatch::{JobId, Outcome, Refusal};
use mfaas_ident::{FunctionName, Selector, TenantName};
use mfaas_ring::Completion;
use mfaas_rules::{Code, codes};
use tokio::sync::oneshot;

use super::table::Served;
use crate::grant::Grant;
use crate::limiter::Place;

/// The header by which a function sees its caller: `tenant/name` of a call token, `tenant/function/name` of a function that calls it,
/// `local` for a program that came through the local socket; a caller that showed nothing has none.
pub(crate) const CALLER: &str = "mfaas-caller";

/// One connection to the broker after another: none is 0, and none is the same again.
pub(crate) type ConnectionNumber = u64;

/// The one answer of an accepted call.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) outcome: Outcome,
    /// The output of the worker, but its log lines; present exactly when the outcome is `Finished`.
    pub(crate) completion: Option<Completion>,
    pub(crate) served: Arc<Served>,
    /// From the caller's coming to the worker.
    pub(crate) queued: Duration,
    /// From the worker to the answer, by this process's clock.
    pub(crate) ran: Duration,
    /// What the call used before it waited, if it did. The output of a worker has that in it.
    pub(crate) used: Used,
}

/// Who waits for an answer.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Somebody outside of the engine.
    Caller(oneshot::Sender<Result<Answered, CallError>>),
    /// Another call, which made this one.
    Parent(Box<Parent>),
}

/// A call that made another one and waits for it.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) job: JobId,
    /// What it calls the operation.
    pub(crate) operation: u32,
    /// Where the broker knows it, if it does.
    pub(crate) connection: Option<ConnectionNumber>,
    /// Gone when it waits no more.
    pub(crate) waits: Weak<()>,
    /// Calls that wait for each other, this one among them.
    pub(crate) depth: u32,
    pub(crate) lineage: Lineage,
    /// The function is another tenant's: what this one does is its own, and no part of the call that made it.
    pub(crate) is_foreign: bool,
    /// Among those that are open of its caller.
    pub(crate) _place: Place,
}

/// A call among those that made it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lineage(Arc<Ancestor>);

#[derive(Debug, Default)]
struct Ancestor {
    /// Something that it did, or one that it made, is there already and is not taken back: it does not run again.
    has_begun: AtomicBool,
    /// The call that made it, and whether that one waits.
    parent: Option<(Lineage, Weak<()>)>,
}

impl Lineage {
    /// Of a call that was made by that one.
    pub(crate) fn of(parent: Option<&Parent>) -> Self {
        let parent = parent.map(|parent| (parent.lineage.clone(), Weak::clone(&parent.waits)));
        Self(Arc::new(Ancestor { has_begun: AtomicBool::new(false), parent }))
    }

    /// From here on neither this call nor one that made it runs again.
    pub(crate) fn begin(&self) {
        let mut call = Some(self);
        while let Some(Self(ancestor)) = call {
            ancestor.has_begun.store(true, Ordering::Relaxed);
            call = ancestor.parent.as_ref().map(|(parent, _)| parent);
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.has_begun.load(Ordering::Relaxed)
    }

    /// Whether each of the calls that made this one waits for the next.
    fn is_awaited(&self) -> bool {
        let mut call = self;
        while let Some((parent, waits)) = &call.0.parent {
            if waits.strong_count() == 0 {
                return false;
            }
            call = parent;
        }
        true
    }
}

impl Reply {
    /// The call that made this one, if one did.
    pub(crate) fn parent(&self) -> Option<&Parent> {
        match self {
            Self::Caller(_) => None,
            Self::Parent(parent) => Some(parent),
        }
    }

    /// The call that what this one does is part of, if it is.
    pub(crate) fn joined(&self) -> Option<&Parent> {
        self.parent().filter(|parent| !parent.is_foreign)
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Caller(caller) => caller.is_closed(),
            Self::Parent(parent) => parent.waits.strong_count() == 0 || !parent.lineage.is_awaited(),
        }
    }
}

/// What parts of a call used, as workers said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Used {
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) memory_bytes: u64,
}

impl Used {
    /// Another part ended.
    pub(crate) fn add(&mut self, part: &Completion) {
        self.wall_ns = self.wall_ns.saturating_add(part.wall_ns);
        self.cpu_ns = self.cpu_ns.saturating_add(part.cpu_ns);
        self.memory_bytes = self.memory_bytes.max(part.memory_bytes);
    }

    /// The same of parts that are counted already.
    pub(crate) fn add_used(&mut self, other: &Self) {
        self.wall_ns = self.wall_ns.saturating_add(other.wall_ns);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
    }

    /// What the last part of a call reported, as what the whole call did that had used this before.
    pub(crate) fn before(mut self, last: Completion) -> Completion {
        self.add(&last);
        let Self { wall_ns, cpu_ns, memory_bytes } = self;
        Completion { wall_ns, cpu_ns, memory_bytes, ..last }
    }
}

/// What a call did that ran before, and did nothing since others had changed what it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Earlier {
    pub(crate) used: Used,
    pub(crate) ran: Duration,
}

/// Why an operation of a call was not done, in a sentence that its function hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotBegun {
    pub(crate) code: Code,
    pub(crate) message: &'static str,
}

impl NotBegun {
    pub(crate) const fn new(code: Code, message: &'static str) -> Self {
        Self { code, message }
    }

    /// The broker is away, or was when the call began, or too much waits for it.
    pub(crate) const AWAY: Self =
        Self::new(codes::MF1205, "the data broker of the node does not answer, or too much waits for it");
}

/// Why a call has no answer of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallError {
    /// No such tenant, function, alias or version here.
    Unknown,
    /// It is named by the set that the node is being brought to, or no set is in force yet.
    NotLoaded,
    /// Its request is larger than the version takes that is named now.
    TooLarge,
    /// The scheduler did not accept it.
    Refused(Refusal),
    /// It ran, and what it changed did not take effect, or nobody knows whether it did.
    NotCommitted(Code),
    /// The node is being drained.
    Draining,
    /// The dispatcher went away with the call; only while the process ends.
    Gone,
}

/// What a caller wants to have run, and on what terms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) tenant: &'a TenantName,
    pub(crate) function: &'a FunctionName,
    /// The version that `live` names if there is none.
    pub(crate) selector: Option<&'a Selector>,
    /// A call that waits longer for a worker is answered without running; the node's own limit holds
    /// if there is none.
    pub(crate) wait_max: Option<Duration>,
    /// What the caller may call. A version that it does not open is none.
    pub(crate) grant: Grant,
    pub(crate) way: Way,
}

/// How a call comes to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// In the hands of its caller if the engine is at rest.
    Direct,
    /// By the dispatcher's thread: for a caller with many calls on their way, whom none may hold up.
    Queued,
}
