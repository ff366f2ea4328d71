//! The work place of one dependency build: its directories, and the commands that run there.

use std::path::{Component, Path, PathBuf};

use mfaas_ident::Digest;
use mfaas_rules::codes;
use mfaas_rules::limits::{DEPENDENCY_BUILD, DEPENDENCY_UNITS_AT_ONCE_MAX};
use mfaas_rules::profiles::std_items::Capability;

use super::bundle;
use super::cache::LIBRARY_PART;
use super::facade::{self, Crate};
use super::index::{CrateKind, Facade, Product, StandIns};
use super::made::Made;
use super::seed::Seed;
use super::wrapper::{PLAN_VARIABLE, Plan};
use crate::error::BuilderError;
use crate::flags;
use crate::sandbox::{Filter, Job, Ran, Sandbox, SandboxMinimum, View};
use crate::toolchain::{Toolchain, host_libraries};

/// Where a system keeps the C compiler that links build scripts and macros. Functions are never
/// linked by it.
const HOST_LINKER: &str = "/usr/bin/gcc";
/// Where compiled crates lie in the sandbox.
pub(super) const LIBRARY_INSIDE: &str = "/deps";
/// Where everything is written in the sandbox.
const OUT_INSIDE: &str = "/out";
/// Where our own crates are made, below that.
const OWN_PART: &str = "own";
/// Where our program asks for units to be run.
const EXCHANGE_INSIDE: &str = "/exchange";
/// Our own program, in place of rustc and of build scripts.
const WRAPPER_INSIDE: &str = "/wrapper";
/// What cargo's packages are compiled against, among our own crates' sources.
const PLAN_FILE: &str = "plan.json";
/// The parts of the system that the host linker needs.
const HOST_SYSTEM: &[&str] = &["/usr/bin", "/usr/lib", "/usr/libexec", "/lib", "/lib64", "/etc/alternatives"];

/// The prepared directories, and where each is found inside the sandbox.
pub(crate) struct Site {
    pub(super) sandbox: Sandbox,
    compiler: View,
    pub(super) trusted: View,
    pub(super) vendor: View,
    seed: View,
    own: View,
    pub(super) out: View,
    pub(super) wrapper: View,
    pub(super) exchange: View,
    /// Where each unit has a directory of its own, outside of all others' sight.
    pub(super) rooms: PathBuf,
    /// Test programs compile everything in one sandbox, to show what is stopped otherwise.
    #[cfg(feature = "ablation")]
    pub(super) together: bool,
    /// Becomes the finished cache.
    pub(super) result: PathBuf,
}

impl Site {
    pub(crate) fn prepare(
        seed: &Seed,
        generated: &[(String, String)],
        vendor: &Path,
        toolchain: &Toolchain,
        staging: &Path,
        minimum: SandboxMinimum,
    ) -> Result<Self, BuilderError> {
        let directory = |name: &str| {
            let path = staging.join(name);
            std::fs::create_dir_all(&path).map_err(BuilderError::io(&path)).map(|()| path)
        };
        let vendor = vendor.canonicalize().map_err(BuilderError::io(vendor))?;
        let (seed_root, own_root, out) = (directory("seed")?, directory("own")?, directory("out")?);
        let result = directory("result")?;
        let (rooms, exchange) = (directory("rooms")?, directory("exchange")?);
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
        let sandbox = Sandbox::new(minimum)?;
        let this = std::env::current_exe().map_err(BuilderError::io("this program's own file"))?;
        let site = Self {
            compiler: sandbox.execute(&toolchain.compiler_root(), "/toolchain"),
            trusted: sandbox.execute(&toolchain.trusted_root(), "/trusted"),
            vendor: sandbox.read(&vendor, "/vendor"),
            seed: sandbox.read(&seed_root, "/seed"),
            own: sandbox.read(&own_root, "/own"),
            // Executed: what stands in for build scripts, which cargo copies.
            out: sandbox.write_and_execute(&out, OUT_INSIDE),
            wrapper: sandbox.execute(&this, WRAPPER_INSIDE),
            exchange: sandbox.write(&exchange, EXCHANGE_INSIDE),
            rooms,
            #[cfg(feature = "ablation")]
            together: false,
            result,
            sandbox,
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
        let library = self.sandbox.load(&self.library(), LIBRARY_INSIDE);
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

    /// Writes a plan by which every package sees the library as it is.
    pub(crate) fn plan_without_facade(&self, seed: &Seed) -> Result<(), BuilderError> {
        let packages = seed.lock.names().map(|name| (name.to_string(), Vec::new())).collect();
        self.write_plan_file(&Plan { packages })
    }

    /// Runs the compiler once more on what was compiled here: nothing that is here can be changed by
    /// it, and nothing else runs in that sandbox. `scratch` is for its output.
    pub(crate) fn ask_compiler(
        &self,
        arguments: Vec<String>,
        mut environment: Vec<(String, String)>,
        directory: String,
        scratch: &View,
    ) -> Result<Ran, BuilderError> {
        environment.push(("TMPDIR".to_owned(), scratch.inside.clone()));
        environment.push(("LD_LIBRARY_PATH".to_owned(), self.compiler.path("lib")));
        let mut views = host_libraries(&self.sandbox);
        let out = self.sandbox.load(&self.out.host, OUT_INSIDE);
        views.extend([self.compiler.clone(), self.vendor.clone(), self.seed.clone(), out, scratch.clone()]);
        self.sandbox.run(Job {
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
        self.sandbox.write(host, "/scratch")
    }

    pub(super) fn cargo_environment(&self) -> Vec<(String, String)> {
        let rustflags = [
            flags::remap(&self.vendor.inside, flags::CRATES_PREFIX),
            flags::remap(&self.seed.inside, flags::CRATES_PREFIX),
            flags::remap(&self.out.inside, flags::GENERATED_PREFIX),
        ];
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = jobs.min(DEPENDENCY_UNITS_AT_ONCE_MAX);
        let mut environment = vec![
            ("PATH".to_owned(), "/usr/bin".to_owned()),
            ("HOME".to_owned(), self.out.path("home")),
            ("TMPDIR".to_owned(), self.out.path("tmp")),
            ("CARGO_HOME".to_owned(), self.out.path("cargo")),
            ("CARGO_TERM_COLOR".to_owned(), "never".to_owned()),
            ("CARGO_BUILD_JOBS".to_owned(), jobs.to_string()),
            ("CARGO_ENCODED_RUSTFLAGS".to_owned(), rustflags.join("\u{1f}")),
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER".to_owned(), HOST_LINKER.to_owned()),
            ("RUSTC".to_owned(), self.compiler.path("bin/rustc")),
            ("RUSTC_WRAPPER".to_owned(), self.wrapper.inside.clone()),
            (PLAN_VARIABLE.to_owned(), self.own.path(PLAN_FILE)),
        ];
        environment.extend(
            flags::CARGO_PROFILE.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        environment
    }

    /// What every unit of a dependency build reads: the compiler, all sources, and what others have made.
    pub(super) fn inputs(&self) -> Vec<View> {
        vec![
            self.compiler.clone(),
            self.seed.clone(),
            self.own.clone(),
            self.vendor.clone(),
            self.sandbox.load(&self.library(), LIBRARY_INSIDE),
            self.sandbox.load(&self.out.host, OUT_INSIDE),
        ]
    }

    /// What links for this machine, and what build scripts start.
    pub(super) fn host_system(&self) -> Vec<View> {
        let there = HOST_SYSTEM.iter().filter(|path| Path::new(path).exists());
        there.map(|path| self.sandbox.execute(Path::new(path), path)).collect()
    }

    /// Where the compiler's own libraries are.
    pub(super) fn compiler_libraries(&self) -> String {
        self.compiler.path("lib")
    }

    /// The directory of this machine behind one below cargo's output.
    pub(super) fn host_of(&self, inside: &Path) -> Result<PathBuf, String> {
        let relative = inside.strip_prefix(&self.out.inside).ok();
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        match relative {
            Some(relative) if relative.components().all(is_plain) => {
                let host = self.out.host.join(relative);
                // cargo made it, and nobody else writes above it.
                if host.is_dir() { Ok(host) } else { Err(format!("{} is no directory", inside.display())) }
            }
            _ => Err(format!("{} lies outside the output directory", inside.display())),
        }
    }

    /// One trusted command with the compiler, the seed and our sources in view.
    pub(super) fn job(
        &self,
        program: String,
        arguments: Vec<String>,
        mut environment: Vec<(String, String)>,
    ) -> Job {
        environment.push(("LD_LIBRARY_PATH".to_owned(), self.compiler_libraries()));
        Job {
            program,
            arguments,
            environment,
            directory: self.seed.inside.clone(),
            views: vec![self.compiler.clone(), self.seed.clone(), self.own.clone()],
            limits: DEPENDENCY_BUILD,
            filter: Filter::DependencyBuild,
        }
    }

    /// Compiles one of our own crates into the library directory, against crates that are there.
    pub(super) fn compile_own(
        &self,
        file: &str,
        name: &str,
        configuration: &[&str],
        externs: &[Product],
    ) -> Result<Product, BuilderError> {
        let library = self.sandbox.load(&self.library(), LIBRARY_INSIDE);
        let product = self.out.path(&format!("{OWN_PART}/lib{name}.rlib"));
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
        let mut job = self.job(rustc, arguments, vec![("TMPDIR".to_owned(), self.out.path("tmp"))]);
        job.filter = Filter::Compiler;
        job.views.extend(host_libraries(&self.sandbox));
        // A macro of a dependency would run here, and reach what comes of this compilation alone.
        job.views
            .extend([library, self.sandbox.write(&self.out.host.join(OWN_PART), &self.out.path(OWN_PART))]);
        job.views.push(self.sandbox.write(&self.out.host.join("tmp"), &self.out.path("tmp")));
        succeeded("rustc on our own crates", self.sandbox.run(job)?)?;
        let (file, digest) = self.keep(Path::new(&product), None)?;
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

    /// Copies one product into the library directory; answers its name and digest. `made` is what it has to be: the
    /// digest that was taken when its own compilation ended.
    pub(super) fn keep(&self, inside: &Path, made: Option<Digest>) -> Result<(String, Digest), BuilderError> {
        let problem = |problem: &str| BuilderError::Unit {
            code: codes::MF0411,
            problem: format!("{} {problem}", mfaas_ident::sanitise_line(&inside.display().to_string(), 200)),
        };
        let relative = inside
            .strip_prefix(&self.out.inside)
            .map_err(|_| problem("lies outside the output directory"))?;
        let name = inside.file_name().and_then(|name| name.to_str()).ok_or_else(|| problem("has no name"))?;
        let host = self.out.host.join(relative);
        let bytes = std::fs::read(&host).map_err(BuilderError::product(&host))?;
        let digest = Digest::of(&bytes);
        if made.is_some_and(|made| made != digest) {
            let problem = format!("`{name}` is not what its compilation has made");
            return Err(BuilderError::Unit { code: codes::MF0411, problem });
        }
        let target = self.library().join(name);
        std::fs::write(&target, &bytes).map_err(BuilderError::io(&target))?;
        Ok((name.to_owned(), digest))
    }

    /// The same with the product of a unit. What no unit has made is nobody's.
    pub(super) fn keep_unit(&self, inside: &Path, made: &Made) -> Result<(String, Digest), BuilderError> {
        #[cfg(feature = "ablation")]
        if self.together {
            return self.keep(inside, None);
        }
        let problem = || format!("no compilation has made `{}`", inside.display());
        let digest = made.digest(inside);
        let digest = digest.ok_or_else(|| BuilderError::Unit { code: codes::MF0411, problem: problem() })?;
        self.keep(inside, Some(digest))
    }

    pub(super) fn library(&self) -> PathBuf {
        self.result.join(LIBRARY_PART)
    }
}

pub(super) fn succeeded(command: &'static str, ran: Ran) -> Result<Ran, BuilderError> {
    if ran.exit.success() {
        return Ok(ran);
    }
    let output = mfaas_ident::sanitise(&String::from_utf8_lossy(&ran.stderr), 8_000);
    Err(BuilderError::Command { command, problem: format!("{:?}\n{output}", ran.exit) })
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), BuilderError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(BuilderError::io(parent))?;
    }
    std::fs::write(path, bytes).map_err(BuilderError::io(path))
}
