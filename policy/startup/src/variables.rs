//! Environment variables, taken once at start. One that is missing or does not say what it should is an error that names it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::process::Command;
use std::str::FromStr;

/// Every variable that is read here begins so.
const PREFIX: &str = "MFAAS_";

/// Names of the release before, which this one still reads, and what they are called now.
const RENAMED: [(&str, &str); 3] = [
    ("MFAAS_CAGE_MINIMUM", "MFAAS_SANDBOX_MINIMUM"),
    ("MFAAS_DOOR_CALLS", "MFAAS_LOCAL_CALLS"),
    ("MFAAS_DOOR_SOCKET", "MFAAS_LOCAL_SOCKET"),
];

/// Why a variable cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum VariableError {
    /// It has no default.
    #[error("{0} is not set")]
    Missing(&'static str),
    /// Its value does not fit.
    #[error("{name}: {reason}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// What is wrong with it, or what is expected.
        reason: String,
    },
}

impl VariableError {
    /// `name` has a value that does not fit.
    pub fn invalid(name: &'static str, reason: impl Display) -> Self {
        Self::Invalid { name, reason: reason.to_string() }
    }
}

/// The variables of this process, or of a test. An empty one counts as not set, as in a service file that leaves a value out.
pub struct Variables(BTreeMap<String, OsString>);

/// Names alone: values hold passwords.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    /// Values under an older name count under the present one, unless that is set; the log says so.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(given: I) -> Self {
        let mut variables: BTreeMap<String, OsString> =
            given.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        variables.retain(|_, value| !value.is_empty());
        for (old, name) in RENAMED {
            let Some(value) = variables.remove(old) else { continue };
            if !variables.contains_key(name) {
                tracing::warn!("{old} is now called {name}: set that one; the next release ignores {old}");
                variables.insert(name.to_owned(), value);
            }
        }
        Self(variables)
    }
}

impl Variables {
    /// Those of the environment whose names begin with `MFAAS_`.
    pub fn of_process() -> Self {
        let named = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        named.filter(|(name, _)| name.starts_with(PREFIX)).collect()
    }

    /// The value, if it is set. Text that is not UTF-8 is an error: it must not pass for a default.
    pub fn optional(&self, name: &'static str) -> Result<Option<String>, VariableError> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        value
            .to_str()
            .map(|value| Some(value.to_owned()))
            .ok_or_else(|| VariableError::invalid(name, "it is not UTF-8"))
    }

    /// The value, which has no default.
    pub fn required(&self, name: &'static str) -> Result<String, VariableError> {
        self.optional(name)?.ok_or(VariableError::Missing(name))
    }

    /// The value as `parse` understands it, if it is set.
    pub fn parsed_by<T, E: Display>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, VariableError> {
        let parsed = self.optional(name)?.map(|text| parse(&text)).transpose();
        parsed.map_err(|error| VariableError::invalid(name, error))
    }

    /// The value as its type reads it, if it is set.
    pub fn parsed<T: FromStr<Err: Display>>(&self, name: &'static str) -> Result<Option<T>, VariableError> {
        self.parsed_by(name, str::parse)
    }

    /// A whole number within `range`.
    pub fn number<T>(
        &self,
        name: &'static str,
        range: RangeInclusive<T>,
        default: T,
    ) -> Result<T, VariableError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.optional(name)? else { return Ok(default) };
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            VariableError::invalid(
                name,
                format!("expected a whole number from {} to {}", range.start(), range.end()),
            )
        })
    }

    /// At most `most` different things with commas between them; none if it is not set.
    pub fn list<T>(&self, name: &'static str, most: usize) -> Result<BTreeSet<T>, VariableError>
    where
        T: FromStr<Err: Display> + Ord,
    {
        let text = self.optional(name)?.unwrap_or_default();
        let things = text.split(',').map(str::trim).filter(|thing| !thing.is_empty()).map(str::parse);
        let things = things
            .collect::<Result<BTreeSet<T>, _>>()
            .map_err(|error| VariableError::invalid(name, error))?;
        if things.len() > most {
            return Err(VariableError::invalid(name, format!("expected at most {most} entries")));
        }
        Ok(things)
    }

    /// Ids of at most `most` users, each by name or number, with commas between them; none if it is not set.
    pub fn users(&self, name: &'static str, most: usize) -> Result<BTreeSet<u32>, VariableError> {
        let named: BTreeSet<String> = self.list(name, most)?;
        let id = |user: &String| {
            let is_number = user.bytes().all(|byte| byte.is_ascii_digit());
            let id = if is_number { user.parse().ok() } else { id_of(user) };
            id.ok_or_else(|| VariableError::invalid(name, format!("there is no user {user}")))
        };
        named.iter().map(id).collect()
    }

    /// `1`, or `0` as when it is not set.
    pub fn switch(&self, name: &'static str) -> Result<bool, VariableError> {
        match self.optional(name)?.as_deref() {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(_) => Err(VariableError::invalid(name, "expected 0 or 1")),
        }
    }
}

/// The id of a user, by the system's own name service.
fn id_of(user: &str) -> Option<u32> {
    let output = Command::new("getent").args(["passwd", user]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests;
