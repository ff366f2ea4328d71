//! What was dropped of functions' logs, until a line in their own logs names it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use mfaas_delivery::{LogLevel, LogLine};
use mfaas_ident::{FunctionName, TenantName, VersionNumber};

use super::fair::Full;
use crate::image::ImageKey;

/// Versions whose losses are remembered until they are logged; those of others are in the metrics alone.
const VERSIONS_MAX: usize = 4_096;

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Lines that waited to be sent.
    Lines,
    /// All lines of calls, which waited to be read.
    Calls,
}

/// Whose lines they were.
type Version = (TenantName, FunctionName, VersionNumber);

/// The losses.
#[derive(Debug, Default)]
pub(super) struct Losses {
    counted: BTreeMap<Version, BTreeMap<(What, Full), u64>>,
}

impl Losses {
    pub(super) fn count_line(&mut self, line: &LogLine, full: Full) {
        self.add((line.tenant.clone(), line.function.clone(), line.version), (What::Lines, full), 1);
    }

    pub(super) fn count_calls(&mut self, key: &ImageKey, full: Full, calls: u64) {
        self.add((key.tenant.clone(), key.function.clone(), key.version), (What::Calls, full), calls);
    }

    fn add(&mut self, version: (TenantName, FunctionName, VersionNumber), loss: (What, Full), count: u64) {
        if self.counted.len() >= VERSIONS_MAX && !self.counted.contains_key(&version) {
            return;
        }
        *self.counted.entry(version).or_default().entry(loss).or_default() += count;
    }

    /// Lines about the losses of at most so many versions, which are forgotten with that.
    pub(super) fn take_lines(
        &mut self,
        versions_max: usize,
        at: DateTime<Utc>,
        sentence: fn(What, Full, u64) -> String,
    ) -> Vec<LogLine> {
        let mut lines = Vec::new();
        for _ in 0..versions_max {
            let Some(((tenant, function, version), losses)) = self.counted.pop_first() else { break };
            for ((what, full), count) in losses {
                let (tenant, function) = (tenant.clone(), function.clone());
                let text = sentence(what, full, count);
                lines.push(LogLine { at, tenant, function, version, level: LogLevel::Warn, text });
            }
        }
        lines
    }
}
