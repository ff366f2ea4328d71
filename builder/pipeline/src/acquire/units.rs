//! What a compiler was asked, turned into the question about unsafe code.
//!
//! The notes are the broker's, about what cargo asked it to run; but build scripts have a say in that. So a
//! note counts only if it says what cargo says
//! about a crate, whose standard output none of them reaches (our wrapper turns that of compilers away): the same
//! root file, the same features, no `cfg` and no variable that neither cargo nor the crate's own build script set, and no option that
//! this list does not know. A crate cannot hide a part of itself by a note of another's making.

use std::collections::BTreeSet;
use std::path::Path;

use crate::deps::messages::{CargoOutput, Compiled};
use crate::deps::{PackageKey, Unit};

/// The lint that cannot be switched off again.
const FORBID: &str = "-Funsafe-code";
/// Options of which ours take the place, and options whose effect is not wanted: the levels of lints,
/// which a crate's manifest may set, have to leave ours alone.
const REPLACED: &[&str] = &[
    "--emit",
    "--out-dir",
    "--cap-lints",
    "--error-format",
    "--json",
    "--diagnostic-width",
    "--allow",
    "--warn",
    "--deny",
    "--forbid",
    "-A",
    "-W",
    "-D",
    "-F",
];
/// Options that cargo gives a compiler.
const KEPT: &[&str] = &[
    "--crate-name",
    "--edition",
    "--crate-type",
    "--cfg",
    "--check-cfg",
    "--target",
    "--extern",
    "--remap-path-prefix",
    "-C",
    "-L",
    "-l",
];

/// A note that was compared with what cargo says.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) directory: String,
}

/// The question behind a note about `compiled`. The error says why the note is not believed.
pub(super) fn question(
    unit: &Unit,
    compiled: &Compiled,
    output: &CargoOutput,
    scratch: &str,
) -> Result<Question, String> {
    if key(unit).as_ref() != Some(&compiled.package) {
        return Err("it is about another package".to_owned());
    }
    let options = options(&unit.arguments)?;
    if compiled.source != Path::new(root(&options)?) || !has_features(&options, compiled, output) {
        return Err("what the compiler was asked is not what cargo says".to_owned());
    }
    let mut arguments: Vec<String> = vec![
        FORBID.to_owned(),
        "--emit=metadata".to_owned(),
        "--error-format=json".to_owned(),
        format!("--out-dir={scratch}"),
    ];
    arguments.extend(options.iter().filter(|option| !option.is_replaced()).flat_map(Argument::written));
    let environment = unit
        .environment
        .iter()
        .filter(|(name, _)| keeps(name, &compiled.package, output))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    Ok(Question { arguments, environment, directory: unit.directory.clone() })
}

/// Name and version that a note is about.
fn key(unit: &Unit) -> Option<PackageKey> {
    Some((unit.package.parse().ok()?, unit.version.parse().ok()?))
}

/// One option with its value, or the root file.
#[derive(Debug, PartialEq, Eq)]
struct Argument {
    name: String,
    value: String,
}

impl Argument {
    fn is_replaced(&self) -> bool {
        REPLACED.contains(&self.name.as_str()) || (self.name == "-C" && self.value.starts_with("incremental"))
    }

    /// In one form, whatever it was written in.
    fn written(&self) -> Vec<String> {
        let parts = [self.name.clone(), self.value.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }
}

/// Splits the arguments. An option that is not known is a reason not to believe any of it: one that
/// prints something, for example, ends a compiler well that has compiled nothing.
fn options(arguments: &[String]) -> Result<Vec<Argument>, String> {
    let mut options = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if !argument.starts_with('-') {
            options.push(Argument { name: String::new(), value: argument.clone() });
            continue;
        }
        let known = KEPT.iter().chain(REPLACED).find_map(|name| {
            let value = argument.strip_prefix(name)?;
            match name.starts_with("--") {
                true => (value.is_empty() || value.starts_with('=')).then_some((*name, value)),
                false => Some((*name, value)),
            }
        });
        let Some((name, value)) = known else {
            let argument = mfaas_ident::sanitise_line(argument, 60);
            return Err(format!("the compiler was asked with an option that is not known: {argument}"));
        };
        let value = match value.strip_prefix('=').unwrap_or(value) {
            "" => rest.next().ok_or("an option has no value")?,
            value => value,
        };
        options.push(Argument { name: name.to_owned(), value: value.to_owned() });
    }
    Ok(options)
}

/// The one argument that is no option.
fn root(options: &[Argument]) -> Result<&str, String> {
    let mut roots = options.iter().filter(|option| option.name.is_empty());
    match (roots.next(), roots.next()) {
        (Some(root), None) if root.value.ends_with(".rs") => Ok(&root.value),
        _ => Err("the compiler was not asked about one file".to_owned()),
    }
}

/// Whether the `cfg`s are the features that cargo names and what the crate's own build script asked
/// for, all of them and nothing else.
fn has_features(options: &[Argument], compiled: &Compiled, output: &CargoOutput) -> bool {
    let asked: BTreeSet<&str> =
        options.iter().filter(|option| option.name == "--cfg").map(|option| option.value.as_str()).collect();
    let features = compiled.features.iter().map(|feature| format!("feature=\"{feature}\""));
    let features: BTreeSet<String> = features.collect();
    let from_scripts: BTreeSet<&str> = output
        .scripts
        .iter()
        .filter(|script| script.package == compiled.package)
        .flat_map(|script| script.cfgs.iter().map(String::as_str))
        .collect();
    let is_known = |cfg: &&str| features.contains(*cfg) || from_scripts.contains(*cfg);
    asked.iter().all(is_known) && features.iter().all(|feature| asked.contains(feature.as_str()))
}

/// Variables that cargo sets, and those of the crate's own build script.
fn keeps(name: &str, package: &PackageKey, output: &CargoOutput) -> bool {
    let own = || output.scripts.iter().filter(|script| script.package == *package);
    name == "OUT_DIR"
        || (name.starts_with("CARGO") && name != "CARGO_ENCODED_RUSTFLAGS")
        || own().any(|script| script.variables.iter().any(|known| known == name))
}

#[cfg(test)]
mod tests;
