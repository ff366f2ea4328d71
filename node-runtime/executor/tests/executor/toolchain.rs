//! Builds functions for tests the way the builder does: against a stub of the host's library, without a C
//! compiler, and the tenant's by `mfaas-rewriter`, so that it verifies. The hostile one is as the
//! compiler makes it, and does what no verified code does.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use mfaas_rules::profiles::image_layout::{ALIGN_ARGUMENT, LINKER_SCRIPT, shim_flags};
use mfaas_rules::profiles::imports::ROWS;

/// A directory in which functions are built.
struct Functions {
    directory: PathBuf,
    linker: PathBuf,
    rewriter: Option<PathBuf>,
}

/// The image of `tests/functions/tenant.rs`.
pub(crate) fn tenant() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| ready("tenant").unwrap_or_else(|| Functions::rewritten("tenant").build_tenant()))
}

/// What the linker says about where everything lies in that image.
#[allow(dead_code, reason = "of the test programs that share this file one asks")]
pub(crate) fn map_of_tenant() -> String {
    let functions = Functions::rewritten("mapped");
    functions.build_tenant_image();
    String::from_utf8(functions.take("libfunction.map")).expect("text")
}

/// The image of `tests/functions/hostile.rs`.
#[allow(dead_code, reason = "of the test programs that share this file one does not ask")]
pub(crate) fn hostile() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        ready("hostile").unwrap_or_else(|| Functions::plain("hostile").build_alone("hostile"))
    })
}

/// The image of `tests/functions/jumper.rs`, which verifies.
#[allow(dead_code, reason = "of the test programs that share this file one asks")]
pub(crate) fn jumper() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| verified("jumper"))
}

/// The image of `tests/functions/sample.rs`, which verifies.
#[allow(dead_code, reason = "of the test programs that share this file one asks")]
pub(crate) fn sample() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| verified("sample"))
}

/// The image of `tests/functions/reader.rs`, which verifies.
#[allow(dead_code, reason = "of the test programs that share this file one asks")]
pub(crate) fn reader() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| verified("reader"))
}

/// The image of `tests/functions/services.rs`, which verifies.
#[allow(dead_code, reason = "of the test programs that share this file one asks")]
pub(crate) fn services() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| verified("services"))
}

/// The image of `tests/functions/waiter.rs`, which verifies.
#[allow(dead_code, reason = "of the test programs that share this file one asks")]
pub(crate) fn waiter() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| verified("waiter"))
}

/// A function of its own that verifies.
fn verified(name: &str) -> Vec<u8> {
    ready(name).unwrap_or_else(|| Functions::rewritten(name).build_alone(name))
}

/// Names the directory of images that were built before, for machines without a compiler.
const READY: &str = "MFAAS_TEST_IMAGES";

/// An image that was built before.
fn ready(name: &str) -> Option<Vec<u8>> {
    let directory = PathBuf::from(std::env::var_os(READY)?);
    let image = directory.join(format!("{name}.so"));
    Some(fs::read(&image).unwrap_or_else(|error| panic!("{}: {error}", image.display())))
}

/// The image of `tests/functions/prober.rs`, which verifies.
#[allow(dead_code, reason = "of the test programs that share this file one asks")]
pub(crate) fn prober() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        ready("prober").unwrap_or_else(|| Functions::rewritten("prober").build_alone("prober"))
    })
}

impl Functions {
    /// With the compiler's own linker.
    fn plain(name: &str) -> Self {
        Self::new(name, None)
    }

    /// With the rewriter in its place.
    fn rewritten(name: &str) -> Self {
        let tests = std::env::current_exe().expect("this program");
        let rewriter = tests.ancestors().nth(2).expect("target/debug").join("mfaas-rewriter");
        assert!(
            rewriter.is_file(),
            "there is no {}: run `cargo build --workspace` first",
            rewriter.display()
        );
        Self::new(name, Some(rewriter))
    }

    fn new(name: &str, rewriter: Option<PathBuf>) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(directory.join("link")).expect("a directory for the test");
        let output = Command::new(rustc()).args(["--print", "sysroot"]).output().expect("rustc runs");
        let sysroot = String::from_utf8(output.stdout).expect("a path");
        let linker = Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
        let functions = Self { directory, linker, rewriter };
        functions.build_stub();
        fs::write(functions.script(), LINKER_SCRIPT).expect("write the script");
        functions
    }

    fn script(&self) -> PathBuf {
        self.directory.join("image.ld")
    }

    /// The host's library as the linker sees it: a symbol for every row, and empty archives for
    /// what std asks for by name.
    fn build_stub(&self) {
        let mut source = String::from(
            "#![no_std]\n#[panic_handler] fn p(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }\n",
        );
        for (index, row) in ROWS.iter().enumerate() {
            writeln!(
                source,
                "#[unsafe(export_name = \"{}\")] pub extern \"C\" fn f{index}() {{}}",
                row.symbol
            )
            .expect("writing to a string");
        }
        fs::write(self.directory.join("stub.rs"), source).expect("write the stub");
        let stub = self.directory.join("stub.rs");
        let linker = format!("-Clinker={}", self.linker.display());
        self.rustc(&stub, "cdylib", "stub", &["-Clink-arg=-soname=libmfaas-host.so.1", &linker]);
        fs::rename(self.directory.join("libstub.so"), self.directory.join("link/libc.so"))
            .expect("name the stub");
        for name in ["gcc_s", "util", "rt", "pthread", "dl", "m"] {
            fs::write(self.directory.join(format!("link/lib{name}.a")), "!<arch>\n")
                .expect("an empty archive");
        }
    }

    fn build_tenant(&self) -> Vec<u8> {
        self.build_tenant_image();
        self.take("libfunction.so")
    }

    fn build_tenant_image(&self) {
        self.rustc(&function("tenant.rs"), "rlib", "tenant", &["-Funsafe-code"]);
        succeeded("function", &self.link_with_shim());
    }

    /// Links the crate `tenant` with the shim, as the builder does.
    fn link_with_shim(&self) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        self.rustc(&root.join("../abi/src/lib.rs"), "rlib", "mfaas_abi", &[]);
        self.rustc(
            &root.join("../shim/src/lib.rs"),
            "rlib",
            "mfaas_shim",
            &["--cfg", "feature=\"hosted\"", "--extern", "mfaas_abi"],
        );
        let script = format!("-Clink-arg=-T{}", self.script().display());
        let shim = shim_flags("libmfaas_shim.rlib");
        let mut externs =
            vec!["--extern", "tenant", "--extern", "mfaas_shim", "--extern", "mfaas_abi", &script];
        externs.extend(shim.iter().map(String::as_str));
        self.output(&function("glue.rs"), "cdylib", "function", &externs)
    }

    /// A function without std and shim.
    fn build_alone(&self, name: &str) -> Vec<u8> {
        let script = format!("-Clink-arg=-T{}", self.script().display());
        self.rustc(&function(&format!("{name}.rs")), "cdylib", name, &["-Clink-arg=-lc", &script]);
        self.take(&format!("lib{name}.so"))
    }

    /// The built file; what was built with it is not needed any more.
    fn take(&self, file: &str) -> Vec<u8> {
        let bytes = fs::read(self.directory.join(file)).expect("the built function");
        fs::remove_dir_all(&self.directory).expect("our own directory");
        bytes
    }

    fn rustc(&self, source: &Path, kind: &str, name: &str, more: &[&str]) {
        succeeded(name, &self.output(source, kind, name, more));
    }

    fn output(&self, source: &Path, kind: &str, name: &str, more: &[&str]) -> Output {
        Command::new(rustc())
            .args(["--edition", "2024", "-Cpanic=abort", "-O", "-Ccodegen-units=1", "-Cstrip=symbols"])
            .args(["--crate-type", kind, "--crate-name", name, "-Clinker-flavor=ld.lld"])
            .arg(format!("-Clink-arg={ALIGN_ARGUMENT}"))
            .arg(format!("-Clinker={}", self.rewriter.as_ref().unwrap_or(&self.linker).display()))
            .env("MFAAS_LINKER", &self.linker)
            .arg("-L")
            .arg(format!("native={}", self.directory.join("link").display()))
            .arg("-L")
            .arg(&self.directory)
            .arg("--out-dir")
            .arg(&self.directory)
            .args(more)
            .arg(source)
            .output()
            .expect("rustc runs")
    }
}

fn succeeded(name: &str, output: &Output) {
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A source beside the tests.
fn function(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../executor/tests/functions").join(file)
}

/// What the linker says to a crate that defines `symbol` itself.
#[allow(dead_code, reason = "of the test programs that share this file one asks")]
pub(crate) fn twin(symbol: &str) -> String {
    let functions = Functions::plain(&format!("twin-{symbol}"));
    let source = functions.directory.join("twin.rs");
    let text = format!(
        "#[unsafe(no_mangle)] pub fn {symbol}() {{}} pub fn handle(_: &[u8]) -> Vec<u8> {{ {symbol}(); vec![] }}"
    );
    fs::write(&source, text).expect("write the source");
    functions.rustc(&source, "rlib", "tenant", &[]);
    let output = functions.link_with_shim();
    fs::remove_dir_all(&functions.directory).expect("our own directory");
    assert!(!output.status.success(), "{symbol} can be somebody else's");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn rustc() -> std::ffi::OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}
