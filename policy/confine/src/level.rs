//! How strong a sandbox is.

/// How strong a sandbox is. Ordered: what `Landlock` has, `Full` has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// landlock, seccomp, resource limits. The host's process ids and file names stay visible.
    Landlock,
    /// The same in its own user, mount, pid, network, IPC, UTS and cgroup namespaces, on a root
    /// that contains nothing but the profile's mounts.
    Full,
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Level::Landlock => "landlock",
            Level::Full => "full",
        })
    }
}
