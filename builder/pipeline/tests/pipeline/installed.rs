//! Toolchain and dependency cache of the tests: made by the program itself, kept under the build
//! directory, and made again only when something that goes into them has changed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where everything is.
pub struct Installed {
    pub toolchain: PathBuf,
    pub deps: PathBuf,
}

impl Installed {
    /// Of this test program; the first use takes a minute on a cold machine.
    pub fn get() -> &'static Self {
        static INSTALLED: OnceLock<Installed> = OnceLock::new();
        INSTALLED.get_or_init(Self::make)
    }

    fn make() -> Self {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("builder");
        std::fs::create_dir_all(&home).unwrap();
        let sysroot = stdout(Command::new("rustc").args(["--print", "sysroot"]));
        let toolchains = home.join("toolchains");
        let id =
            stdout(builder().args(["toolchain", "import", "--from", &sysroot, "--into"]).arg(&toolchains));
        keep_only(&toolchains, &id);
        let toolchain = toolchains.join(id);
        let (seed, vendor, caches) = (home.join("seed"), home.join("vendor"), home.join("deps"));
        write_seed(&seed);
        stdout(builder().args(["deps", "vendor", "--seed"]).arg(real_seed()).arg("--into").arg(&vendor));
        let key = stdout(
            builder()
                .args(["deps", "build", "--seed"])
                .arg(&seed)
                .arg("--vendor")
                .arg(&vendor)
                .arg("--toolchain")
                .arg(&toolchain)
                .arg("--into")
                .arg(&caches),
        );
        keep_only(&caches, &key);
        build_worker();
        Self { toolchain, deps: caches.join(key) }
    }
}

/// The program under test, without anything of this machine's configuration.
pub fn builder() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mfaas-builder"));
    for name in ["MFAAS_TOOLCHAIN_DIR", "MFAAS_DEPS_DIR", "MFAAS_CAGE_MINIMUM", "MFAAS_LOG"] {
        command.env_remove(name);
    }
    command
}

/// Runs to the end and answers the last line of the standard output.
pub fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{err}", output.status);
    out.lines().last().unwrap_or_default().to_owned()
}

/// Removes what earlier versions of the inputs led to: a toolchain is half a gigabyte.
fn keep_only(directory: &Path, name: &str) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|found| found != name) {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
}

fn real_seed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolchain/seed")
}

/// The real seed with one crate more, in the seed's own tree.
fn write_seed(seed: &Path) {
    let read = |name: &str| std::fs::read_to_string(real_seed().join(name)).unwrap();
    let careless = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/careless");
    let local = seed.join("local/careless");
    std::fs::create_dir_all(seed.join("src")).unwrap();
    std::fs::create_dir_all(local.join("src")).unwrap();
    std::fs::write(seed.join("src/lib.rs"), read("src/lib.rs")).unwrap();
    std::fs::write(seed.join("capabilities.toml"), read("capabilities.toml")).unwrap();
    for file in ["Cargo.toml", "src/lib.rs"] {
        std::fs::copy(careless.join(file), local.join(file)).unwrap();
    }
    let manifest = read("Cargo.toml")
        .replace("[dependencies]\n", "[dependencies]\ncareless = { path = \"local/careless\" }\n");
    std::fs::write(seed.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(seed.join("Cargo.lock"), lock_with_careless(&read("Cargo.lock"))).unwrap();
}

/// Cargo's own order: packages by name, dependencies by name.
fn lock_with_careless(lock: &str) -> String {
    let mut blocks: Vec<String> = lock.trim_end().split("\n\n").map(str::to_owned).collect();
    let head = blocks.remove(0);
    blocks.push("[[package]]\nname = \"careless\"\nversion = \"0.1.0\"".to_owned());
    blocks.sort_by_key(|block| block.lines().nth(1).unwrap().to_owned());
    let seed = blocks.iter_mut().find(|block| block.contains("name = \"mfaas-seed\"")).unwrap();
    let (before, list) = seed.split_once("dependencies = [\n").unwrap();
    let mut names: Vec<&str> = list.lines().filter(|line| line.starts_with(' ')).collect();
    names.push(" \"careless\",");
    names.sort_unstable();
    *seed = format!("{before}dependencies = [\n{}\n]", names.join("\n"));
    format!("{head}\n\n{}\n", blocks.join("\n\n"))
}

/// `mfaas-worker` belongs beside the builder; a test of this package alone does not build it.
fn build_worker() {
    let profile = Path::new(env!("CARGO_BIN_EXE_mfaas-builder")).parent().unwrap();
    let release = profile.file_name().is_some_and(|name| name == "release");
    let target = profile.parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "-p", "mfaas-worker", "--bin", "mfaas-worker", "--target-dir"])
        .arg(target);
    if release {
        cargo.arg("--release");
    }
    stdout(&mut cargo);
}
