//! What each core did since the look before, from `/proc/stat`: in ticks of ten milliseconds, so it misses short bursts.

use std::collections::HashMap;
use std::io;

use mfaas_isolation::CoreSet;

/// Ticks of each core at the look before.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    before: HashMap<usize, Ticks>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Statistics {
    /// Those of `cores` that ran nothing since the look before; none at the first look.
    pub(super) fn idle(&mut self, cores: &CoreSet) -> io::Result<CoreSet> {
        Ok(self.compare(&std::fs::read_to_string("/proc/stat")?, cores))
    }

    fn compare(&mut self, text: &str, cores: &CoreSet) -> CoreSet {
        let mut idle = CoreSet::EMPTY;
        for (core, now) in text.lines().filter_map(of_core) {
            let before = self.before.insert(core, now);
            let passed =
                |before: Ticks| (now.idle.saturating_sub(before.idle), now.all.saturating_sub(before.all));
            let is_idle = before.map(passed).is_some_and(|(idle, all)| idle == all && all > 0);
            if is_idle && cores.contains(core) {
                // It is in a set of cores, so it can be in another.
                let _ = idle.insert(core);
            }
        }
        idle
    }
}

/// `cpu3 USER NICE SYSTEM IDLE IOWAIT …`
fn of_core(line: &str) -> Option<(usize, Ticks)> {
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    let core =
        words.next().filter(|_| line.as_bytes().get(3).is_some_and(u8::is_ascii_digit))?.parse().ok()?;
    // Time of guests is counted in the first two already.
    let ticks: Vec<u64> = words.take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some((core, Ticks { idle: ticks.get(3)? + ticks.get(4)?, all: ticks.iter().sum() }))
}

#[cfg(test)]
mod tests;
