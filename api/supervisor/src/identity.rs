//! Who each program runs as: system users when root started us, one uid otherwise.
//!
//! Root only supervises. A program that touches hostile bytes never runs as root, and `mfaas
//! status` says so when everything shares one uid.

use std::process::Command;

use rustix::fs::{Gid, Uid};

use crate::error::SupervisorError;

/// The programs that have an identity of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// The private database.
    Postgres,
    /// `mfaas-signer`.
    Signer,
    /// `mfaas-server`.
    Server,
    /// `mfaas-isolation`, which keeps builds from being felt by calls.
    Isolation,
    /// `mfaas-broker`, which reaches data for functions.
    Broker,
    /// `mfaas-builder`.
    Builder,
    /// `mfaas-node` and its workers.
    Node,
    /// `mfaas-builder acquire`, the only one that downloads dependencies.
    Acquirer,
}

/// How many roles there are.
const ROLES: usize = 8;

impl Role {
    /// Every role, in starting order.
    pub(crate) const ALL: [Self; ROLES] = [
        Self::Postgres,
        Self::Signer,
        Self::Server,
        Self::Isolation,
        Self::Broker,
        Self::Builder,
        Self::Node,
        Self::Acquirer,
    ];

    /// The short name: of the log, the runtime directory, the line in `mfaas status`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Signer => "signer",
            Self::Server => "server",
            Self::Isolation => "isolation",
            Self::Broker => "broker",
            Self::Builder => "builder",
            Self::Node => "node",
            Self::Acquirer => "acquirer",
        }
    }

    /// The system user of the program.
    pub(crate) fn user(self) -> &'static str {
        match self {
            Self::Postgres => "mfaas-pg",
            Self::Signer => "mfaas-signer",
            Self::Server => "mfaas",
            // Only root may fill control groups.
            Self::Isolation => "root",
            Self::Broker => "mfaas-broker",
            Self::Builder => "mfaas-build",
            Self::Node => "mfaas-node",
            Self::Acquirer => "mfaas-acquire",
        }
    }

    /// Its primary group: the four that write blobs share one.
    fn group(self) -> &'static str {
        match self {
            Self::Postgres => "mfaas-pg",
            Self::Isolation => "root",
            Self::Broker => "mfaas-broker",
            Self::Node => "mfaas-node",
            Self::Signer | Self::Server | Self::Builder | Self::Acquirer => "mfaas",
        }
    }
}

/// The users of this machine's programs.
#[derive(Debug, Clone)]
pub(crate) enum Identities {
    /// Started as root: each program has its own user. In the order of [`Role::ALL`].
    SystemUsers([(Uid, Gid); ROLES]),
    /// Started by a user: everything runs as that user.
    OneUid,
}

impl Identities {
    /// Finds the users, making those that are missing when we are root.
    pub(crate) fn establish() -> Result<Self, SupervisorError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::OneUid);
        }
        let mut ids = [(Uid::ROOT, Gid::ROOT); ROLES];
        for (role, id) in Role::ALL.into_iter().zip(&mut ids) {
            ensure_group(role.group())?;
            ensure_user(role)?;
            *id = lookup(role.user())?.ok_or_else(|| {
                SupervisorError::Local(format!("user {} is missing after useradd", role.user()))
            })?;
        }
        Ok(Self::SystemUsers(ids))
    }

    /// Uid and gid that a program must switch to; `None` when it stays what we are.
    pub(crate) fn of(&self, role: Role) -> Option<(Uid, Gid)> {
        match self {
            Self::SystemUsers(ids) => Some(ids[role as usize]),
            Self::OneUid => None,
        }
    }

    /// Owner of a directory: the role's, or the supervisor's own for `None`.
    pub(crate) fn owner(&self, role: Option<Role>) -> Option<(Uid, Gid)> {
        match (self, role) {
            (Self::OneUid, _) => None,
            (Self::SystemUsers(_), Some(role)) => self.of(role),
            (Self::SystemUsers(_), None) => Some((Uid::ROOT, Gid::ROOT)),
        }
    }

    /// Whether all programs share one uid, the weaker mode.
    pub(crate) fn is_one_uid(&self) -> bool {
        matches!(self, Self::OneUid)
    }
}

/// Uid and primary gid of a user, by the system's own name service.
pub(crate) fn lookup(user: &str) -> Result<Option<(Uid, Gid)>, SupervisorError> {
    Ok(passwd(user)?.and_then(|line| {
        let mut fields = line.split(':').skip(2);
        let uid = fields.next()?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some((Uid::from_raw(uid), Gid::from_raw(gid)))
    }))
}

/// The home directory of a user.
pub(crate) fn home_of(user: &str) -> Result<Option<std::path::PathBuf>, SupervisorError> {
    Ok(passwd(user)?.and_then(|line| line.split(':').nth(5).map(Into::into)))
}

fn passwd(user: &str) -> Result<Option<String>, SupervisorError> {
    let output = Command::new("getent")
        .args(["passwd", user])
        .output()
        .map_err(|e| SupervisorError::Local(format!("cannot run getent: {e}")))?;
    if !output.status.success() {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()))
}

fn ensure_group(group: &str) -> Result<(), SupervisorError> {
    let known = Command::new("getent").args(["group", group]).output();
    if known.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    admin("groupadd", &["--system", group])
}

fn ensure_user(role: Role) -> Result<(), SupervisorError> {
    if lookup(role.user())?.is_some() {
        return Ok(());
    }
    let arguments = [
        "--system",
        "--no-create-home",
        "--home-dir",
        "/nonexistent",
        "--shell",
        "/usr/sbin/nologin",
        "--gid",
        role.group(),
        role.user(),
    ];
    admin("useradd", &arguments)
}

/// Runs an account tool; a second `up` that won the race to make the account is no error.
fn admin(tool: &str, arguments: &[&str]) -> Result<(), SupervisorError> {
    const ALREADY_EXISTS: i32 = 9;
    let output = Command::new(tool)
        .args(arguments)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .map_err(|e| SupervisorError::Local(format!("cannot run {tool}: {e}")))?;
    if output.status.success() || output.status.code() == Some(ALREADY_EXISTS) {
        return Ok(());
    }
    Err(SupervisorError::Local(format!("{tool} failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
}
