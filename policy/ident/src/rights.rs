//! What somebody may do: scopes, which routes ask for, and roles, the sets of them that people are given.
//!
//! What one scope implies of the others is said in [`Scope::implies`] and nowhere else; what a role holds in
//! [`Role::scopes`]. A token stores scopes alone: its role is read off them, so the two cannot disagree.

use crate::ParseError;

/// What a token may do. A token holds a set of these within one tenant; `Admin` alone crosses
/// tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// See functions, deployments, versions and logs.
    Read,
    /// Upload sources, move aliases, delete functions; implies `Read`.
    Deploy,
    /// Decide about dependencies; implies `Read`.
    Review,
    /// See how the site does: its nodes, its audit log, everybody's usage. Changes what nodes take and lifts bans,
    /// and nothing that anybody decided or made; implies `Read`.
    Operate,
    /// Tokens and everything of every tenant; implies every scope.
    Admin,
}

impl Scope {
    /// Every scope, in the order of growing power.
    pub const ALL: [Self; 5] = [Self::Read, Self::Deploy, Self::Review, Self::Operate, Self::Admin];

    /// True when whoever holds `self` also holds `other`: admin holds everything, and whoever may
    /// change or decide something may see it. The only place that says so.
    pub fn implies(self, other: Self) -> bool {
        match self {
            Self::Admin => true,
            Self::Deploy | Self::Review | Self::Operate => self == other || other == Self::Read,
            Self::Read => other == Self::Read,
        }
    }

    /// True when it allows voting in reviews: its holder has to be a person with a name.
    pub fn may_vote(self) -> bool {
        self.implies(Self::Review)
    }

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Deploy => "deploy",
            Self::Review => "review",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// The scope of that word.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| ParseError::new("scope", text, "one of read, deploy, review, operate, admin"))
    }
}

/// A named set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks.
    Viewer,
    /// Deploys: what a tenant's people and programs have.
    Deployer,
    /// Decides about dependencies.
    Reviewer,
    /// Watches nodes and audit log, and decides nothing.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Deployer, Self::Reviewer, Self::Operator, Self::Admin];

    /// What the role holds, in the order of [`Scope::ALL`].
    pub fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Viewer => &[Scope::Read],
            Self::Deployer => &[Scope::Read, Scope::Deploy],
            Self::Reviewer => &[Scope::Read, Scope::Review],
            Self::Operator => &[Scope::Read, Scope::Operate],
            Self::Admin => &Scope::ALL,
        }
    }

    /// The role that holds exactly what these scopes open; `None` for a set that has no name.
    pub fn of(scopes: &[Scope]) -> Option<Self> {
        let opened = |held: &[Scope], asked: Scope| held.iter().any(|scope| scope.implies(asked));
        Self::ALL.into_iter().find(|role| {
            Scope::ALL.into_iter().all(|scope| opened(role.scopes(), scope) == opened(scopes, scope))
        })
    }

    /// The word on the wire and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Deployer => "deployer",
            Self::Reviewer => "reviewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// The role of that word.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            ParseError::new("role", text, "one of viewer, deployer, reviewer, operator, admin")
        })
    }
}

/// The identity source of a token: who says that its person is that person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdentitySource {
    /// Nobody: the token acts for itself, and never votes.
    Nobody,
    /// The admin who made the token named the person.
    Admin,
    /// The OpenID provider with which the person signed in.
    Provider,
}

impl IdentitySource {
    /// Every source.
    pub const ALL: [Self; 3] = [Self::Nobody, Self::Admin, Self::Provider];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Admin => "admin",
            Self::Provider => "provider",
        }
    }

    /// The source of that word.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|source| source.as_str() == text)
            .ok_or_else(|| ParseError::new("identity source", text, "one of nobody, admin, provider"))
    }
}

macro_rules! text_form {
    ($($name:ident),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = ParseError;
            fn from_str(text: &str) -> Result<Self, ParseError> {
                Self::parse(text)
            }
        }
    )*};
}

text_form!(Scope, Role, IdentitySource);
