//! Specs for this executable and for the toolchain.

use std::path::{Path, PathBuf};

use mfaas_rules::limits::CompileLimits;
use mfaas_sandbox::{Access, Cancel, Filter, Level, Mount, Outcome, Sandbox, SandboxSpec};

/// The argument that makes this executable a helper as programs have it.
pub(crate) const PRODUCTION: &str = "production-sandbox-exec";

pub(crate) const LIMITS: CompileLimits = CompileLimits {
    cpu_seconds_max: 20,
    wall_seconds_max: 60,
    memory_bytes_max: 1 << 30,
    file_bytes_max: 64 << 20,
    output_bytes_max: 1 << 20,
    processes_max: 64,
    descriptors_max: 64,
};

pub(crate) fn this_executable() -> PathBuf {
    std::env::current_exe().unwrap()
}

pub(crate) fn mount(source: impl AsRef<Path>, target: impl AsRef<Path>, access: Access) -> Mount {
    Mount { source: source.as_ref().to_owned(), target: target.as_ref().to_owned(), access }
}

/// The libraries that `program` needs and its interpreter, as ldd finds them, where it finds them.
pub(crate) fn libraries(program: &Path) -> Vec<Mount> {
    let listing = std::process::Command::new("ldd").arg(program).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    let paths = listing.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let system = paths.filter(|path| path.starts_with("/lib") || path.starts_with("/usr/lib"));
    system.map(|path| mount(path, path, Access::Execute)).collect()
}

/// A sandbox around a probe of this executable, with `/work` to write to.
pub(crate) fn probe_spec(work: &Path, probe: &[&str]) -> SandboxSpec {
    let exe = this_executable();
    let mut mounts = libraries(&exe);
    mounts.push(mount(&exe, "/probe", Access::Execute));
    mounts.push(mount(work, "/scratch", Access::Write));
    let mut arguments = vec![crate::probes::PROBE.to_owned()];
    arguments.extend(probe.iter().map(|argument| (*argument).to_owned()));
    SandboxSpec {
        program: PathBuf::from("/probe"),
        arguments,
        environment: Vec::new(),
        directory: PathBuf::from("/scratch"),
        mounts,
        filter: Filter::Compiler,
        limits: LIMITS,
        level: Level::Full,
    }
}

/// The same spec with every mount where it stands on the host, which level landlock needs.
pub(crate) fn in_place(mut spec: SandboxSpec, work: &Path) -> SandboxSpec {
    for mount in &mut spec.mounts {
        mount.target.clone_from(&mount.source);
    }
    spec.program = this_executable();
    spec.directory = work.to_owned();
    spec.level = Level::Landlock;
    spec
}

pub(crate) fn sandbox(spec: SandboxSpec) -> Sandbox {
    Sandbox::new(spec, this_executable()).unwrap()
}

pub(crate) fn run(spec: SandboxSpec) -> Outcome {
    sandbox(spec).run(&Cancel::new()).unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
