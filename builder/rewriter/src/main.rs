//! `mfaas-rewriter`: stands in for the linker of a function's image.
//!
//! rustc calls it with a linker's arguments. It links what is live into one relocatable object,
//! rewrites that, and links the image from it. Runs in the build sandbox; nothing trusts it.
//!
//! `mfaas-rewriter --version` says which build this is.
//!
//! The linker is the `rust-lld` of the sysroot that `MFAAS_LINKER` names.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

/// The linker that is called twice.
const LINKER: &str = "MFAAS_LINKER";
/// What an image is entered by; everything that it does not lead to is left out.
const ENTRY: &str = "mfaas_entry_v1";
/// Of std's libraries these are 99 % of the object, and no image has them. `--strip-debug` does not apply to `-r`.
const DISCARD: &str = "SECTIONS { /DISCARD/ : { *(.debug* .llvmbc) } }\n";

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(code) => code,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "rustc shows what its linker says")]
fn complain(error: &anyhow::Error) {
    eprintln!("mfaas-rewriter: error: {error:#}");
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn say_version() -> ExitCode {
    println!("mfaas-rewriter {}", mfaas_ident::BuildVersion::this());
    ExitCode::SUCCESS
}

fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    if arguments == ["--version"] {
        return Ok(say_version());
    }
    let linker = std::env::var_os(LINKER).with_context(|| format!("{LINKER} is not set"))?;
    let output = output_of(&arguments).context("there is no -o")?;
    let (inputs, rest) = split(arguments);
    let object = output.with_extension("live.o");
    let script = output.with_extension("live.ld");
    std::fs::write(&script, DISCARD).with_context(|| script.display().to_string())?;
    let mut first = Command::new(&linker);
    first.args(["-flavor", "gnu", "-r", "--gc-sections", "--force-group-allocation", "-e", ENTRY, "-T"]);
    first.arg(&script);
    first.args(&inputs).args(rest.iter().filter(|argument| defines_symbol(argument)));
    if let Some(code) = failed(first.arg("-o").arg(&object))? {
        return Ok(code);
    }
    let live = std::fs::read(&object).with_context(|| object.display().to_string())?;
    let rewritten = mfaas_rewriter::rewrite(&live, ENTRY)?;
    std::fs::write(&object, rewritten).with_context(|| object.display().to_string())?;
    let mut second = Command::new(&linker);
    // rustc lists symbols for export that nothing leads to, which are gone.
    let is_over = |argument: &OsStr| defines_symbol(argument) || argument == "--no-undefined-version";
    second.args(rest.iter().filter(|argument| !is_over(argument))).arg("--undefined-version");
    let mut map = OsString::from("-Map=");
    map.push(output.with_extension("map"));
    second.arg(map);
    Ok(failed(second.arg(&object))?.unwrap_or(ExitCode::SUCCESS))
}

/// Runs a command; its code if that is not 0.
fn failed(command: &mut Command) -> anyhow::Result<Option<ExitCode>> {
    let status = command.status().with_context(|| command.get_program().display().to_string())?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ensure!(code.is_some(), "the linker was killed");
    Ok(code.filter(|code| *code != 0).map(ExitCode::from))
}

fn output_of(arguments: &[OsString]) -> Option<PathBuf> {
    let at = arguments.iter().position(|argument| argument == "-o")?;
    arguments.get(at + 1).map(PathBuf::from)
}

/// Objects and archives, and everything else.
fn split(arguments: Vec<OsString>) -> (Vec<OsString>, Vec<OsString>) {
    arguments.into_iter().partition(|argument| {
        let extension = Path::new(argument).extension().and_then(OsStr::to_str);
        matches!(extension, Some("o" | "rlib")) && !argument.as_encoded_bytes().starts_with(b"-")
    })
}

/// Symbols are replaced where it is decided what is live.
fn defines_symbol(argument: &OsStr) -> bool {
    argument.as_encoded_bytes().starts_with(b"--defsym=")
}
