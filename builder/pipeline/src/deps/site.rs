//! The work place of one dependency build: its directories, and the commands that run there.

use std::path::{Path, PathBuf};

use mfaas_ident::Digest;
use mfaas_rules::limits::DEPENDENCY_BUILD;
use mfaas_rules::profiles::std_items::Capability;

use super::facade::{self, Crate};
use super::index::{CrateKind, Facade, Product, StandIns};
use super::messages::{self, Compiled};
use super::seed::Seed;
use super::wrapper::{PLAN_VARIABLE, Plan};
use super::{LIBRARY_PART, bundle};
use crate::cage::{Cage, CageMinimum, Filter, Job, Ran, View};
use crate::error::BuilderError;
use crate::flags;
use crate::toolchain::{TARGET, Toolchain, host_libraries};

/// Where a system keeps the C compiler that links build scripts and macros. Functions are never
/// linked by it.
const HOST_LINKER: &str = "/usr/bin/gcc";
/// Where compiled crates lie in the cage.
const LIBRARY_INSIDE: &str = "/deps";
/// Where everything is written in the cage.
const OUT_INSIDE: &str = "/out";
/// What the wrapper notes, below that.
const UNITS_PART: &str = "units";
/// What cargo's packages are compiled against, among our own crates' sources.
const PLAN_FILE: &str = "plan.json";
/// The parts of the system that the host linker needs.
const HOST_SYSTEM: &[&str] = &["/usr/bin", "/usr/lib", "/usr/libexec", "/lib", "/lib64", "/etc/alternatives"];

/// The prepared directories, and where each is found inside the cage.
pub(crate) struct Site {
    cage: Cage,
    compiler: View,
    trusted: View,
    vendor: View,
    seed: View,
    own: View,
    out: View,
    /// Becomes the finished cache.
    pub(super) result: PathBuf,
}

/// How the compiler's messages come: what cargo itself says are objects either way.
#[derive(Clone, Copy)]
enum Messages {
    /// On standard error, as text for people.
    Drawn,
    /// Among cargo's objects.
    Objects,
}

impl Messages {
    fn argument(self) -> &'static str {
        match self {
            Self::Drawn => "--message-format=json-render-diagnostics",
            Self::Objects => "--message-format=json",
        }
    }
}

impl Site {
    pub(crate) fn prepare(
        seed: &Seed,
        generated: &[(String, String)],
        vendor: &Path,
        toolchain: &Toolchain,
        staging: &Path,
        minimum: CageMinimum,
    ) -> Result<Self, BuilderError> {
        let directory = |name: &str| {
            let path = staging.join(name);
            std::fs::create_dir_all(&path).map_err(BuilderError::io(&path)).map(|()| path)
        };
        let vendor = vendor.canonicalize().map_err(BuilderError::io(vendor))?;
        let (seed_root, own_root, out) = (directory("seed")?, directory("own")?, directory("out")?);
        let result = directory("result")?;
        directory("result/lib")?;
        for name in ["out/home", "out/tmp", "out/own", "out/cargo"] {
            directory(name)?;
        }
        for (path, bytes) in &seed.files {
            write_file(&seed_root.join(path), bytes)?;
        }
        for (path, text) in generated {
            write_file(&own_root.join(path), text.as_bytes())?;
        }
        bundle::write(&own_root)?;
        let cage = Cage::new(minimum)?;
        let site = Self {
            compiler: cage.execute(&toolchain.compiler_root(), "/toolchain"),
            trusted: cage.execute(&toolchain.trusted_root(), "/trusted"),
            vendor: cage.read(&vendor, "/vendor"),
            seed: cage.read(&seed_root, "/seed"),
            own: cage.read(&own_root, "/own"),
            out: cage.write_and_execute(&out, OUT_INSIDE),
            result,
            cage,
        };
        let config = format!(
            "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = {:?}\n",
            site.vendor.inside
        );
        let path = out.join("cargo/config.toml");
        std::fs::write(&path, config).map_err(BuilderError::io(&path))?;
        Ok(site)
    }

    /// Writes what each package is compiled against: the stand-ins for what it was granted.
    pub(super) fn write_plan(&self, seed: &Seed, facade: &Facade) -> Result<(), BuilderError> {
        let library = self.cage.load(&self.library(), LIBRARY_INSIDE);
        let mut plan = Plan::default();
        for name in seed.lock.names() {
            let granted = seed.grants.of(name);
            let mut flags = Vec::new();
            if !granted.contains(&Capability::Real) {
                let products = facade.stand_ins(granted).ok_or_else(|| BuilderError::Deps {
                    path: self.result.clone(),
                    problem: format!("there is no facade for {name}"),
                })?;
                flags.push(format!("-Ldependency={}", library.inside));
                flags.extend(products.map(|product| {
                    format!("--extern={}={}", product.extern_name, library.path(&product.file))
                }));
            }
            plan.packages.insert(name.to_string(), flags);
        }
        self.write_plan_file(&plan)
    }

    fn write_plan_file(&self, plan: &Plan) -> Result<(), BuilderError> {
        let json = serde_json::to_vec_pretty(plan)
            .map_err(|error| BuilderError::Deps { path: self.result.clone(), problem: error.to_string() })?;
        write_file(&self.own.host.join(PLAN_FILE), &json)
    }

    pub(super) fn run_cargo(&self) -> Result<Vec<Compiled>, BuilderError> {
        let ran = succeeded("cargo", self.cargo(&["build"], Messages::Drawn)?)?;
        messages::parse(&ran.stdout, TARGET)
            .map(|said| said.compiled)
            .map_err(|problem| BuilderError::Command { command: "cargo", problem })
    }

    /// Writes a plan by which every package sees the library as it is, and the wrapper notes what it
    /// asks the compiler.
    pub(crate) fn plan_to_record(&self, seed: &Seed) -> Result<(), BuilderError> {
        let units = self.out.host.join(UNITS_PART);
        std::fs::create_dir_all(&units).map_err(BuilderError::io(&units))?;
        let packages = seed.lock.names().map(|name| (name.to_string(), Vec::new())).collect();
        self.write_plan_file(&Plan { packages, record: Some(self.out.path(UNITS_PART)) })
    }

    /// Type-checks everything, as far as it goes, and answers what cargo says about it. With a plan to
    /// record, what each compiler was asked lies in [`Site::units`] afterwards.
    pub(crate) fn check(&self) -> Result<Ran, BuilderError> {
        self.cargo(&["check", "--keep-going"], Messages::Drawn)
    }

    /// The same against the stand-ins of a plan, with the compiler's messages as objects.
    pub(super) fn check_in_words(&self) -> Result<Ran, BuilderError> {
        self.cargo(&["check", "--keep-going"], Messages::Objects)
    }

    /// Where the wrapper's notes lie.
    pub(crate) fn units(&self) -> PathBuf {
        self.out.host.join(UNITS_PART)
    }

    /// Runs the compiler once more on what was compiled here: nothing that is here can be changed by
    /// it, and nothing else runs in that cage. `scratch` is for its output.
    pub(crate) fn ask_compiler(
        &self,
        arguments: Vec<String>,
        mut environment: Vec<(String, String)>,
        directory: String,
        scratch: &View,
    ) -> Result<Ran, BuilderError> {
        environment.push(("TMPDIR".to_owned(), scratch.inside.clone()));
        environment.push(("LD_LIBRARY_PATH".to_owned(), self.compiler.path("lib")));
        let mut views = host_libraries(&self.cage);
        let out = self.cage.load(&self.out.host, OUT_INSIDE);
        views.extend([self.compiler.clone(), self.vendor.clone(), self.seed.clone(), out, scratch.clone()]);
        self.cage.run(Job {
            program: self.compiler.path("bin/rustc"),
            arguments,
            environment,
            directory,
            views,
            limits: DEPENDENCY_BUILD,
            filter: Filter::Compiler,
        })
    }

    /// A directory to write to in [`Site::ask_compiler`].
    pub(crate) fn scratch(&self, host: &Path) -> View {
        self.cage.write(host, "/scratch")
    }

    /// Runs cargo on the seed, with our wrapper in place of rustc. It may fail.
    fn cargo(&self, command: &[&str], messages: Messages) -> Result<Ran, BuilderError> {
        let arguments = command
            .iter()
            .chain(&["--release", "--frozen", "--offline", messages.argument()])
            .map(|argument| (*argument).to_owned())
            .chain([format!("--target={TARGET}"), format!("--target-dir={}", self.out.path("target"))])
            .collect();
        let rustflags = [
            flags::remap(&self.vendor.inside, flags::CRATES_PREFIX),
            flags::remap(&self.seed.inside, flags::CRATES_PREFIX),
            flags::remap(&self.out.inside, flags::GENERATED_PREFIX),
        ];
        let this = std::env::current_exe().map_err(BuilderError::io("this program's own file"))?;
        let wrapper = self.cage.execute(&this, "/wrapper");
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut environment = vec![
            ("PATH".to_owned(), "/usr/bin".to_owned()),
            ("HOME".to_owned(), self.out.path("home")),
            ("CARGO_HOME".to_owned(), self.out.path("cargo")),
            ("CARGO_TERM_COLOR".to_owned(), "never".to_owned()),
            ("CARGO_BUILD_JOBS".to_owned(), jobs.to_string()),
            ("CARGO_ENCODED_RUSTFLAGS".to_owned(), rustflags.join("\u{1f}")),
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER".to_owned(), HOST_LINKER.to_owned()),
            ("RUSTC".to_owned(), self.compiler.path("bin/rustc")),
            ("RUSTC_WRAPPER".to_owned(), wrapper.inside.clone()),
            (PLAN_VARIABLE.to_owned(), self.own.path(PLAN_FILE)),
        ];
        environment.extend(
            flags::CARGO_PROFILE.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let library = self.cage.load(&self.library(), LIBRARY_INSIDE);
        let mut views = vec![self.trusted.clone(), self.vendor.clone(), wrapper, library];
        views.extend(
            HOST_SYSTEM
                .iter()
                .filter(|path| Path::new(path).exists())
                .map(|path| self.cage.execute(Path::new(path), path)),
        );
        self.run(self.trusted.path("bin/cargo"), arguments, environment, views)
    }

    /// Runs one trusted command with the compiler, the seed and our sources in view.
    fn run(
        &self,
        program: String,
        arguments: Vec<String>,
        mut environment: Vec<(String, String)>,
        mut views: Vec<View>,
    ) -> Result<Ran, BuilderError> {
        environment.push(("TMPDIR".to_owned(), self.out.path("tmp")));
        environment.push(("LD_LIBRARY_PATH".to_owned(), self.compiler.path("lib")));
        views.extend([self.compiler.clone(), self.seed.clone(), self.own.clone(), self.out.clone()]);
        self.cage.run(Job {
            program,
            arguments,
            environment,
            directory: self.seed.inside.clone(),
            views,
            limits: DEPENDENCY_BUILD,
            filter: Filter::DependencyBuild,
        })
    }

    /// Compiles one of our own crates into the library directory, against crates that are there.
    pub(super) fn compile_own(
        &self,
        file: &str,
        name: &str,
        configuration: &[&str],
        externs: &[Product],
    ) -> Result<Product, BuilderError> {
        let library = self.cage.load(&self.library(), LIBRARY_INSIDE);
        let product = self.out.path(&format!("own/lib{name}.rlib"));
        let mut arguments = vec![
            flags::EDITION.to_owned(),
            "--crate-type=rlib".to_owned(),
            format!("--crate-name={name}"),
            "--cap-lints=allow".to_owned(),
            flags::remap(&self.own.inside, flags::OWN_PREFIX),
            format!("--sysroot={}", self.compiler.inside),
            format!("-Ldependency={}", library.inside),
            "-o".to_owned(),
            product.clone(),
            self.own.path(file),
        ];
        arguments.extend(flags::CODE_GENERATION.iter().map(|flag| (*flag).to_owned()));
        arguments.extend(configuration.iter().map(|flag| format!("--cfg={flag}")));
        for item in externs {
            arguments.push(format!("--extern={}={}", item.extern_name, library.path(&item.file)));
        }
        let rustc = self.compiler.path("bin/rustc");
        let mut views = host_libraries(&self.cage);
        views.push(library);
        succeeded("rustc on our own crates", self.run(rustc, arguments, Vec::new(), views)?)?;
        let (file, digest) = self.keep(Path::new(&product))?;
        Ok(Product { kind: CrateKind::Library, extern_name: name.to_owned(), file, digest })
    }

    /// Compiles the stand-ins for the standard library, for every combination of capabilities
    /// that somebody was granted.
    pub(super) fn compile_facade(
        &self,
        sets: &[(Vec<Capability>, Vec<Crate>)],
    ) -> Result<Facade, BuilderError> {
        let compile = |item: &Crate, externs: &[Product]| {
            let product = self.compile_own(&item.file, &item.name, &[], externs)?;
            Ok::<_, BuilderError>(Product { extern_name: item.extern_name.to_owned(), ..product })
        };
        let own = compile(&facade::own_crate(), &[])?;
        let compiler_crates =
            facade::compiler_crates().iter().map(|item| compile(item, &[])).collect::<Result<_, _>>()?;
        let mut compiled = Vec::new();
        for (granted, crates) in sets {
            let crates = crates
                .iter()
                .map(|item| compile(item, std::slice::from_ref(&own)))
                .collect::<Result<_, _>>()?;
            compiled.push(StandIns { granted: granted.clone(), crates });
        }
        Ok(Facade { own, compiler_crates, sets: compiled })
    }

    /// Copies one product into the library directory; answers its name and digest.
    pub(super) fn keep(&self, inside: &Path) -> Result<(String, Digest), BuilderError> {
        let problem =
            |problem: &str| BuilderError::Deps { path: inside.to_path_buf(), problem: problem.to_owned() };
        let relative = inside
            .strip_prefix(&self.out.inside)
            .map_err(|_| problem("the product lies outside the output directory"))?;
        let name =
            inside.file_name().and_then(|name| name.to_str()).ok_or_else(|| problem("it has no name"))?;
        let host = self.out.host.join(relative);
        let bytes = std::fs::read(&host).map_err(BuilderError::io(&host))?;
        let target = self.library().join(name);
        std::fs::write(&target, &bytes).map_err(BuilderError::io(&target))?;
        Ok((name.to_owned(), Digest::of(&bytes)))
    }

    fn library(&self) -> PathBuf {
        self.result.join(LIBRARY_PART)
    }
}

fn succeeded(command: &'static str, ran: Ran) -> Result<Ran, BuilderError> {
    if ran.exit.success() {
        return Ok(ran);
    }
    let said = mfaas_ident::sanitise(&String::from_utf8_lossy(&ran.stderr), 8_000);
    Err(BuilderError::Command { command, problem: format!("{:?}\n{said}", ran.exit) })
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), BuilderError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(BuilderError::io(parent))?;
    }
    std::fs::write(path, bytes).map_err(BuilderError::io(path))
}
