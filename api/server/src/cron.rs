//! Cron expressions: five fields as in crontab(5), in UTC. What the crate reads beyond that is refused: other readers know none
//! of it, and a list with an empty part keeps it searching for seconds.

use chrono::{DateTime, Utc};
use croner::parser::{CronParser, Seconds, Year};
use mfaas_ident::sanitise_line;
use mfaas_wire::CRON_BYTES_MAX;

/// A reason as shown, in bytes.
const REASON_BYTES_MAX: usize = 200;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Which names each field knows.
const NAMES: [&[&str]; 5] = [&[], &[], &[], &MONTHS, &DAYS];

/// When an expression is due first after `now`. A sentence if it is none, or never due.
pub(crate) fn first(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, String> {
    if text.len() > CRON_BYTES_MAX {
        return Err(format!("`cron` has {CRON_BYTES_MAX} bytes at most."));
    }
    let none = "`cron` is no cron expression of five fields, for example `0 3 * * *`";
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    if fields.len() != NAMES.len() {
        return Err(format!("{none}: it has {}.", fields.len()));
    }
    if let Some((field, _)) = fields.iter().zip(NAMES).find(|(field, names)| !is_plain(field, names)) {
        return Err(format!("{none}: `{}` is no field.", sanitise_line(field, REASON_BYTES_MAX)));
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let cron = parser
        .parse(text)
        .map_err(|error| format!("{none}: {}", sanitise_line(&error.to_string(), REASON_BYTES_MAX)))?;
    cron.find_next_occurrence(&now, false).map_err(|_| "`cron` names a time that never comes.".to_owned())
}

/// When an expression that was taken is due after `now`, if ever.
pub(crate) fn next(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    first(text, now)
        .inspect_err(|reason| tracing::warn!(cron = text, reason, "a schedule is not due any more"))
        .ok()
}

/// A list of numbers, names and `*`, of ranges of them, and of steps.
fn is_plain(field: &str, names: &[&str]) -> bool {
    let is_value = |text: &str| {
        text == "*"
            || !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
            || names.contains(&text.to_ascii_lowercase().as_str())
    };
    field.split([',', '-', '/']).all(is_value)
}

#[cfg(test)]
mod tests;
