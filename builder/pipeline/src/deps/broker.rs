//! Runs each compilation and each build script of a dependency build in a sandbox of its own.
//!
//! cargo plans the work in a sandbox where nothing of a dependency ever runs: in place of the compiler and of
//! every build script it starts our own program, which asks here. What runs here sees what other units have
//! made and can write none of it: a compilation writes to a new directory, a build script to its `OUT_DIR`.
//! What a compilation has made is taken when nothing of it runs any more, under the one name that cargo gave
//! it, and hashed then. Never is a file of another unit replaced.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use mfaas_ident::Digest;
use mfaas_rules::codes;
use mfaas_rules::limits::DEPENDENCY_UNIT;

use super::exchange::{self, Answer, Ask, EXCHANGE_VARIABLE, LOOK_EVERY};
use super::made::Made;
use super::site::Site;
use super::unit::{Asked, Unit};
use super::wrapper::{BUILD_SCRIPT, PLAN_VARIABLE};
use crate::error::BuilderError;
use crate::sandbox::{Filter, Job, Ran, Sandbox, View};
use crate::toolchain::host_libraries;

/// Where a unit's own directory lies in its sandbox.
const ROOM_INSIDE: &str = "/unit";
/// What it makes, below that.
const MADE_PART: &str = "made";
/// Its temporary files, below that.
const SCRATCH_PART: &str = "tmp";
/// Where a build script lies in its sandbox.
const SCRIPT_INSIDE: &str = "/script";
/// Its file name there.
const SCRIPT_FILE: &str = "script";
/// What cargo says to the programs that it starts itself, and to nobody else: its job server is out of
/// reach from here.
const CARGOS_OWN: [&str; 5] = [EXCHANGE_VARIABLE, PLAN_VARIABLE, "CARGO_MAKEFLAGS", "MAKEFLAGS", "MFLAGS"];

/// Answers what is asked in one run of cargo.
pub(super) struct Broker<'a> {
    site: &'a Site,
    /// Holds the units, and ends them when cargo has ended.
    units: Sandbox,
    /// Holds cargo, and ends it when a unit cannot be answered.
    cargo: Sandbox,
    made: Mutex<Made>,
}

impl<'a> Broker<'a> {
    pub(super) fn new(site: &'a Site, sandbox: &Sandbox) -> Self {
        Self { site, units: sandbox.separately(), cargo: sandbox.separately(), made: Mutex::default() }
    }

    /// Runs cargo and everything that it asks for.
    pub(super) fn run(self, cargo: Job) -> Result<(Ran, Made), BuilderError> {
        let over = AtomicBool::new(false);
        let ran = std::thread::scope(|scope| {
            let (broker, over) = (&self, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    match exchange::take(&broker.site.exchange.host) {
                        Ok(asks) => {
                            for (name, ask) in asks {
                                scope.spawn(move || broker.handle(&name, ask));
                            }
                        }
                        Err(error) => broker.fail(BuilderError::io(&broker.site.exchange.host)(error)),
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
            });
            let ran = self.cargo.run(cargo);
            over.store(true, Ordering::Relaxed);
            self.units.cancel();
            ran
        });
        let mut made = self.made.into_inner().map_err(|_| BuilderError::Panicked)?;
        match made.failed.take() {
            Some(error) => Err(error),
            None => ran.map(|ran| (ran, made)),
        }
    }

    /// Runs one ask and answers it. Without an answer nothing can go on, so cargo ends then.
    fn handle(&self, name: &str, ask: Ask) {
        let answered = match ask.arguments.is_empty() {
            true => self.run_script(ask),
            false => self.compile(ask),
        };
        let place = &self.site.exchange.host;
        let delivered = answered
            .and_then(|answer| exchange::answer(place, name, &answer).map_err(BuilderError::io(place)));
        if let Err(error) = delivered {
            self.fail(error);
        }
    }

    /// The first failure is the reason of all others.
    fn fail(&self, error: BuilderError) {
        self.with_made(|made| {
            made.failed.get_or_insert(error);
        });
        self.cargo.cancel();
    }

    fn with_made<T>(&self, change: impl FnOnce(&mut Made) -> T) -> T {
        // What a thread that panicked leaves is a list with one entry less; its panic ends the scope.
        change(&mut self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// A directory that one unit writes to, and nobody before it.
    fn room(&self) -> Result<View, BuilderError> {
        let number = self.with_made(|made| {
            made.rooms += 1;
            made.rooms
        });
        let host = self.site.rooms.join(number.to_string());
        for part in [MADE_PART, SCRATCH_PART] {
            let path = host.join(part);
            std::fs::create_dir_all(&path).map_err(BuilderError::io(&path))?;
        }
        Ok(self.units.write(&host, ROOM_INSIDE))
    }

    /// cargo's, with temporary files where only this unit writes, and the compiler's libraries from nowhere else.
    fn environment(
        &self,
        mut given: BTreeMap<String, String>,
        room: &View,
        hidden: &[&str],
    ) -> Vec<(String, String)> {
        given.retain(|name, _| !hidden.contains(&name.as_str()));
        for name in ["TMPDIR", "HOME"] {
            given.insert(name.to_owned(), room.path(SCRATCH_PART));
        }
        given.insert("LD_LIBRARY_PATH".to_owned(), self.site.compiler_libraries());
        given.into_iter().collect()
    }

    fn compile(&self, ask: Ask) -> Result<Answer, BuilderError> {
        let asked = Asked::read(&ask.arguments).map_err(not_understood)?;
        self.with_made(|made| made.units.extend(Unit::of(&ask)));
        let room = self.room()?;
        let mut views = self.site.inputs();
        // What links starts the C compiler and may run many programs; everything else is one process.
        let filter = if asked.is_linked() {
            views.extend(self.site.host_system());
            Filter::DependencyBuild
        } else {
            views.extend(host_libraries(&self.units));
            Filter::Compiler
        };
        views.push(room.clone());
        let ran = self.units.run(Job {
            program: ask.program,
            arguments: asked.with_out_dir(&room.path(MADE_PART)),
            environment: self.environment(ask.environment, &room, &CARGOS_OWN),
            directory: ask.directory,
            views,
            limits: DEPENDENCY_UNIT,
            filter,
        })?;
        if ran.exit.success() {
            self.take(&asked, &room)?;
        }
        // A macro prints as the compiler; cargo reads what it is told from the standard output.
        let stderr = [ran.stderr.as_slice(), ran.stdout.as_slice()].concat();
        Ok(answer(ran.exit, Vec::new(), stderr))
    }

    /// Takes what a compilation has made to where cargo looks for it. Nothing of it runs any more.
    fn take(&self, asked: &Asked, room: &View) -> Result<(), BuilderError> {
        let made = room.host.join(MADE_PART);
        let place = self.site.host_of(Path::new(&asked.out_dir)).map_err(not_understood)?;
        for entry in std::fs::read_dir(&made).map_err(BuilderError::product(&made))? {
            let entry = entry.map_err(BuilderError::product(&made))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            let is_file = entry.file_type().map_err(BuilderError::product(&path))?.is_file();
            let target = place.join(&name);
            if !is_file || !asked.makes(&name) || target.symlink_metadata().is_ok() {
                return Err(intruded(&asked.crate_name, &name));
            }
            let inside = Path::new(&asked.out_dir).join(&name);
            if asked.is_script(&name) {
                self.take_script(asked, &path, &target, room)?;
                continue;
            }
            let bytes = std::fs::read(&path).map_err(BuilderError::product(&path))?;
            std::fs::rename(&path, &target).map_err(BuilderError::product(&target))?;
            self.with_made(|made| made.products.insert(inside, Digest::of(&bytes)));
        }
        Ok(())
    }

    /// cargo starts our own program in its place.
    fn take_script(
        &self,
        asked: &Asked,
        made: &Path,
        target: &Path,
        room: &View,
    ) -> Result<(), BuilderError> {
        let kept = room.host.join(SCRIPT_FILE);
        std::fs::create_dir(&kept).map_err(BuilderError::product(&kept))?;
        std::fs::rename(made, kept.join(SCRIPT_FILE)).map_err(BuilderError::product(&kept))?;
        let stand_in = stand_in(&self.site.wrapper.inside).map_err(not_understood)?;
        std::fs::write(target, stand_in).map_err(BuilderError::io(target))?;
        std::fs::set_permissions(target, std::fs::Permissions::from_mode(0o755))
            .map_err(BuilderError::io(target))?;
        self.with_made(|made| made.scripts.insert(PathBuf::from(&asked.out_dir), kept));
        Ok(())
    }

    fn run_script(&self, ask: Ask) -> Result<Answer, BuilderError> {
        let directory = Path::new(&ask.program).parent().unwrap_or(Path::new("")).to_path_buf();
        let kept = self.with_made(|made| made.scripts.get(&directory).cloned());
        let kept = kept.ok_or_else(|| not_understood(format!("{} is no build script", ask.program)))?;
        let inside = ask.environment.get("OUT_DIR").cloned().unwrap_or_default();
        let out = self.site.host_of(Path::new(&inside)).map_err(not_understood)?;
        let room = self.room()?;
        let script = self.units.execute(&kept, SCRIPT_INSIDE);
        let mut views = self.site.inputs();
        views.extend(self.site.host_system());
        views.extend([
            self.site.wrapper.clone(),
            self.site.trusted.clone(),
            script.clone(),
            room.clone(),
            self.units.write_and_execute(&out, &inside),
        ]);
        // Questions that it asks the compiler go through the wrapper, in this very sandbox.
        let hidden = CARGOS_OWN.map(|name| if name == PLAN_VARIABLE { EXCHANGE_VARIABLE } else { name });
        let ran = self.units.run(Job {
            program: script.path(SCRIPT_FILE),
            arguments: Vec::new(),
            environment: self.environment(ask.environment, &room, &hidden),
            directory: ask.directory,
            views,
            limits: DEPENDENCY_UNIT,
            filter: Filter::DependencyBuild,
        })?;
        Ok(answer(ran.exit, ran.stdout, ran.stderr))
    }
}

/// As cargo understands it: a code, and for every other ending a word about it.
fn answer(exit: mfaas_sandbox::Exit, stdout: Vec<u8>, mut stderr: Vec<u8>) -> Answer {
    let code = match exit {
        mfaas_sandbox::Exit::Code(code) => u8::try_from(code).unwrap_or(u8::MAX),
        other => {
            stderr.extend(format!("\nerror: it was ended: {other:?}\n").bytes());
            1
        }
    };
    Answer { code, stdout, stderr }
}

/// What lies where cargo looks for a build script: the kernel starts our program for it (execve(2), "Interpreter
/// scripts").
fn stand_in(wrapper: &str) -> Result<String, String> {
    match wrapper.contains(char::is_whitespace) {
        true => Err(format!("this program lies at `{wrapper}`, and no script can name it")),
        false => Ok(format!("#!{wrapper} {BUILD_SCRIPT}\n")),
    }
}

/// cargo asked something that it does not ask; the build ends.
fn not_understood(problem: String) -> BuilderError {
    BuilderError::Command { command: "cargo", problem }
}

/// A unit made what is not its own; the build ends.
fn intruded(crate_name: &str, file: &str) -> BuilderError {
    let file = mfaas_ident::sanitise_line(file, 200);
    BuilderError::Unit {
        code: codes::MF0411,
        problem: format!("the compilation of `{crate_name}` has made `{file}`, which is not its own"),
    }
}
