//! Real artifacts: a shared object linked like a tenant's, against a stub of the allowed symbols,
//! with the project's own shim inside.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use mfaas_rules::profiles::{image_layout, imports, instructions};

const FUNCTION: &str = include_str!("function.rs");

/// The version whose artifact takes [`LARGE_BYTES`] of a window.
pub const LARGE: u32 = 90;
/// Nearly as much as a function's statics may take.
pub const LARGE_BYTES: usize = 4_000 << 10;

/// `version` is answered by the function; it makes another artifact.
pub fn build(version: u32) -> Vec<u8> {
    static KIT: Mutex<Option<Kit>> = Mutex::new(None);
    let mut kit = KIT.lock().unwrap_or_else(PoisonError::into_inner);
    let kit = kit.get_or_insert_with(Kit::make);
    if !kit.built.contains_key(&version) {
        let image = kit.function(version);
        kit.built.insert(version, image);
    }
    kit.built[&version].clone()
}

/// Everything that is the same for each function.
struct Kit {
    home: tempfile::TempDir,
    sysroot: PathBuf,
    built: HashMap<u32, Vec<u8>>,
}

impl Kit {
    fn make() -> Self {
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
        let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim());
        let kit = Self { home: tempfile::tempdir().unwrap(), sysroot, built: HashMap::new() };
        kit.link_root();
        std::fs::write(kit.path("image.ld"), image_layout::LINKER_SCRIPT).unwrap();
        let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        kit.rustc(&["--crate-type=rlib", "--crate-name=mfaas_abi"], &runtime.join("abi/src/lib.rs"));
        let shim = [
            "--crate-type=rlib",
            "--crate-name=mfaas_shim",
            "--cfg=feature=\"hosted\"",
            "--extern=mfaas_abi",
        ];
        kit.rustc(&shim, &runtime.join("shim/src/lib.rs"));
        kit
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn linker(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld")
    }

    /// A library that defines the allowed symbols under the only name that an artifact may need.
    fn link_root(&self) {
        for name in ["dl", "gcc_s", "m", "pthread", "rt", "util"] {
            std::fs::write(self.path(&format!("lib{name}.a")), "!<arch>\n").unwrap();
        }
        let symbols = imports::ROWS
            .iter()
            .map(|row| format!("#[unsafe(no_mangle)] pub extern \"C\" fn {}() {{}}\n", row.symbol));
        let source = self.path("stub.rs");
        std::fs::write(&source, format!("#![no_std]\n{}", symbols.collect::<String>())).unwrap();
        self.rustc(&["--crate-type=lib", "--emit=obj", "--cap-lints=allow"], &source);
        run(Command::new(self.linker())
            .args(["-flavor", "gnu", "-shared", "-soname", instructions::NEEDED, "-o"])
            .args([self.path("libc.so"), self.path("stub.o")]));
    }

    fn function(&self, version: u32) -> Vec<u8> {
        let source = self.path(&format!("function{version}.rs"));
        let room = if version == LARGE { LARGE_BYTES } else { 1 };
        let text = FUNCTION.replace("VERSION_HERE", &version.to_string());
        std::fs::write(&source, text.replace("ROOM_HERE", &room.to_string())).unwrap();
        let linker = format!("-Clinker={}", rewriter().display());
        let native = format!("-Lnative={}", self.home.path().display());
        let script = format!("-Clink-arg=-T{}", self.path("image.ld").display());
        let align = format!("-Clink-arg={}", image_layout::ALIGN_ARGUMENT);
        let shim = image_layout::shim_flags("libmfaas_shim.rlib");
        let mut flags = vec![
            "--crate-type=cdylib",
            linker.as_str(),
            "-Clinker-flavor=ld.lld",
            native.as_str(),
            "-Clink-arg=--no-undefined",
            "-Clink-arg=--build-id=none",
            script.as_str(),
            align.as_str(),
            "-Cstrip=symbols",
            "--extern=mfaas_abi",
            "--extern=mfaas_shim",
        ];
        flags.extend(shim.iter().map(String::as_str));
        self.rustc(&flags, &source);
        let image = std::fs::read(self.path(&format!("libfunction{version}.so"))).unwrap();
        let findings = mfaas_rules::judge_binary(&mfaas_inspect::inspect(&image).unwrap());
        assert!(findings.is_empty(), "{findings:#?}");
        mfaas_inspect::verify::verify_image(&image).unwrap();
        image
    }

    fn rustc(&self, flags: &[&str], source: &Path) {
        run(Command::new("rustc")
            .args([
                "--edition=2024",
                "-Cpanic=abort",
                "-Copt-level=2",
                "-Ccodegen-units=1",
                "-Cembed-bitcode=no",
            ])
            .args(["-L", self.home.path().to_str().unwrap(), "--out-dir"])
            .arg(self.home.path())
            .args(flags)
            .env("MFAAS_LINKER", self.linker())
            .arg(source));
    }
}

/// The program that links a tenant's image.
fn rewriter() -> PathBuf {
    let rewriter = Path::new(env!("CARGO_BIN_EXE_mfaas-node")).with_file_name("mfaas-rewriter");
    assert!(rewriter.is_file(), "there is no {}: run `cargo build --workspace` first", rewriter.display());
    rewriter
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
