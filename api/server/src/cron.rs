//! Cron expressions: five fields as in crontab(5), in UTC.

use chrono::{DateTime, Utc};
use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use mfaas_ident::sanitise_line;
use mfaas_wire::CRON_BYTES_MAX;

/// A reason as shown, in bytes.
const REASON_BYTES_MAX: usize = 200;

/// Reads an expression, which has to be due at some time from `now` on; says when that is first. A sentence if it is none.
pub(crate) fn first(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, String> {
    if text.len() > CRON_BYTES_MAX {
        return Err(format!("`cron` has {CRON_BYTES_MAX} bytes at most."));
    }
    let cron = parse(text).map_err(|error| {
        let reason = sanitise_line(&error.to_string(), REASON_BYTES_MAX);
        format!("`cron` is no cron expression of five fields, for example `0 3 * * *`: {reason}")
    })?;
    cron.find_next_occurrence(&now, false).map_err(|_| "`cron` names a time that never comes.".to_owned())
}

/// When an expression is due after `now`, if ever.
pub(crate) fn next(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    first(text, now).ok()
}

fn parse(text: &str) -> Result<Cron, CronError> {
    CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build().parse(text)
}

#[cfg(test)]
mod tests;
