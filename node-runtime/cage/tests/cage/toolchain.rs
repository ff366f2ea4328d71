//! Builds functions for tests with the compiler's own linker, the way the builder does: against a
//! stub of the host's library, without a C compiler.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use mfaas_rules::profiles::image_layout::{ALIGN_ARGUMENT, LINKER_SCRIPT, shim_arguments};
use mfaas_rules::profiles::imports::ROWS;

/// A directory in which functions are built.
struct Functions {
    directory: PathBuf,
    linker: PathBuf,
}

/// The image of `tests/functions/tenant.rs`.
pub(crate) fn tenant() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| ready("tenant").unwrap_or_else(|| Functions::new("tenant").build_tenant()))
}

/// The image of `tests/functions/hostile.rs`.
pub(crate) fn hostile() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| ready("hostile").unwrap_or_else(|| Functions::new("hostile").build_hostile()))
}

/// Names the directory of images that were built before, for machines without a compiler.
const READY: &str = "MFAAS_TEST_IMAGES";

/// An image that was built before.
fn ready(name: &str) -> Option<Vec<u8>> {
    let directory = PathBuf::from(std::env::var_os(READY)?);
    let image = directory.join(format!("{name}.so"));
    Some(fs::read(&image).unwrap_or_else(|error| panic!("{}: {error}", image.display())))
}

impl Functions {
    fn new(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(directory.join("link")).expect("a directory for the test");
        let output = Command::new(rustc()).args(["--print", "sysroot"]).output().expect("rustc runs");
        let sysroot = String::from_utf8(output.stdout).expect("a path");
        let linker = Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
        let functions = Self { directory, linker };
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
        self.rustc(&stub, "cdylib", "stub", &["-Clink-arg=-soname=libmfaas-host.so.1"]);
        fs::rename(self.directory.join("libstub.so"), self.directory.join("link/libc.so"))
            .expect("name the stub");
        for name in ["gcc_s", "util", "rt", "pthread", "dl", "m"] {
            fs::write(self.directory.join(format!("link/lib{name}.a")), "!<arch>\n")
                .expect("an empty archive");
        }
    }

    fn build_tenant(&self) -> Vec<u8> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        self.rustc(&root.join("../abi/src/lib.rs"), "rlib", "mfaas_abi", &[]);
        self.rustc(
            &root.join("../shim/src/lib.rs"),
            "rlib",
            "mfaas_shim",
            &["--cfg", "feature=\"hosted\"", "--extern", "mfaas_abi"],
        );
        self.rustc(&root.join("../cage/tests/functions/tenant.rs"), "rlib", "tenant", &["-Funsafe-code"]);
        let script = format!("-Clink-arg=-T{}", self.script().display());
        let shim = shim_arguments("libmfaas_shim.rlib");
        let shim: Vec<String> = shim.iter().map(|argument| format!("-Clink-arg={argument}")).collect();
        let mut externs =
            vec!["--extern", "tenant", "--extern", "mfaas_shim", "--extern", "mfaas_abi", &script];
        externs.extend(shim.iter().map(String::as_str));
        self.rustc(&root.join("../cage/tests/functions/glue.rs"), "cdylib", "function", &externs);
        self.take("libfunction.so")
    }

    fn build_hostile(&self) -> Vec<u8> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        self.rustc(
            &root.join("../cage/tests/functions/hostile.rs"),
            "cdylib",
            "hostile",
            &["-Clink-arg=-lc", &format!("-Clink-arg=-T{}", self.script().display())],
        );
        self.take("libhostile.so")
    }

    /// The built file; what was built with it is not needed any more.
    fn take(&self, file: &str) -> Vec<u8> {
        let bytes = fs::read(self.directory.join(file)).expect("the built function");
        fs::remove_dir_all(&self.directory).expect("our own directory");
        bytes
    }

    fn rustc(&self, source: &Path, kind: &str, name: &str, more: &[&str]) {
        let output = Command::new(rustc())
            .args(["--edition", "2024", "-Cpanic=abort", "-O", "-Ccodegen-units=1", "-Cstrip=symbols"])
            .args(["--crate-type", kind, "--crate-name", name, "-Clinker-flavor=ld.lld"])
            .arg(format!("-Clink-arg={ALIGN_ARGUMENT}"))
            .arg(format!("-Clinker={}", self.linker.display()))
            .arg("-L")
            .arg(format!("native={}", self.directory.join("link").display()))
            .arg("-L")
            .arg(&self.directory)
            .arg("--out-dir")
            .arg(&self.directory)
            .args(more)
            .arg(source)
            .output()
            .expect("rustc runs");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn rustc() -> std::ffi::OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}
