//! Where everything of one machine lives, and with which owner and mode.
//!
//! The table [`DIRECTORIES`] is the whole truth about permissions below the home; nothing else in
//! this program may widen one. Secrets sit in directories that only their program can enter.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mfaas_ident::Digest;
use rustix::fs::{Gid, Mode, Uid};

use crate::error::SupervisorError;
use crate::identity::{Identities, Role};

/// A unix socket's path may have 107 bytes; the longest name below `run/` is `pg/.s.PGSQL.5432`.
const RUN_PATH_BYTES_MAX: usize = 85;

/// One directory below the home.
struct Directory {
    path: &'static str,
    mode: u32,
    owner: Option<Role>,
}

const fn directory(path: &'static str, mode: u32, owner: Option<Role>) -> Directory {
    Directory { path, mode, owner }
}

/// Every directory of the home; `None` is the supervisor's own user. Parents come first.
const DIRECTORIES: &[Directory] = &[
    directory("bin", 0o755, None),
    directory("postgres", 0o700, Some(Role::Postgres)),
    // Set-group-id: whatever server, builder and signer put here belongs to their common group.
    directory("blobs", 0o2770, Some(Role::Server)),
    directory("server", 0o711, None),
    directory("server/tls", 0o700, Some(Role::Server)),
    directory("server/oidc", 0o711, None),
    directory("signer", 0o711, None),
    directory("signer/keys", 0o700, Some(Role::Signer)),
    directory("signer/ca", 0o700, Some(Role::Signer)),
    directory("root-key", 0o700, None),
    directory("toolchains", 0o755, None),
    directory("vendor", 0o755, None),
    directory("deps", 0o755, None),
    directory("isolation", 0o711, None),
    directory("isolation/state", 0o700, None),
    directory("builder", 0o711, None),
    directory("builder/work", 0o700, Some(Role::Builder)),
    directory("acquirer", 0o711, None),
    directory("acquirer/work", 0o700, Some(Role::Acquirer)),
    // Builders read what is built there, and compare every file with its digest.
    directory("acquirer/deps", 0o755, Some(Role::Acquirer)),
    directory("objects", 0o700, Some(Role::Broker)),
    directory("volumes", 0o700, Some(Role::Broker)),
    directory("node", 0o711, None),
    directory("node/state", 0o700, Some(Role::Node)),
    directory("logs", 0o700, None),
];

/// The same for the runtime directory, which may be elsewhere (see [`Home::run`]).
const RUN_DIRECTORIES: &[Directory] = &[
    directory("pg", 0o711, Some(Role::Postgres)),
    directory("server", 0o755, Some(Role::Server)),
    directory("isolation", 0o755, Some(Role::Isolation)),
    directory("broker", 0o755, Some(Role::Broker)),
    directory("builder", 0o755, Some(Role::Builder)),
    directory("signer", 0o755, Some(Role::Signer)),
    directory("acquirer", 0o755, Some(Role::Acquirer)),
    directory("node", 0o755, Some(Role::Node)),
];

/// The home of one `mfaas up`.
#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
    run: PathBuf,
}

impl Home {
    /// The home at `root`, an absolute path; nothing is touched.
    pub fn at(root: &Path) -> Self {
        let below = root.join("run");
        let run = if below.as_os_str().len() <= RUN_PATH_BYTES_MAX {
            below
        } else {
            let name = Digest::of(root.as_os_str().as_encoded_bytes()).short();
            PathBuf::from("/tmp").join(format!("mfaas-{name}"))
        };
        Self { root: root.to_owned(), run }
    }

    /// The default home: `/var/lib/mfaas` for root, `~/.local/share/mfaas` for a user.
    pub fn default_root() -> Result<PathBuf, SupervisorError> {
        if rustix::process::geteuid().is_root() {
            return Ok(PathBuf::from("/var/lib/mfaas"));
        }
        std::env::home_dir()
            .map(|home| home.join(".local/share/mfaas"))
            .ok_or_else(|| SupervisorError::Usage("HOME is not set; give --home".to_owned()))
    }

    /// The home itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the home.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// The runtime directory: ready files, pid files, the database's socket. Below the home, or
    /// in /tmp when the home's path is too long for a socket.
    pub(crate) fn run(&self) -> &Path {
        &self.run
    }

    /// The log of a program, or of the supervisor itself.
    pub fn log(&self, name: &str) -> PathBuf {
        self.join(format!("logs/{name}.log"))
    }

    /// Where a program writes that it is ready.
    pub(crate) fn ready_file(&self, role: Role) -> PathBuf {
        self.run.join(role.name()).join("ready.json")
    }

    /// The socket of the isolation controller.
    pub fn isolation_socket(&self) -> PathBuf {
        self.run.join("isolation/socket")
    }

    /// The socket of the data broker.
    pub fn broker_socket(&self) -> PathBuf {
        self.run.join("broker/socket")
    }

    /// The directory of the database's socket.
    pub(crate) fn socket_dir(&self) -> PathBuf {
        self.run.join("pg")
    }

    /// Makes every directory with its owner and mode; repairs modes that drifted.
    pub(crate) fn prepare(&self, identities: &Identities) -> Result<(), SupervisorError> {
        std::fs::create_dir_all(self.root.parent().unwrap_or(Path::new("/")))
            .map_err(SupervisorError::io("cannot make the parent of", &self.root))?;
        make(&self.root, 0o711, None)?;
        make(&self.run, 0o711, None)?;
        for (base, table) in [(&self.root, DIRECTORIES), (&self.run, RUN_DIRECTORIES)] {
            for directory in table {
                make(&base.join(directory.path), directory.mode, identities.owner(directory.owner))?;
            }
        }
        Ok(())
    }
}

/// Makes the directory if needed, refuses anything else at its place, and sets owner and mode.
/// A symlink or a foreign owner in /tmp would let another user choose where secrets go.
fn make(path: &Path, mode: u32, owner: Option<(Uid, Gid)>) -> Result<(), SupervisorError> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(SupervisorError::io("cannot make", path)(error));
        }
        _ => {}
    }
    let meta = std::fs::symlink_metadata(path).map_err(SupervisorError::io("cannot read", path))?;
    if !meta.is_dir() {
        return Err(SupervisorError::Local(format!("{} exists and is not a directory", path.display())));
    }
    // In /tmp anybody could have made it first; below the home only we can.
    if owner.is_none() && meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(SupervisorError::Local(format!("{} belongs to another user", path.display())));
    }
    if let Some((uid, gid)) = owner {
        rustix::fs::chown(path, Some(uid), Some(gid))
            .map_err(|e| SupervisorError::io("cannot chown", path)(e.into()))?;
    }
    rustix::fs::chmod(path, Mode::from_raw_mode(mode))
        .map_err(|e| SupervisorError::io("cannot chmod", path)(e.into()))
}
