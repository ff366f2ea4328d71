//! Who may call a function, and which functions a caller may call.

use std::collections::BTreeSet;

use crate::{FunctionName, ParseError, TenantName};

/// Who may call a function.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Anybody who reaches a node.
    Public,
    /// Whoever shows a call token of the function's tenant that names the function, or all of the tenant.
    #[default]
    Tenant,
    /// Whoever shows a call token of the function's tenant that names the function itself.
    Token,
}

impl Access {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Public, Self::Tenant, Self::Token];

    /// The word in the manifest, on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Tenant => "tenant",
            Self::Token => "token",
        }
    }

    /// The access of that word.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|access| access.as_str() == text)
            .ok_or_else(|| ParseError::new("access", text, "one of public, tenant, token"))
    }
}

impl std::str::FromStr for Access {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Begins the name of a caller that is a function; the rest is its name.
pub const FUNCTION_CALLER: &str = "function/";
/// The same of a schedule.
pub const SCHEDULE_CALLER: &str = "schedule/";
/// The same of a trigger.
pub const TRIGGER_CALLER: &str = "trigger/";
/// Beginnings of names that only the site gives: nobody gets a call token for one.
pub const RESERVED_CALLERS: [&str; 3] = [FUNCTION_CALLER, SCHEDULE_CALLER, TRIGGER_CALLER];

/// Tenants whose functions may call a function of another one, at most.
pub const CALLERS_MAX: usize = 32;

/// The other tenants whose functions may call a function.
pub type Callers = BTreeSet<TenantName>;

/// Stands for every function of a tenant that has the access `tenant`.
const ALL: &str = "*";

/// The functions of one tenant that a caller may call: names, or `*` for all that the tenant has, but for
/// those with the access `token`, which have to be named. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct CallScope {
    all: bool,
    named: BTreeSet<FunctionName>,
}

impl CallScope {
    /// Names in one scope: what fits into a header with room to spare.
    pub const NAMES_MAX: usize = 32;

    /// Reads names and `*`.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, ParseError> {
        let joined = || texts.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(",");
        if !(1..=Self::NAMES_MAX).contains(&texts.len()) {
            return Err(ParseError::new("call scope", &joined(), "1 to 32 names of functions, or `*`"));
        }
        let (mut all, mut named) = (false, BTreeSet::new());
        for text in texts.iter().map(AsRef::as_ref) {
            if text == ALL {
                all = true;
            } else {
                named.insert(FunctionName::parse(text)?);
            }
        }
        Ok(Self { all, named })
    }

    /// This one function.
    pub fn of(function: FunctionName) -> Self {
        Self { all: false, named: BTreeSet::from([function]) }
    }

    /// Whether `function` may be called if that is its access.
    pub fn opens(&self, function: &FunctionName, access: Access) -> bool {
        match access {
            Access::Public => true,
            Access::Tenant => self.covers(function),
            Access::Token => self.named.contains(function),
        }
    }

    /// Whether `function` is named, or all are.
    pub fn covers(&self, function: &FunctionName) -> bool {
        self.all || self.named.contains(function)
    }

    /// Both scopes together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.all |= other.all;
        self.named.extend(other.named);
        self
    }
}

impl TryFrom<Vec<String>> for CallScope {
    type Error = ParseError;
    fn try_from(texts: Vec<String>) -> Result<Self, Self::Error> {
        Self::parse(&texts)
    }
}

impl From<CallScope> for Vec<String> {
    fn from(scope: CallScope) -> Self {
        let all = scope.all.then(|| ALL.to_owned());
        all.into_iter().chain(scope.named.iter().map(ToString::to_string)).collect()
    }
}

impl std::fmt::Display for CallScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&Vec::from(self.clone()).join(", "))
    }
}
