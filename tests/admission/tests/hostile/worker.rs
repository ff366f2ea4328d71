//! An image in a real worker, in a namespace of its own.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// What a node asks of a worker against speculation.
const CONTROLS: &str = r#"{"indirect_branches":true,"store_bypass":true,"core_scheduling":true}"#;
/// CPU time of a call: enough for what is benign about the samples.
const BUDGET: &str = "20ms";
/// Calls: what the first leaves behind would show in the second.
const TIMES: &str = "2";

/// A copy of the worker where another user can execute it.
#[derive(Debug)]
pub(crate) struct Jail {
    directory: tempfile::TempDir,
    worker: PathBuf,
    /// Whether protection keys hold calls on this machine.
    keys: bool,
}

impl Jail {
    pub(crate) fn new(worker: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir()
            .context("a directory for the worker")?;
        let copy = directory.path().join("mfaas-worker");
        std::fs::copy(worker, &copy).with_context(|| worker.display().to_string())?;
        let mut jail = Self { directory, worker: copy, keys: false };
        let said = jail.command().args(["--protection", CONTROLS]).output().context("ask the worker")?;
        let said: serde_json::Value =
            serde_json::from_slice(&said.stdout).context("what holds calls here")?;
        jail.keys = said["keys"]["on"].as_bool().context("nothing about keys")?;
        Ok(jail)
    }

    /// Whether protection keys hold calls on this machine.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys
    }

    /// Calls the image and answers the last call's status; `worker ended` if a call ended the
    /// worker, `not loaded` if the loader would not have it.
    pub(crate) fn call(&self, image: &[u8], more: &[&str]) -> anyhow::Result<String> {
        let file = tempfile::NamedTempFile::new_in(self.directory.path())?;
        std::fs::write(file.path(), image)?;
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644))?;
        let mut child = self
            .command()
            .arg("--call")
            .arg(file.path())
            .args(["--budget", BUDGET, "--times", TIMES])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start a worker in a namespace")?;
        // A worker that refuses the image reads no request.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(b"probe"));
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        if complaint.contains("the worker ended") {
            return Ok("worker ended".to_owned());
        }
        let Some(last) = text.lines().last() else {
            anyhow::ensure!(!complaint.trim().is_empty(), "the worker printed nothing");
            return Ok("not loaded".to_owned());
        };
        let answer: serde_json::Value = serde_json::from_str(last).with_context(|| last.to_owned())?;
        Ok(answer["status"].as_str().context("no status")?.to_owned())
    }

    /// Nobody, in namespaces without network, neighbours or a say over mounts.
    fn command(&self) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "60"]);
        if rustix::process::geteuid().is_root() {
            command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command
            .args([
                "unshare",
                "--user",
                "--mount",
                "--pid",
                "--net",
                "--ipc",
                "--uts",
                "--fork",
                "--kill-child",
            ])
            .arg(&self.worker)
            .current_dir("/");
        command
    }
}
