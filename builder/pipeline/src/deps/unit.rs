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
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn asked(text: &str) -> Result<Asked, String> {
        Asked::read(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_unit_makes_files_of_its_own_name_alone() {
        let lib = asked(
            "--crate-name serde src/lib.rs --crate-type lib -C metadata=ab -C extra-filename=-12 --out-dir /out/deps",
        )
        .unwrap();
        for own in ["serde-12.d", "libserde-12.rlib", "libserde-12.rmeta"] {
            assert!(lib.makes(own), "{own}");
        }
        for other in ["libserde-13.rlib", "libserde.rlib", "libserde-12.rlib.d", "serde-12", "libc.so.6", ""]
        {
            assert!(!lib.makes(other), "{other}");
        }
        assert!(!lib.is_linked());
        let moved = lib.with_out_dir("/unit/made");
        assert_eq!(moved.last().map(String::as_str), Some("/unit/made"));
        let script =
            asked("--crate-name=build_script_build --crate-type=bin -Cextra-filename=-9 --out-dir=/out/b")
                .unwrap();
        assert!(script.is_linked() && script.is_script("build_script_build-9"));
        assert_eq!(script.with_out_dir("/u").last().map(String::as_str), Some("--out-dir=/u"));
    }

    #[test]
    fn an_ask_that_leaves_its_files_open_is_not_understood() {
        let whole = "--crate-name a --crate-type lib -C extra-filename=-1 --out-dir /out";
        assert!(asked(whole).is_ok());
        for part in ["--crate-name a", "--crate-type lib", "-C extra-filename=-1", "--out-dir /out"] {
            assert!(asked(whole.replace(part, "--verbose").trim()).is_err(), "{part}");
        }
        assert!(asked(&format!("{whole} --out-dir /other")).is_err(), "two places");
    }
}
