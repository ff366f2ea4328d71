//! One compilation of a dependency build: what the compiler was asked, and which files come of it.

use std::collections::BTreeMap;

use super::exchange::Ask;

/// What a compiler was asked, for whoever asks it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) directory: String,
}

impl Unit {
    /// `None` where cargo names no package.
    pub(super) fn of(ask: &Ask) -> Option<Self> {
        Some(Self {
            package: ask.environment.get("CARGO_PKG_NAME")?.clone(),
            version: ask.environment.get("CARGO_PKG_VERSION")?.clone(),
            arguments: ask.arguments.clone(),
            environment: ask.environment.clone(),
            directory: ask.directory.clone(),
        })
    }
}

/// What of a compiler's arguments says which files it makes, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    arguments: Vec<String>,
    /// As cargo asks, in cargo's sandbox.
    pub(super) out_dir: String,
    pub(super) crate_name: String,
    extra: String,
    crate_types: Vec<String>,
}

const OUT_DIR: &str = "--out-dir";

impl Asked {
    /// An ask that leaves open which files it makes is not understood.
    pub(super) fn read(arguments: &[String]) -> Result<Self, String> {
        let one = |option: &str| {
            let mut values = values(arguments, option);
            match (values.next(), values.next()) {
                (Some(value), None) => Ok(value.to_owned()),
                _ => Err(format!("a compiler was asked without one `{option}`")),
            }
        };
        let extra = values(arguments, "-C").find_map(|value| value.strip_prefix("extra-filename="));
        let asked = Self {
            out_dir: one(OUT_DIR)?,
            crate_name: one("--crate-name")?,
            extra: extra.ok_or("a compiler was asked without `extra-filename`")?.to_owned(),
            crate_types: values(arguments, "--crate-type").map(str::to_owned).collect(),
            arguments: arguments.to_vec(),
        };
        match asked.crate_types.is_empty() {
            true => Err("a compiler was asked without `--crate-type`".to_owned()),
            false => Ok(asked),
        }
    }

    /// The arguments, for products in another directory.
    pub(super) fn with_out_dir(&self, directory: &str) -> Vec<String> {
        let mut arguments = self.arguments.clone();
        for index in 0..arguments.len() {
            if arguments[index] == OUT_DIR && index + 1 < arguments.len() {
                directory.clone_into(&mut arguments[index + 1]);
            } else if arguments[index].starts_with("--out-dir=") {
                arguments[index] = format!("{OUT_DIR}={directory}");
            }
        }
        arguments
    }

    /// A shared object or a program comes of it.
    pub(super) fn is_linked(&self) -> bool {
        !self.crate_types.iter().all(|kind| matches!(kind.as_str(), "lib" | "rlib"))
    }

    /// Whether a file of that name comes of it.
    pub(super) fn makes(&self, file: &str) -> bool {
        let stem = format!("{}{}", self.crate_name, self.extra);
        match file.strip_prefix("lib").and_then(|rest| rest.strip_prefix(&stem)) {
            Some(".rlib" | ".rmeta" | ".so") => true,
            _ => file.strip_prefix(&stem) == Some(".d") || self.is_script(file),
        }
    }

    /// Whether that file is a program. All that a dependency build runs are build scripts.
    pub(super) fn is_script(&self, file: &str) -> bool {
        self.crate_types.iter().any(|kind| kind == "bin")
            && file == format!("{}{}", self.crate_name, self.extra)
    }
}

/// The values of an option, however it is written.
fn values<'a>(arguments: &'a [String], option: &'a str) -> impl Iterator<Item = &'a str> {
    arguments.iter().enumerate().filter_map(move |(index, argument)| {
        let rest = argument.strip_prefix(option)?;
        if rest.is_empty() {
            return arguments.get(index + 1).map(String::as_str);
        }
        match option.starts_with("--") {
            true => rest.strip_prefix('='),
            false => Some(rest),
        }
    })
}

#[cfg(test)]
mod tests;
