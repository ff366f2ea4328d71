//! Starting one process: as its own user, with an empty environment plus its slice, with its
//! output on the way into its log, in its own process group.
//!
//! A program's environment holds exactly what [`Launch::env`] lists; nothing of the caller's
//! environment reaches it, so no secret of the person who typed `mfaas up` can.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::fs::Mode;

use crate::error::SupervisorError;
use crate::identity::{Identities, Role};
use crate::layout::Home;
use crate::logs::{Copying, SharedLog};

/// How much of a failed step's output a person is shown, in bytes.
const TAIL_BYTES_MAX: usize = 4_000;

/// One process to start.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// As whom.
    pub(crate) role: Role,
    /// What.
    pub(crate) program: PathBuf,
    /// Its arguments; never a secret, since everybody can read them.
    pub(crate) args: Vec<OsString>,
    /// Its whole environment.
    pub(crate) env: Vec<(&'static str, OsString)>,
}

impl Launch {
    /// `program` without arguments or environment.
    pub(crate) fn new(role: Role, program: impl Into<PathBuf>) -> Self {
        Self { role, program: program.into(), args: Vec::new(), env: Vec::new() }
    }

    /// With one more argument.
    #[must_use]
    pub(crate) fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.args.push(argument.into());
        self
    }

    /// With these arguments.
    #[must_use]
    pub(crate) fn args<T: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With one more variable.
    #[must_use]
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Starts it in the background, its output copied into `log`. Whoever calls must reap it.
    pub(crate) fn spawn(
        &self,
        home: &Home,
        identities: &Identities,
        log: &SharedLog,
    ) -> Result<(i32, Copying), SupervisorError> {
        let broken = |error| SupervisorError::io("cannot start", &self.program)(error);
        let (reader, writer) = std::io::pipe().map_err(broken)?;
        let second = writer.try_clone().map_err(broken)?;
        let copying = Copying::start(reader, Arc::clone(log)).map_err(broken)?;
        let child = self
            .command(home, identities)
            .stdout(writer)
            .stderr(second)
            .process_group(0)
            .spawn()
            .map_err(broken)?;
        let pid = i32::try_from(child.id())
            .map_err(|_| SupervisorError::Local("the kernel gave a pid beyond its range".to_owned()))?;
        Ok((pid, copying))
    }

    /// Runs it to its end and returns what it printed, trimmed. It may take as long as it needs:
    /// a person sees the step and can press Ctrl-C.
    pub(crate) fn run(&self, home: &Home, identities: &Identities) -> Result<String, SupervisorError> {
        finish(&mut self.command(home, identities), &self.program, &self.args)
    }

    fn command(&self, home: &Home, identities: &Identities) -> Command {
        // Blob writers share a group and nothing with others; a program that wants less says so.
        set_umask(0o007);
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .current_dir(home.root());
        if let Some((uid, gid)) = identities.of(self.role) {
            // std drops the supplementary groups when it sets the uid.
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        command
    }
}

/// Runs a tool as ourselves, with our own environment (it needs cargo, rustup, a proxy …), and
/// returns what it printed. Files it makes are readable by all.
pub(crate) fn run_as_self<T: Into<OsString>>(
    program: &Path,
    args: impl IntoIterator<Item = T>,
) -> Result<String, SupervisorError> {
    set_umask(0o022);
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    finish(Command::new(program).args(&args).stdin(Stdio::null()), program, &args)
}

fn finish(command: &mut Command, program: &Path, args: &[OsString]) -> Result<String, SupervisorError> {
    let output = command.output().map_err(SupervisorError::io("cannot start", program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let what = args.iter().take(2).map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ");
    Err(SupervisorError::Local(format!("{name} {what} failed ({}): {}", output.status, tail(&output.stderr))))
}

/// The end of a program's complaint, cut at a line.
fn tail(stderr: &[u8]) -> String {
    let start = stderr.len().saturating_sub(TAIL_BYTES_MAX);
    let text = mfaas_ident::sanitise(&String::from_utf8_lossy(&stderr[start..]), TAIL_BYTES_MAX);
    text.trim().to_owned()
}

fn set_umask(mask: u32) {
    rustix::process::umask(Mode::from_raw_mode(mask));
}

/// The programs that `mfaas` runs, as a set that belongs together.
#[derive(Debug, Clone)]
pub struct Siblings {
    directory: PathBuf,
}

/// What must stand beside `mfaas`.
const SIBLINGS: [&str; 9] = [
    "mfaas-server",
    "mfaas-signer",
    "mfaas-isolation",
    "mfaas-broker",
    "mfaas-builder",
    "mfaas-rewriter",
    "mfaas-node",
    "mfaas-worker",
    "mfaas-loader",
];

impl Siblings {
    /// The programs beside our own executable; all must be there.
    pub fn beside_us() -> Result<Self, SupervisorError> {
        let own = std::env::current_exe()
            .map_err(|e| SupervisorError::Local(format!("cannot find our own executable: {e}")))?;
        let directory = own.parent().unwrap_or(Path::new("/")).to_owned();
        match SIBLINGS.iter().find(|name| !directory.join(name).is_file()) {
            None => Ok(Self { directory }),
            Some(missing) => Err(SupervisorError::Local(format!(
                "{missing} is not beside {}; build or install all programs together",
                own.display()
            ))),
        }
    }

    /// The same programs where the system users can reach them: in place when every directory on
    /// the way is open to others, otherwise copied to `bin/` of the home (/root is closed).
    pub(crate) fn reachable(self, home: &Home, identities: &Identities) -> Result<Self, SupervisorError> {
        if identities.is_one_uid() || SIBLINGS.iter().all(|name| open_to_others(&self.directory.join(name))) {
            return Ok(self);
        }
        let bin = home.join("bin");
        for name in SIBLINGS {
            copy_if_changed(&self.directory.join(name), &bin.join(name))?;
        }
        Ok(Self { directory: bin })
    }

    /// The path of one of them.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

fn open_to_others(file: &Path) -> bool {
    file.ancestors().all(|path| {
        std::fs::metadata(path).is_ok_and(|meta| std::os::unix::fs::MetadataExt::mode(&meta) & 0o001 != 0)
    })
}

/// Copies a program unless the copy has the same size and is not older.
fn copy_if_changed(from: &Path, to: &Path) -> Result<(), SupervisorError> {
    let source = std::fs::metadata(from).map_err(SupervisorError::io("cannot read", from))?;
    let current = std::fs::metadata(to).is_ok_and(|copy| {
        copy.len() == source.len()
            && matches!((copy.modified(), source.modified()), (Ok(copy), Ok(source)) if copy >= source)
    });
    if current {
        return Ok(());
    }
    let temporary = to.with_extension("new");
    std::fs::copy(from, &temporary).map_err(SupervisorError::io("cannot copy to", &temporary))?;
    rustix::fs::chmod(&temporary, Mode::from_raw_mode(0o755))
        .map_err(|e| SupervisorError::io("cannot chmod", &temporary)(e.into()))?;
    std::fs::rename(&temporary, to).map_err(SupervisorError::io("cannot replace", to))
}
