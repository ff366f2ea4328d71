//! The link root: a shared object that defines the importable symbols and nothing else, under
//! the name that every artifact is bound to, empty archives for the other libraries that std
//! names, and the script that gives artifacts their two banks.
//!
//! The stub is made by the imported rustc and rust-lld alone (no C compiler), from the rows of
//! `mfaas_rules::profiles::imports`. Its functions are never called: a worker binds the names
//! itself. A symbol that is missing here ends a tenant's link with the symbol's name.

use std::path::Path;
use std::process::Command;

use mfaas_rules::profiles::{image_layout, imports};

use super::imported::TARGET;
use crate::error::BuilderError;

/// What artifacts name as their only needed library.
const STUB_SONAME: &str = "libmfaas-host.so.1";
/// std asks the linker for these too; all their symbols are in the one stub.
const EMPTY_ARCHIVES: &[&str] = &["dl", "gcc_s", "m", "pthread", "rt", "util"];
/// The linker script's file name in the link root.
pub(crate) const SCRIPT_FILE: &str = "image.ld";
/// An archive without members.
const EMPTY_ARCHIVE: &[u8] = b"!<arch>\n";

/// Writes the link root into `link`, with the compiler at `compiler` (a sysroot).
pub(super) fn write_link_root(compiler: &Path, link: &Path) -> Result<(), BuilderError> {
    std::fs::create_dir_all(link).map_err(BuilderError::io(link))?;
    for name in EMPTY_ARCHIVES {
        let path = link.join(format!("lib{name}.a"));
        std::fs::write(&path, EMPTY_ARCHIVE).map_err(BuilderError::io(&path))?;
    }
    let script = link.join(SCRIPT_FILE);
    std::fs::write(&script, image_layout::LINKER_SCRIPT).map_err(BuilderError::io(&script))?;
    let work = tempfile::tempdir().map_err(BuilderError::io("the directory for temporary files"))?;
    let source = work.path().join("stub.rs");
    let object = work.path().join("stub.o");
    std::fs::write(&source, source_text()).map_err(BuilderError::io(&source))?;
    run(
        "rustc for the link stub",
        Command::new(compiler.join("bin/rustc"))
            .args([
                "--edition=2024",
                "--crate-type=lib",
                "--crate-name=stub",
                "--emit=obj",
                "--cap-lints=allow",
            ])
            .args(["-Copt-level=1", "-Cpanic=abort", "-Ccodegen-units=1", "-Cmetadata=mfaas"])
            .arg("-o")
            .arg(&object)
            .arg(&source)
            .current_dir(work.path()),
    )?;
    run(
        "rust-lld for the link stub",
        Command::new(compiler.join(format!("lib/rustlib/{TARGET}/bin/rust-lld")))
            .args(["-flavor", "gnu", "-shared", "-soname", STUB_SONAME])
            .args(["--build-id=none", "--strip-all", "--hash-style=gnu", "-o"])
            .arg(link.join("libc.so"))
            .arg(&object)
            .current_dir(work.path()),
    )
}

/// A `no_std` crate with one empty function for each importable symbol. No prototype is needed:
/// a linker looks at names only.
fn source_text() -> String {
    let mut text = String::from("#![no_std]\n");
    for row in imports::ROWS {
        text.push_str(&format!("#[unsafe(no_mangle)] pub extern \"C\" fn {}() {{}}\n", row.symbol));
    }
    text
}

fn run(command_name: &'static str, command: &mut Command) -> Result<(), BuilderError> {
    let output = command.env_clear().output().map_err(BuilderError::io(command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(BuilderError::Command {
        command: command_name,
        problem: mfaas_ident::sanitise(&String::from_utf8_lossy(&output.stderr), 2_000),
    })
}
