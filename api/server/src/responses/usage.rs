//! What calls used, as routes and the console show it.

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_catalog::{Catalog, Period, USAGE_ANSWER_ROWS_MAX, USAGE_DAYS_SHOWN_MAX, UsageQuery};
use mfaas_ident::{FunctionName, TenantName};
use mfaas_wire::UsageView;
use serde::Deserialize;

use crate::refusal::Refusal;

use super::usage;

/// What is asked for when nobody says since when.
const SINCE_DEFAULT: TimeDelta = TimeDelta::days(1);

/// What usage is wanted. `tenant` is read by [`crate::caller::Sight`].
#[derive(Debug, Default, Deserialize)]
pub(crate) struct UsageParameters {
    /// A moment (RFC 3339) or how long ago: `90m`, `24h`, `7d`.
    pub since: Option<String>,
    /// The same.
    pub until: Option<String>,
    /// `hour`, `day` or `total`.
    pub by: Option<String>,
    /// One function.
    pub function: Option<FunctionName>,
}

/// The usage of one tenant, or of all.
pub(crate) async fn usage_view(
    catalog: &Catalog,
    tenant: Option<&TenantName>,
    parameters: &UsageParameters,
) -> Result<UsageView, Refusal> {
    let now = Utc::now();
    let moment_of = |text: &Option<String>| text.as_deref().map(|text| moment(text, now)).transpose();
    let since = moment_of(&parameters.since)?.unwrap_or(now - SINCE_DEFAULT);
    let until = moment_of(&parameters.until)?.unwrap_or(now);
    if since >= until {
        return Err(Refusal::invalid("`since` has to lie before `until`."));
    }
    let by = parameters.by.as_deref().unwrap_or("total");
    let by = Period::parse(by).ok_or_else(|| Refusal::invalid("`by` is hour, day or total."))?;
    let limit = USAGE_ANSWER_ROWS_MAX;
    let function = parameters.function.as_ref();
    let query = UsageQuery { since, until, tenant, function, by, limit: limit + 1 };
    let rows = catalog.usage(&query).await?;
    let truncated = rows.len() > limit as usize;
    let rows = rows.into_iter().take(limit as usize).map(usage).collect();
    Ok(UsageView { since, until, by: by.as_str().to_owned(), rows, truncated })
}

/// A moment by its name or by how long ago it was, within the time that hours are kept.
pub(super) fn moment(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, Refusal> {
    let wrong = || {
        Refusal::invalid(format!(
            "A moment is RFC 3339 or how long ago (`90m`, `24h`, `7d`), at most {USAGE_DAYS_SHOWN_MAX} days."
        ))
    };
    let ago = |digits: &str, unit: fn(i64) -> Option<TimeDelta>| {
        let number = digits.parse::<u32>().ok()?;
        now.checked_sub_signed(unit(i64::from(number))?)
    };
    let found = match text.char_indices().next_back().map(|(at, unit)| (&text[..at], unit)) {
        Some((digits, 'm')) => ago(digits, TimeDelta::try_minutes),
        Some((digits, 'h')) => ago(digits, TimeDelta::try_hours),
        Some((digits, 'd')) => ago(digits, TimeDelta::try_days),
        Some(_) => DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc)),
        None => None,
    };
    let kept = TimeDelta::days(i64::from(USAGE_DAYS_SHOWN_MAX) + 1);
    found.filter(|at| (now - kept..=now + kept).contains(at)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
