//! Reading of single variables: what is missing or malformed is an error that names the variable.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// A variable that is missing or does not say what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{0} is not set")]
    Missing(&'static str),
    #[error("{variable}: {reason}")]
    Malformed { variable: &'static str, reason: String },
}

/// Where variables come from; the environment, or a table in a test.
pub(crate) type Lookup<'a> = &'a dyn Fn(&'static str) -> Option<String>;

/// The process's environment. Text that is not UTF-8 counts as absent.
pub(crate) fn environment(name: &'static str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A variable that had another name until the release before, which is accepted in this one.
pub(super) fn renamed(lookup: Lookup<'_>, now: &'static str, before: &'static str) -> Option<String> {
    lookup(now).or_else(|| {
        let value = lookup(before)?;
        tracing::warn!("{before} is called {now} now: set {now}; the next release does not read {before}");
        Some(value)
    })
}

pub(super) fn required(lookup: Lookup<'_>, variable: &'static str) -> Result<String, ConfigError> {
    lookup(variable).ok_or(ConfigError::Missing(variable))
}

pub(crate) fn parsed<T>(variable: &'static str, text: &str) -> Result<T, ConfigError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    parsed_by(variable, text, str::parse)
}

pub(super) fn parsed_by<T, E: std::fmt::Display>(
    variable: &'static str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, ConfigError> {
    parse(text).map_err(|e| ConfigError::Malformed { variable, reason: e.to_string() })
}

/// A number from 1 to `most`; there is none that means no limit.
pub(super) fn bounded(
    lookup: Lookup<'_>,
    variable: &'static str,
    default: u32,
    most: u32,
) -> Result<u32, ConfigError> {
    let Some(text) = lookup(variable) else { return Ok(default) };
    let number: u32 = parsed(variable, &text)?;
    if (1..=most).contains(&number) {
        return Ok(number);
    }
    Err(ConfigError::Malformed { variable, reason: format!("a number from 1 to {most}") })
}

/// At most `most` different things with commas between them.
pub(crate) fn listed<T>(variable: &'static str, list: &str, most: usize) -> Result<BTreeSet<T>, ConfigError>
where
    T: std::str::FromStr + Ord,
    T::Err: std::fmt::Display,
{
    let things: BTreeSet<_> = list
        .split(',')
        .map(str::trim)
        .filter(|thing| !thing.is_empty())
        .map(|thing| parsed(variable, thing))
        .collect::<Result<_, _>>()?;
    if things.len() > most {
        return Err(ConfigError::Malformed { variable, reason: format!("at most {most} of them") });
    }
    Ok(things)
}

/// A number within `range`, `absent` if the variable is.
pub(super) fn number(
    lookup: Lookup<'_>,
    variable: &'static str,
    range: RangeInclusive<usize>,
    absent: usize,
) -> Result<usize, ConfigError> {
    let Some(text) = lookup(variable) else { return Ok(absent) };
    let number = parsed(variable, &text)?;
    if range.contains(&number) {
        return Ok(number);
    }
    let reason = format!("a number from {} to {}", range.start(), range.end());
    Err(ConfigError::Malformed { variable, reason })
}
