//! What cargo runs in place of rustc and of build scripts in the dependency build.
//!
//! It has them run elsewhere: in a sandbox of their own, by whoever answers in the exchange. A compilation is
//! asked for with the facade that the crate was granted. Only crates that become part of functions get one;
//! build scripts and procedural macros run on this machine and see the library as it is. A crate that the
//! plan does not know is not compiled. Within a build script's sandbox it is rustc with that facade, for what
//! scripts ask the compiler.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde::{Deserialize, Serialize};

use super::exchange::{self, Ask, EXCHANGE_VARIABLE};

/// Names the file of the plan; its presence makes this program the wrapper.
pub(crate) const PLAN_VARIABLE: &str = "MFAAS_RUSTC_PLAN";
/// The first argument where it was started in place of a build script; the second is where cargo believes that to be.
pub(super) const BUILD_SCRIPT: &str = "build-script";
/// The package that cargo compiles.
const PACKAGE_VARIABLE: &str = "CARGO_PKG_NAME";

/// The flags that each package is compiled with beyond cargo's.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    pub(super) packages: BTreeMap<String, Vec<String>>,
}

/// Has run, or becomes, what cargo started it for.
#[allow(clippy::print_stderr, reason = "cargo shows it as the compiler's words")]
pub(crate) fn compile_as_planned(plan: &OsStr) -> ExitCode {
    let exchange = std::env::var_os(EXCHANGE_VARIABLE);
    let mut arguments = std::env::args_os().skip(1);
    let result = match (arguments.next(), &exchange) {
        (Some(first), Some(exchange)) if first == BUILD_SCRIPT => match arguments.next() {
            Some(script) => have_run(exchange, script, Vec::new()),
            None => Err("no build script was named".to_owned()),
        },
        (Some(compiler), _) => {
            run_compiler(Path::new(plan), exchange.as_deref(), &compiler, arguments.collect())
        }
        (None, _) => Err("no compiler was named".to_owned()),
    };
    result.unwrap_or_else(|problem| {
        eprintln!("error: {problem}");
        ExitCode::FAILURE
    })
}

fn run_compiler(
    plan: &Path,
    exchange: Option<&OsStr>,
    compiler: &OsStr,
    mut arguments: Vec<OsString>,
) -> Result<ExitCode, String> {
    let text = std::fs::read(plan).map_err(|error| format!("{}: {error}", plan.display()))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let package = std::env::var(PACKAGE_VARIABLE).ok();
    let more: Vec<OsString> =
        flags(&plan, package.as_deref(), &arguments)?.iter().map(OsString::from).collect();
    arguments.extend(more);
    match (exchange, package) {
        (Some(exchange), Some(_)) => have_run(exchange, compiler.to_owned(), arguments),
        // Questions about the compiler itself, which cargo asks; and everything that a build script asks.
        _ => become_compiler(compiler, arguments),
    }
}

fn become_compiler(compiler: &OsStr, arguments: Vec<OsString>) -> Result<ExitCode, String> {
    let mut command = Command::new(compiler);
    if arguments.iter().any(|argument| argument.to_str().is_some_and(|text| text.starts_with("--emit"))) {
        // cargo hands on what a compiler prints there, in the place where it tells of what it has compiled, and
        // a procedural macro prints as the compiler. Only a question to the compiler needs the answer.
        command.stdout(std::io::stderr());
    }
    let error = command.args(arguments).env_remove(PLAN_VARIABLE).exec();
    Err(format!("{}: {error}", Path::new(compiler).display()))
}

/// Has it run in a sandbox of its own, says what it said, and ends as it ended.
fn have_run(exchange: &OsStr, program: OsString, arguments: Vec<OsString>) -> Result<ExitCode, String> {
    let text = |value: OsString| value.into_string().map_err(|_| "an argument is not UTF-8".to_owned());
    let ask = Ask {
        program: text(program)?,
        arguments: arguments.into_iter().map(text).collect::<Result<_, _>>()?,
        environment: std::env::vars_os().filter_map(readable).collect(),
        directory: std::env::current_dir().map_err(|error| error.to_string())?.display().to_string(),
    };
    let answer = exchange::ask(Path::new(exchange), &ask)?;
    let text = |result: std::io::Result<()>| result.map_err(|error| error.to_string());
    text(std::io::stdout().write_all(&answer.stdout))?;
    text(std::io::stderr().write_all(&answer.stderr))?;
    Ok(ExitCode::from(answer.code))
}

fn readable((name, value): (OsString, OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}

/// cargo is told the target, so it names one exactly for what runs in functions. Questions to the
/// compiler about itself belong to no package.
fn flags<'a>(plan: &'a Plan, package: Option<&str>, arguments: &[OsString]) -> Result<&'a [String], String> {
    let is_for_functions = arguments.iter().any(|argument| {
        argument == "--target" || argument.to_str().is_some_and(|text| text.starts_with("--target="))
    });
    match package {
        Some(package) if is_for_functions => plan
            .packages
            .get(package)
            .map(Vec::as_slice)
            .ok_or_else(|| format!("package {package} is not in the plan")),
        Some(_) | None => Ok(&[]),
    }
}

#[cfg(test)]
mod tests;
