//! `mfaas new`: a package that deploys as it is.

use std::path::{Path, PathBuf};

use mfaas_ident::FunctionName;

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Start a function: a package that deploys as it is.
///
/// Makes a directory with Cargo.toml and src/lib.rs.
///
/// For example: `mfaas new hello`
#[derive(Debug, clap::Args)]
pub(crate) struct New {
    /// Name of the function and of the directory.
    #[arg(value_name = "NAME")]
    name: FunctionName,
    /// Make the package here instead of in ./NAME.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

const SOURCE: &str = r#"//! A function: bytes in, bytes out.

/// Answers every call. Nothing it changes survives the call.
pub fn handle(request: &[u8]) -> Vec<u8> {
    let name = String::from_utf8_lossy(request);
    let name = if name.trim().is_empty() { "world" } else { name.trim() };
    format!("Hello, {name}!\n").into_bytes()
}

#[cfg(test)]
mod tests {
    #[test]
    fn greets() {
        assert_eq!(super::handle(b"Ada"), b"Hello, Ada!\n");
    }
}
"#;

impl New {
    /// Writes the package.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let dir = self.path.unwrap_or_else(|| PathBuf::from(self.name.as_str()));
        write_package(&dir, &self.name)?;
        let shown = dir.display().to_string();
        context.screen.result(&serde_json::json!({ "path": shown, "function": self.name }), || {
            format!("{shown} is ready: mfaas deploy {shown}")
        })?;
        Ok(Exit::Ok)
    }
}

/// Refuses a directory that holds anything, so that nothing is overwritten.
fn write_package(dir: &Path, name: &FunctionName) -> Result<(), Failure> {
    if std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::Usage(format!("{} exists and is not empty", dir.display())));
    }
    let source = dir.join("src");
    std::fs::create_dir_all(&source).map_err(Failure::io("cannot make", &source))?;
    for (path, text) in [
        (dir.join("Cargo.toml"), manifest(name)),
        (source.join("lib.rs"), SOURCE.to_owned()),
        (dir.join(".gitignore"), "/target\n".to_owned()),
    ] {
        std::fs::write(&path, text).map_err(Failure::io("cannot write", &path))?;
    }
    Ok(())
}

fn manifest(name: &FunctionName) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         # All of this is optional; these are the defaults.\n\
         [package.metadata.mfaas]\nhandler = \"handle\"\n\
         class = \"micro\"       # or \"bulk\": minutes, a gigabyte, large bodies\nbudget = \"1ms\"\nmemory = \"4MiB\"\n\
         isolation = \"shared\"  # or \"process\": workers of your own\n\
         idempotent = false    # true: a call whose worker died may run again\n\
         access = \"tenant\"     # or \"public\": anybody; \"token\": call tokens that name it\n"
    )
}

#[cfg(test)]
mod tests;
