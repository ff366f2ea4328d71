//! The scheduler of one simulated machine.
//!
//! What is modelled:
//! - each core has a queue, and what runs keeps the core until it blocks or its time slice ends while others
//!   wait behind it; nothing is preempted by a wake-up;
//! - a thread that wakes up takes the core that it ran on last if that is idle, else any idle core; if there is
//!   none it waits in the queue of its last core, or in the shortest one if it has not run yet;
//! - a thread of the primary waits where it is queued: idle cores take nothing from the queues of others, which is
//!   the worst that a kernel does (it balances now and then); with `balances` they do at once, which is the best;
//! - threads of the secondary run on the cores that are lent to it and never block; when a core is taken away,
//!   what runs there is off it in the same moment (the delay is the controller's) and waits for another.
//!
//! What is not: caches, threads of one physical core, frequencies, interrupts, the cost of a switch.

use std::collections::VecDeque;

use rand::rngs::SmallRng;

use crate::agenda::{Agenda, Event, Ns};

/// A time slice in nanoseconds: `base_slice_ns` and its predecessor of Linux on machines of eight cores and more.
pub(crate) const SLICE_NS: Ns = 3_000_000;

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Primary(u32),
    Secondary,
}

/// A thread of the primary between its creation and the end of its last burst.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    /// What it belongs to.
    pub(crate) part: u32,
    /// Bursts after this one.
    pub(crate) bursts_left: u32,
    /// What is left of this one, in nanoseconds.
    pub(crate) remaining: Ns,
    /// Where its times come from: its own, so that a query is the same under every policy.
    pub(crate) random: SmallRng,
    last_core: Option<u8>,
}

impl Thread {
    /// A thread that has run nowhere yet.
    pub(crate) fn new(part: u32, bursts_left: u32, remaining: Ns, random: SmallRng) -> Self {
        Self { part, bursts_left, remaining, random, last_core: None }
    }
}

#[derive(Debug, Clone, Copy)]
struct Running {
    who: Who,
    /// When its first slice began; where nobody waits the next one follows at once.
    began: Ns,
    /// Until when its time is booked.
    booked: Ns,
}

#[derive(Debug, Clone, Default)]
struct Core {
    running: Option<Running>,
    queue: VecDeque<Who>,
    setting: u32,
}

/// One machine.
#[derive(Debug)]
pub(crate) struct Machine {
    index: u16,
    balances: bool,
    cores: Vec<Core>,
    /// A bit for each core that runs nothing.
    idle: u64,
    /// A bit for each core that the secondary may use.
    lent: u64,
    /// Threads of the secondary that may run nowhere.
    frozen: usize,
    waiting_primary: usize,
    waiting_secondary: usize,
    threads: Vec<Thread>,
    free: Vec<u32>,
    /// Where the search for a core begins, so that none is preferred.
    start: usize,
    /// What happened since the beginning.
    pub(crate) totals: Totals,
}

/// Sums over what happened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    /// CPU time of the primary.
    pub(crate) primary_ns: Ns,
    /// CPU time of the secondary.
    pub(crate) secondary_ns: Ns,
    /// Wake-ups of the primary.
    pub(crate) wakes: u64,
    /// Those that found no idle core.
    pub(crate) queued: u64,
}

impl Machine {
    /// A machine with nothing on it but `secondary` threads that may run nowhere yet.
    pub(crate) fn new(index: u16, cores: usize, secondary: usize, balances: bool) -> Self {
        Self {
            index,
            balances,
            cores: vec![Core::default(); cores],
            idle: all(cores),
            lent: 0,
            frozen: secondary,
            waiting_primary: 0,
            waiting_secondary: 0,
            threads: Vec::new(),
            free: Vec::new(),
            start: 0,
            totals: Totals::default(),
        }
    }

    /// Makes a thread, whose first burst begins when it is woken.
    pub(crate) fn spawn(&mut self, thread: Thread) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.threads[slot as usize] = thread;
            return slot;
        }
        self.threads.push(thread);
        (self.threads.len() - 1) as u32
    }

    /// The thread.
    pub(crate) fn thread(&mut self, thread: u32) -> &mut Thread {
        &mut self.threads[thread as usize]
    }

    /// Forgets a thread that has ended.
    pub(crate) fn end(&mut self, thread: u32) {
        self.free.push(thread);
    }

    /// Cores that the secondary may use.
    pub(crate) fn lent(&self) -> u64 {
        self.lent
    }

    /// Cores that run nothing.
    pub(crate) fn idle(&self) -> u64 {
        self.idle
    }

    /// Cores on which the primary runs or waits.
    pub(crate) fn busy(&self) -> u64 {
        let has_primary = |core: &Core| {
            let runs = core.running.is_some_and(|running| running.who != Who::Secondary);
            runs || (self.waiting_primary > 0 && core.queue.iter().any(|who| *who != Who::Secondary))
        };
        (0..self.cores.len())
            .filter(|core| has_primary(&self.cores[*core]))
            .fold(0, |set, core| set | 1 << core)
    }

    /// Books the time of everything that runs.
    pub(crate) fn book_all(&mut self, now: Ns) {
        (0..self.cores.len()).for_each(|core| self.book(core, now));
    }

    /// A thread of the primary has work.
    pub(crate) fn wake(&mut self, thread: u32, now: Ns, agenda: &mut Agenda) {
        self.totals.wakes += 1;
        self.totals.queued += u64::from(self.idle == 0);
        self.place(Who::Primary(thread), all(self.cores.len()), now, agenda);
    }

    /// A core's timer; the thread of the primary whose burst is done, if one is.
    pub(crate) fn timer(&mut self, core: usize, setting: u32, now: Ns, agenda: &mut Agenda) -> Option<u32> {
        if self.cores[core].setting != setting {
            return None;
        }
        self.book(core, now);
        let running = self.cores[core].running?;
        if let Who::Primary(thread) = running.who
            && self.threads[thread as usize].remaining == 0
        {
            self.clear(core);
            self.fill(core, now, agenda);
            return Some(thread);
        }
        let is_slice_over = now > running.began && (now - running.began).is_multiple_of(SLICE_NS);
        if is_slice_over && !self.cores[core].queue.is_empty() {
            self.clear(core);
            self.queue(core, running.who);
            self.fill(core, now, agenda);
        } else {
            self.arm(core, now, agenda);
        }
        None
    }

    /// The secondary may use these cores and no others from now on.
    pub(crate) fn lend(&mut self, cores: u64, now: Ns, agenda: &mut Agenda) {
        let taken = self.lent & !cores;
        let given = cores & !self.lent;
        self.lent = cores;
        let mut displaced = std::mem::take(&mut self.frozen);
        for core in bits(taken) {
            displaced += self.evict(core, now);
        }
        // First what waits for the cores that are free now, then what lost them.
        for core in bits(taken & self.idle) {
            self.fill(core, now, agenda);
        }
        for _ in 0..displaced {
            if cores == 0 {
                self.frozen += 1;
            } else {
                self.place(Who::Secondary, cores, now, agenda);
            }
        }
        for core in bits(given & self.idle) {
            self.fill(core, now, agenda);
        }
    }

    /// Takes the secondary off a core; how many threads that were.
    fn evict(&mut self, core: usize, now: Ns) -> usize {
        let before = self.cores[core].queue.len();
        self.cores[core].queue.retain(|who| *who != Who::Secondary);
        let waited = before - self.cores[core].queue.len();
        self.waiting_secondary -= waited;
        let runs = self.cores[core].running.is_some_and(|running| running.who == Who::Secondary);
        if runs {
            self.book(core, now);
            self.clear(core);
        }
        waited + usize::from(runs)
    }

    /// Puts a thread on a core of `allowed`.
    fn place(&mut self, who: Who, allowed: u64, now: Ns, agenda: &mut Agenda) {
        let idle = self.idle & allowed;
        let last = match who {
            Who::Primary(thread) => self.threads[thread as usize].last_core.map(usize::from),
            Who::Secondary => None,
        };
        if idle != 0 {
            let is_idle = |core: &usize| idle >> core & 1 == 1;
            let core = last.filter(is_idle).unwrap_or_else(|| self.first_from_start(idle));
            self.run(core, who, now, agenda);
            return;
        }
        let Some(core) = last.or_else(|| self.shortest_queue(allowed)) else { return };
        self.queue(core, who);
        if self.cores[core].queue.len() == 1 {
            self.book(core, now);
            self.arm(core, now, agenda);
        }
    }

    fn shortest_queue(&mut self, allowed: u64) -> Option<usize> {
        self.start = (self.start + 1) % self.cores.len();
        let after_start = |core: &usize| (*core + self.cores.len() - self.start) % self.cores.len();
        bits(allowed).min_by_key(|core| (self.cores[*core].queue.len(), after_start(core)))
    }

    fn first_from_start(&mut self, set: u64) -> usize {
        self.start = (self.start + 1) % self.cores.len();
        let later = set >> self.start << self.start;
        let from = if later == 0 { set } else { later };
        from.trailing_zeros() as usize
    }

    /// Gives an idle core what waits for it.
    fn fill(&mut self, core: usize, now: Ns, agenda: &mut Agenda) {
        let takes_secondary = self.lent >> core & 1 == 1 && self.waiting_secondary > 0;
        if self.waiting_primary == 0 && !takes_secondary {
            return;
        }
        let count = self.cores.len();
        for from in (0..count).map(|offset| (core + offset) % count) {
            let may = |who: &Who| match who {
                Who::Primary(_) => from == core || self.balances,
                Who::Secondary => takes_secondary,
            };
            if let Some(position) = self.cores[from].queue.iter().position(may)
                && let Some(who) = self.cores[from].queue.remove(position)
            {
                *self.waiting(who) -= 1;
                self.run(core, who, now, agenda);
                return;
            }
        }
    }

    fn waiting(&mut self, who: Who) -> &mut usize {
        match who {
            Who::Primary(_) => &mut self.waiting_primary,
            Who::Secondary => &mut self.waiting_secondary,
        }
    }

    fn queue(&mut self, core: usize, who: Who) {
        self.cores[core].queue.push_back(who);
        *self.waiting(who) += 1;
    }

    fn run(&mut self, core: usize, who: Who, now: Ns, agenda: &mut Agenda) {
        self.idle &= !(1 << core);
        if let Who::Primary(thread) = who {
            self.threads[thread as usize].last_core = Some(core as u8);
        }
        self.cores[core].running = Some(Running { who, began: now, booked: now });
        self.arm(core, now, agenda);
    }

    fn clear(&mut self, core: usize) {
        self.cores[core].running = None;
        self.cores[core].setting += 1;
        self.idle |= 1 << core;
    }

    /// Books the time of what runs on the core.
    fn book(&mut self, core: usize, now: Ns) {
        let Some(running) = &mut self.cores[core].running else { return };
        let ran = now - running.booked;
        running.booked = now;
        match running.who {
            Who::Primary(thread) => {
                self.totals.primary_ns += ran;
                self.threads[thread as usize].remaining -= ran;
            }
            Who::Secondary => self.totals.secondary_ns += ran,
        }
    }

    /// Sets the timer to the end of the burst, or of the slice if others wait.
    fn arm(&mut self, core: usize, now: Ns, agenda: &mut Agenda) {
        self.cores[core].setting += 1;
        let Some(running) = self.cores[core].running else { return };
        let burst = match running.who {
            Who::Primary(thread) => Some(now + self.threads[thread as usize].remaining),
            Who::Secondary => None,
        };
        let slices = (now - running.began) / SLICE_NS + 1;
        let slice = (!self.cores[core].queue.is_empty()).then(|| running.began + slices * SLICE_NS);
        if let Some(time) = [burst, slice].into_iter().flatten().min() {
            let (machine, setting) = (self.index, self.cores[core].setting);
            agenda.at(time, Event::Timer { machine, core: core as u8, setting });
        }
    }
}

/// A bit for each of `cores`.
pub(crate) fn all(cores: usize) -> u64 {
    if cores == 64 { u64::MAX } else { (1 << cores) - 1 }
}

/// The numbers of the bits that are set.
pub(crate) fn bits(set: u64) -> impl Iterator<Item = usize> {
    let rests = std::iter::successors(Some(set), |rest| Some(rest & rest.wrapping_sub(1)));
    rests.take_while(|rest| *rest != 0).map(|rest| rest.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests;
