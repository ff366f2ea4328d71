//! The programs under test, a toolchain and a dependency cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// What a check needs.
#[derive(Debug, Clone)]
pub struct Installed {
    builder: PathBuf,
    toolchain: PathBuf,
    deps: PathBuf,
}

impl Installed {
    /// Builds `mfaas-builder` and `mfaas-worker` beside this program, unless a builder is given,
    /// and takes toolchain and cache from `MFAAS_TOOLCHAIN_DIR` and `MFAAS_DEPS_DIR`. Without these
    /// the builder makes them below `target/`, which takes some minutes once.
    pub fn get(builder: Option<PathBuf>) -> anyhow::Result<Self> {
        let builder = builder.map_or_else(build_programs, Ok)?;
        let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
        match (given("MFAAS_TOOLCHAIN_DIR"), given("MFAAS_DEPS_DIR")) {
            (Some(toolchain), Some(deps)) => Ok(Self { builder, toolchain, deps }),
            (None, None) => Self::make(builder),
            _ => bail!("MFAAS_TOOLCHAIN_DIR and MFAAS_DEPS_DIR belong together"),
        }
    }

    fn make(builder: PathBuf) -> anyhow::Result<Self> {
        let home = own_directory()?.join("bombs-installed");
        let (toolchains, vendor, caches) = (home.join("toolchains"), home.join("vendor"), home.join("deps"));
        std::fs::create_dir_all(&home)?;
        let seed = root().join("builder/toolchain/seed");
        let sysroot = last_line(Command::new("rustc").args(["--print", "sysroot"]))?;
        let run = |arguments: &[&Path]| last_line(Command::new(&builder).args(arguments));
        let arg = Path::new;
        let id = run(&[
            arg("toolchain"),
            arg("import"),
            arg("--from"),
            arg(&sysroot),
            arg("--into"),
            &toolchains,
        ])?;
        let toolchain = toolchains.join(id);
        run(&[arg("deps"), arg("vendor"), arg("--seed"), &seed, arg("--into"), &vendor])?;
        let key = run(&[
            arg("deps"),
            arg("build"),
            arg("--seed"),
            &seed,
            arg("--vendor"),
            &vendor,
            arg("--toolchain"),
            &toolchain,
            arg("--into"),
            &caches,
        ])?;
        Ok(Self { builder, toolchain, deps: caches.join(key) })
    }

    /// `mfaas-builder check --json PACKAGE`, with `scratch` for its temporary files.
    pub fn check(&self, package: &Path, scratch: &Path) -> Command {
        let mut command = Command::new(&self.builder);
        command.args(["check", "--json"]).arg(package);
        command.env_remove("MFAAS_CAGE_MINIMUM").env("TMPDIR", scratch);
        command.env("MFAAS_TOOLCHAIN_DIR", &self.toolchain).env("MFAAS_DEPS_DIR", &self.deps);
        command
    }
}

/// The checkout.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// `target/<profile>`; a test lies one below, in `deps`.
fn own_directory() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let directory = own.parent().context("this program lies nowhere")?;
    let above = if directory.ends_with("deps") { directory.parent() } else { Some(directory) };
    above.map(Path::to_path_buf).context("this program lies in no build directory")
}

fn build_programs() -> anyhow::Result<PathBuf> {
    let profile = own_directory()?;
    let target = profile.parent().context("this program lies in no build directory")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args(["build", "--quiet", "-p", "mfaas-builder", "-p", "mfaas-worker"]);
    cargo.arg("--target-dir").arg(target);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    last_line(&mut cargo)?;
    Ok(profile.join("mfaas-builder"))
}

fn last_line(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned())
}
