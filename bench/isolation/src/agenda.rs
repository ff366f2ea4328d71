//! What will happen, in the order of its time; what was planned first comes first of what is due at the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds since the simulation began.
pub(crate) type Ns = u64;

/// A thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A query reaches the cluster.
    Arrival,
    /// A thread of the primary has work.
    Wake {
        /// Which machine.
        machine: u16,
        /// Which thread.
        thread: u32,
    },
    /// What runs on a core has done its burst, or its time slice is over.
    Timer {
        /// Which machine.
        machine: u16,
        /// Which core.
        core: u8,
        /// The setting of the timer; one that was set anew is not this one.
        setting: u32,
    },
    /// The controller looks at its machine.
    Poll {
        /// Which machine.
        machine: u16,
    },
    /// Cores of the secondary are these from now on.
    Apply {
        /// Which machine.
        machine: u16,
        /// A bit for each core.
        cores: u64,
    },
}

/// Events to come.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    events: BinaryHeap<Reverse<(Ns, u64, Event)>>,
    planned: u64,
}

impl Agenda {
    /// Plans an event.
    pub(crate) fn at(&mut self, time: Ns, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((time, self.planned, event)));
    }

    /// The next event with its time.
    pub(crate) fn next(&mut self) -> Option<(Ns, Event)> {
        self.events.pop().map(|Reverse((time, _, event))| (time, event))
    }
}
