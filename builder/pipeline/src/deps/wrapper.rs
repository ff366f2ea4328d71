//! What cargo runs in place of rustc in the dependency build: rustc, with the facade that the crate
//! was granted.
//!
//! Only crates that become part of functions get one. Build scripts and procedural macros run on
//! this machine, in the cage, and see the library as it is. A crate that the plan does not know is
//! not compiled.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde::{Deserialize, Serialize};

/// Names the file of the plan; its presence makes this program the wrapper.
pub(crate) const PLAN_VARIABLE: &str = "MFAAS_RUSTC_PLAN";
/// The package that cargo compiles.
const PACKAGE_VARIABLE: &str = "CARGO_PKG_NAME";

/// The flags that each package is compiled with beyond cargo's.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    pub(super) packages: BTreeMap<String, Vec<String>>,
    /// Where to note what each compiler is asked; nowhere in a build.
    #[serde(default)]
    pub(super) record: Option<String>,
}

/// What a compiler was asked. Written in a cage where build scripts and macros run as well, so that
/// whoever reads it has to compare it with what cargo says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unit {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) directory: String,
}

/// Becomes the compiler that the first argument names.
#[allow(clippy::print_stderr, reason = "cargo shows it as the compiler's words")]
pub(crate) fn compile_as_planned(plan: &OsStr) -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let result = match arguments.next() {
        Some(compiler) => become_compiler(Path::new(plan), &compiler, arguments.collect()),
        None => Err("no compiler was named".to_owned()),
    };
    if let Err(problem) = result {
        eprintln!("error: {problem}");
    }
    ExitCode::FAILURE
}

fn become_compiler(plan: &Path, compiler: &OsStr, arguments: Vec<OsString>) -> Result<(), String> {
    let text = std::fs::read(plan).map_err(|error| format!("{}: {error}", plan.display()))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let package = std::env::var(PACKAGE_VARIABLE).ok();
    let more = flags(&plan, package.as_deref(), &arguments)?;
    if let (Some(directory), Some(package)) = (&plan.record, &package) {
        record(Path::new(directory), package, &arguments)?;
    }
    let mut command = Command::new(compiler);
    if arguments.iter().any(|argument| argument.to_str().is_some_and(|text| text.starts_with("--emit"))) {
        // cargo hands on what a compiler prints there, in the place where it tells of what it has compiled, and
        // a procedural macro prints as the compiler. Only a question to the compiler needs the answer.
        command.stdout(std::io::stderr());
    }
    let error = command.args(arguments).args(more).env_remove(PLAN_VARIABLE).exec();
    Err(format!("{}: {error}", Path::new(compiler).display()))
}

/// Notes one compilation, named by its digest.
fn record(directory: &Path, package: &str, arguments: &[OsString]) -> Result<(), String> {
    let text = |value: &OsStr| value.to_str().map(str::to_owned).ok_or("an argument is not UTF-8");
    let unit = Unit {
        package: package.to_owned(),
        version: std::env::var("CARGO_PKG_VERSION").map_err(|error| error.to_string())?,
        arguments: arguments.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
        environment: std::env::vars_os().filter_map(readable).collect(),
        directory: std::env::current_dir().map_err(|error| error.to_string())?.display().to_string(),
    };
    let json = serde_json::to_vec(&unit).map_err(|error| error.to_string())?;
    let path = directory.join(mfaas_ident::Digest::of(&json).to_string());
    std::fs::write(&path, json).map_err(|error| format!("{}: {error}", path.display()))
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
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn only_a_crate_for_functions_gets_a_facade_and_an_unknown_one_nothing_at_all() {
        let plan =
            Plan { packages: [("a".to_owned(), vec!["--extern=std=x".to_owned()])].into(), record: None };
        let target: Vec<OsString> = ["--crate-name", "a", "--target", "t"].map(OsString::from).into();
        let joined: Vec<OsString> = ["--target=t"].map(OsString::from).into();
        let host: Vec<OsString> = ["--crate-name", "build_script_build"].map(OsString::from).into();
        assert_eq!(flags(&plan, Some("a"), &target).unwrap(), ["--extern=std=x"]);
        assert_eq!(flags(&plan, Some("a"), &joined).unwrap(), ["--extern=std=x"]);
        assert!(flags(&plan, Some("a"), &host).unwrap().is_empty());
        assert!(flags(&plan, None, &target).unwrap().is_empty());
        assert!(flags(&plan, Some("b"), &target).is_err());
    }
}
