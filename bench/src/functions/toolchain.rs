//! Compiles the functions with the compiler's own linker, the way the builder does: against a stub
//! of the host's library for the executor, against the C library for dlopen.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use mfaas_rules::profiles::image_layout::{ALIGN_ARGUMENT, LINKER_SCRIPT, shim_flags};
use mfaas_rules::profiles::imports::ROWS;

/// What glibc's own libraries are called on a Debian machine, in the order in which they are tried.
const LIBRARY_DIRECTORIES: [&str; 4] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"];
/// Libraries that std asks for by name and that nothing of ours needs.
const EMPTY: [&str; 6] = ["gcc_s", "util", "rt", "pthread", "dl", "m"];

/// The linker script of images, among what is built.
const SCRIPT: &str = "image.ld";

/// The built files.
pub(super) struct Built {
    pub(super) hosted: Vec<u8>,
    pub(super) as_linked: Vec<u8>,
    pub(super) smallest: Vec<u8>,
    pub(super) waiting: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) library: Vec<u8>,
}

/// Compiles every form in `directory`.
pub(super) fn build(directory: &Path) -> anyhow::Result<Built> {
    let toolchain = Toolchain::find(directory)?;
    toolchain.write_link_directories()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (own, runtime) = (root.join("functions"), root.join("../node-runtime"));
    // Each function begins on a line: where its loops lie in the lines must not differ between the forms.
    toolchain.rlib(&own.join("crate.rs"), "bench_function", &["-Cllvm-args=-align-all-functions=6"])?;
    toolchain.rlib(&runtime.join("abi/src/lib.rs"), "mfaas_abi", &[])?;
    let hosted_cfg = ["--cfg", "feature=\"hosted\"", "--extern", "mfaas_abi"];
    toolchain.rlib(&runtime.join("shim/src/lib.rs"), "mfaas_shim", &hosted_cfg)?;
    fs::write(directory.join(SCRIPT), LINKER_SCRIPT).context("write the linker script of images")?;
    let script = script_argument(directory);
    let align = format!("-Clink-arg={ALIGN_ARGUMENT}");
    let shim = shim_flags("libmfaas_shim.rlib");
    let hosted: Vec<&str> = [&script, &align].into_iter().chain(&shim).map(String::as_str).collect();
    let smallest = ["-Clink-arg=-lc", &script, &align];
    let Toolchain { rewriter, linker, .. } = &toolchain;
    let image = own.join("hosted.rs");
    Ok(Built {
        hosted: toolchain.shared(&image, "hosted", (rewriter, "host"), &hosted)?,
        as_linked: toolchain.shared(&image, "as_linked", (linker, "host"), &hosted)?,
        smallest: toolchain.shared(&own.join("smallest.rs"), "smallest", (rewriter, "host"), &smallest)?,
        waiting: toolchain.shared(&own.join("waiting.rs"), "waiting", (rewriter, "host"), &hosted)?,
        data: toolchain.shared(&own.join("data.rs"), "data", (rewriter, "host"), &hosted)?,
        library: toolchain.shared(&own.join("library.rs"), "library", (linker, "machine"), &[])?,
    })
}

/// Links an image from its entry and the libraries that cargo has built for it, in a directory in which [`build`] was.
pub(super) fn example(
    directory: &Path,
    (entry, name): (&Path, &str),
    libraries: &[(&str, PathBuf)],
) -> anyhow::Result<Vec<u8>> {
    let toolchain = Toolchain::find(directory)?;
    let mut arguments = vec![script_argument(directory), format!("-Clink-arg={ALIGN_ARGUMENT}")];
    arguments.extend(["-L".to_owned(), format!("native={}", directory.join("host").display())]);
    for (library, path) in libraries {
        let file = path.file_name().and_then(|file| file.to_str()).context("a library's name")?;
        if *library == "mfaas_shim" {
            arguments.extend(shim_flags(file));
        }
        let beside = path.parent().context("a library's directory")?;
        arguments.extend(["-L".to_owned(), format!("dependency={}", beside.display())]);
        arguments.extend(["--extern".to_owned(), format!("{library}={}", path.display())]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    toolchain.rustc(entry, ("cdylib", &toolchain.rewriter), name, &arguments)?;
    let file = directory.join(format!("lib{name}.so"));
    fs::read(&file).with_context(|| format!("read {}", file.display()))
}

fn script_argument(directory: &Path) -> String {
    format!("-Clink-arg=-T{}", directory.join(SCRIPT).display())
}

struct Toolchain<'a> {
    directory: &'a Path,
    linker: PathBuf,
    /// What links images of tenants.
    rewriter: PathBuf,
}

impl<'a> Toolchain<'a> {
    fn find(directory: &'a Path) -> anyhow::Result<Self> {
        let output = compiler().args(["--print", "sysroot"]).output().context("start rustc")?;
        let sysroot = String::from_utf8(output.stdout).context("rustc's sysroot")?;
        let linker = Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
        ensure!(linker.is_file(), "the compiler brings no rust-lld at {}", linker.display());
        Ok(Self { directory, linker, rewriter: rewriter()? })
    }

    /// `host`: the stub with a symbol for every row that an executor offers. `machine`: the real thing.
    fn write_link_directories(&self) -> anyhow::Result<()> {
        for name in ["host", "machine"] {
            let link = self.directory.join(name);
            fs::create_dir(&link)?;
            for library in EMPTY.into_iter().filter(|library| name == "host" || *library != "gcc_s") {
                fs::write(link.join(format!("lib{library}.a")), "!<arch>\n")?;
            }
        }
        let machine = self.directory.join("machine");
        for (name, file) in [("libc.so", "libc.so.6"), ("libgcc_s.so", "libgcc_s.so.1")] {
            std::os::unix::fs::symlink(library_file(file)?, machine.join(name))?;
        }
        let mut source =
            "#![no_std]\n#[panic_handler] fn p(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }\n".to_owned();
        for (index, row) in ROWS.iter().enumerate() {
            writeln!(
                source,
                "#[unsafe(export_name = \"{}\")] pub extern \"C\" fn f{index}() {{}}",
                row.symbol
            )?;
        }
        let stub = self.directory.join("stub.rs");
        fs::write(&stub, source)?;
        self.rustc(&stub, ("cdylib", &self.linker), "stub", &["-Clink-arg=-soname=libmfaas-host.so.1"])?;
        fs::rename(self.directory.join("libstub.so"), self.directory.join("host/libc.so"))?;
        Ok(())
    }

    fn rlib(&self, source: &Path, name: &str, more: &[&str]) -> anyhow::Result<()> {
        self.rustc(source, ("rlib", &self.linker), name, more)
    }

    fn shared(
        &self,
        source: &Path,
        name: &str,
        (linker, link): (&Path, &str),
        more: &[&str],
    ) -> anyhow::Result<Vec<u8>> {
        let link = format!("native={}", self.directory.join(link).display());
        let mut arguments = vec!["-L", &link];
        for library in ["bench_function", "mfaas_abi", "mfaas_shim"] {
            arguments.extend(["--extern", library]);
        }
        arguments.extend(more);
        self.rustc(source, ("cdylib", linker), name, &arguments)?;
        let file = self.directory.join(format!("lib{name}.so"));
        fs::read(&file).with_context(|| format!("read {}", file.display()))
    }

    fn rustc(
        &self,
        source: &Path,
        (kind, linker): (&str, &Path),
        name: &str,
        more: &[&str],
    ) -> anyhow::Result<()> {
        let output = compiler()
            .args(["--edition", "2024", "-Cpanic=abort", "-O", "-Ccodegen-units=1", "-Cstrip=symbols"])
            .args(["--crate-type", kind, "--crate-name", name, "-Clinker-flavor=ld.lld"])
            .arg(format!("-Clinker={}", linker.display()))
            .env("MFAAS_LINKER", &self.linker)
            .arg("-L")
            .arg(self.directory)
            .arg("--out-dir")
            .arg(self.directory)
            .args(more)
            .arg(source)
            .output()
            .context("start rustc")?;
        ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

/// `mfaas-rewriter` beside this program, or beside the directory of a test.
fn rewriter() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    let mut places = own.ancestors().skip(1).take(2).map(|place| place.join("mfaas-rewriter"));
    let found = places.find(|file| file.is_file());
    found.context("mfaas-rewriter is not beside this program: `cargo build --release -p mfaas-rewriter`")
}

/// The compiler of the checkout, which its rust-toolchain.toml pins.
pub(crate) fn compiler() -> Command {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

fn library_file(name: &str) -> anyhow::Result<PathBuf> {
    LIBRARY_DIRECTORIES
        .iter()
        .map(|directory| Path::new(directory).join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("no {name} in the machine's library directories"))
}
