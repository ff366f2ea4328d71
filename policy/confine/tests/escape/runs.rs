//! Each probe in each place, and whether what happened is what the table says.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use mfaas_confine::{AblationToken, Access, Layer, Level, Limits, Mount, Profile};
use mfaas_rules::profiles::seccomp::COMPILER;

use crate::stage::{CANARY, CANARY_VARIABLE, Scene, Stage};
use crate::table::{Probe, Then, Twin, Went};
use crate::{FAMILIES, find};

/// First arguments that give this executable its part.
pub(crate) const SANDBOX: &str = "enter-sandbox";
pub(crate) const ATTEMPT: &str = "attempt";
/// An attempt at nothing, for those that execute something.
pub(crate) const NOTHING: &str = "nothing";

/// Attempts in all that the table must hold.
const PROBES_MIN: usize = 100;
const NOBODY: u32 = 65_534;

fn this() -> PathBuf {
    std::env::current_exe().unwrap()
}

impl From<ExitStatus> for Went {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => Went::Did,
            (Some(errno), _) => Went::Errno(errno),
            (None, Some(libc::SIGSYS)) => Went::Killed,
            (None, signal) => Went::Signal(signal.unwrap_or(0)),
        }
    }
}

/// `act NAME STAGE`: the attempt. Its errno is the exit code: all are below 134.
pub(crate) fn attempt(name: &str, stage: &str) -> ExitCode {
    if name == NOTHING {
        return ExitCode::SUCCESS;
    }
    match (find(name).attempt)(&Stage::decode(stage)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(errno) => ExitCode::from(u8::try_from(errno).unwrap_or(u8::MAX)),
    }
}

/// Where an attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place<'a> {
    Outside,
    /// Namespaces without a sandbox.
    Namespaced,
    /// In a sandbox without these layers.
    Sandbox(&'a [Layer]),
}

fn try_in(place: Place<'_>, probe: &Probe, scene: &Scene) -> Went {
    let stage = scene.stage.encode();
    let mut command = match place {
        Place::Outside => Command::new(this()),
        Place::Namespaced => {
            let mut command = Command::new("unshare");
            command.args(["-Urmpniuf", "--kill-child", "--propagation", "private"]).arg(this());
            command
        }
        Place::Sandbox(layers) => {
            let layers: Vec<String> = layers.iter().map(|layer| format!("{layer:?}")).collect();
            let mut command = Command::new(this());
            command.args([SANDBOX, &layers.join(",")]);
            command
        }
    };
    command.args([ATTEMPT, probe.name, &stage]).env(CANARY_VARIABLE, CANARY);
    let secret = std::fs::File::open(scene.stage.host.join("secret")).unwrap();
    let output = command.stdin(Stdio::from(secret)).stderr(Stdio::null()).output().unwrap();
    if !matches!(place, Place::Sandbox(_)) {
        return output.status.into();
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = printed.lines().find_map(|line| line.strip_prefix("status ")?.parse().ok());
    ExitStatus::from_raw(status.unwrap_or_else(|| panic!("{}: {output:?}", probe.name))).into()
}

/// `enter-sandbox LAYERS attempt NAME STAGE`: a sandbox without these layers, as the build sandbox is made.
pub(crate) fn enter_sandbox(arguments: &[String]) -> ExitCode {
    let stage = Stage::decode(&arguments[3]);
    let token = AblationToken::for_tests();
    let mut profile = profile(&stage);
    let known = [
        Layer::Namespaces,
        Layer::Landlock,
        Layer::Seccomp,
        Layer::Limits,
        Layer::Privileges,
        Layer::Descriptors,
    ];
    for layer in
        known.into_iter().filter(|layer| arguments[0].split(',').any(|name| name == format!("{layer:?}")))
    {
        profile = profile.without(&token, layer);
    }
    let full = !arguments[0].contains("Namespaces");
    let minimum = if full { Level::Full } else { Level::Landlock };
    let (control, _held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let program = this();
    // Whoever executes the program passes no variables on. A careless one passes on all that it has.
    let careless = arguments[0].contains("Descriptors");
    let ended = mfaas_confine::supervise(&profile, minimum, control.as_fd(), &|_| {
        let mut command = Command::new(&program);
        if !careless {
            command.env_clear();
        }
        command.args(&arguments[1..]).current_dir(&stage.scratch).exec()
    });
    match ended {
        Ok(ended) if ended.level == minimum => println!("status {}", ended.wait_status.unwrap()),
        other => println!("unexpected {other:?}"),
    }
    ExitCode::SUCCESS
}

/// This executable, its libraries, a writable and a readable directory, where they stand on the host.
fn profile(stage: &Stage) -> Profile {
    let listing = Command::new("ldd").arg(this()).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    let paths = listing.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let mount = |path: &Path, access| Mount { source: path.to_owned(), target: path.to_owned(), access };
    let mut mounts: Vec<Mount> = paths.map(|path| mount(Path::new(path), Access::Execute)).collect();
    mounts.push(mount(&this(), Access::Execute));
    mounts.push(mount(&stage.scratch, Access::Write));
    mounts.push(mount(&stage.readable, Access::Read));
    let limits = Limits {
        cpu_seconds: 10,
        data_bytes: 256 << 20,
        address_space_bytes: 1 << 30,
        file_bytes: 1 << 20,
        descriptors: 64,
        processes: 16,
        stack_bytes: 8 << 20,
        scratch_bytes: 1 << 20,
    };
    Profile::new(mounts, limits, COMPILER.to_vec()).unwrap()
}

/// As whoever runs the tests, and as an ordinary user besides if that is root.
pub(crate) fn run_table(arguments: &[String]) -> ExitCode {
    let root = rustix::process::geteuid().is_root();
    let known = ["--table", "--as-is"];
    let names: Vec<&String> = arguments.iter().filter(|name| !name.starts_with('-')).collect();
    let show = arguments.iter().any(|argument| argument == known[0]);
    println!("as uid {}:", rustix::process::geteuid().as_raw());
    let mut failed = judge_all(&names, show, root);
    if root && !arguments.iter().any(|argument| argument == known[1]) {
        failed |= !as_nobody(arguments);
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn as_nobody(arguments: &[String]) -> bool {
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("escape");
    std::fs::copy(this(), &copy).unwrap();
    for path in [place.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(&copy);
    command.args(arguments).arg("--as-is").env_remove("TMPDIR").uid(NOBODY).gid(NOBODY).current_dir("/tmp");
    command.status().unwrap().success()
}

/// Whether anything was not as the table says.
fn judge_all(names: &[&String], show: bool, root: bool) -> bool {
    let scene = Scene::set();
    assert!(scene.leaked.as_raw_fd() > 2);
    let (mut count, mut failures) = (0, Vec::new());
    for (family, probes) in FAMILIES {
        let chosen: Vec<&Probe> = probes
            .iter()
            .filter(|probe| names.is_empty() || names.iter().any(|name| probe.name.contains(name.as_str())))
            .collect();
        for probe in &chosen {
            failures.extend(judge(probe, &scene, show, root));
        }
        println!("  {family}: {} probes", chosen.len());
        count += chosen.len();
    }
    println!("  {count} probes, {} of them not as the table says", failures.len());
    failures.iter().for_each(|failure| println!("  FAILED {failure}"));
    if names.is_empty() {
        assert!(count >= PROBES_MIN, "{count} probes are fewer than {PROBES_MIN}");
        check_rows();
    }
    !failures.is_empty()
}

/// No row without an ablation, no name twice.
fn check_rows() {
    let mut names = std::collections::BTreeSet::new();
    for probe in FAMILIES.iter().flat_map(|(_, probes)| probes.iter()) {
        assert!(names.insert(probe.name), "{} is there twice", probe.name);
        assert!(!probe.ablations.is_empty(), "{} names no layer that stops it", probe.name);
    }
}

fn judge(probe: &Probe, scene: &Scene, show: bool, root: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |place: &str, went: Went, fine: bool| {
        if show {
            println!("    {:<28} {place:<34} {went}", probe.name);
        }
        if !fine {
            wrong.push(format!("{} {place}: {went} ({went:?}); it {}", probe.name, probe.tries));
        }
    };
    let inside = try_in(Place::Sandbox(&[]), probe, scene);
    expect("inside", inside, inside == probe.inside && inside != Went::Did);
    let bare = try_in(Place::Sandbox(&[Layer::Namespaces]), probe, scene);
    expect("level landlock", bare, (bare == Went::Did) == probe.weaker.is_some());
    match probe.twin {
        Twin::Outside => {
            let went = try_in(Place::Outside, probe, scene);
            expect("twin outside", went, went == Went::Did);
        }
        Twin::AsRoot if !root => {}
        Twin::AsRoot => {
            let went = try_in(Place::Outside, probe, scene);
            expect("twin as root", went, went == Went::Did);
        }
        Twin::Namespaced => {
            let went = try_in(Place::Namespaced, probe, scene);
            expect("twin in namespaces", went, went == Went::Did);
        }
        Twin::Looks(errnos) => {
            let went = try_in(Place::Outside, probe, scene);
            let expected = matches!(went, Went::Errno(errno) if errnos.contains(&errno));
            expect("twin outside", went, expected && went != probe.inside);
        }
        Twin::Outsider(errnos) => {
            let went = try_in(Place::Outside, probe, scene);
            let answered = matches!(went, Went::Errno(errno) if errnos.contains(&errno));
            expect("twin outside", went, (went == Went::Did || answered) && went != probe.inside);
        }
    }
    let mut answers = Vec::new();
    for (layers, then) in probe.ablations {
        let went = try_in(Place::Sandbox(layers), probe, scene);
        let fine = match then {
            Then::Did => went == Went::Did,
            Then::Further => went != inside,
            Then::Held(errnos) => matches!(went, Went::Errno(errno) if errnos.contains(&errno)),
        };
        expect(&format!("without {layers:?}"), went, fine);
        answers.push(went);
    }
    expect("whatever is off", inside, answers.iter().any(|went| *went != inside));
    wrong
}
