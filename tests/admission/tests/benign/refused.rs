//! Benign code that policy refuses on purpose: the code that is promised, a way out, and proof
//! that the way is open.

use std::path::PathBuf;

use mfaas_harness::Installed;
use mfaas_rules::Code;
use serde::Deserialize;

use crate::pipeline::{self, Ended};
use crate::program::Program;

/// A folder with `as-written/`, `fixed/` and expect.toml.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) name: String,
    directory: PathBuf,
    expected: Expected,
    fixed: Program,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// The code that the refusal must have.
    code: String,
    /// The line of `src/lib.rs` or Cargo.toml that it must point at.
    line: u64,
    /// What to write instead, for people.
    way_out: String,
}

impl Refused {
    /// # Panics
    /// When a part is missing or is not what its name says.
    pub(crate) fn read(directory: PathBuf) -> Self {
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(directory.join("expect.toml")).unwrap();
        let expected: Expected = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(Code::parse(&expected.code).is_some(), "{name}: there is no code {}", expected.code);
        assert!(expected.way_out.len() > 20, "{name}: no way out is described");
        let fixed = Program::read(directory.join("fixed"));
        Self { name, directory, expected, fixed }
    }

    /// Both halves; answers the line to print.
    pub(crate) fn try_it(&self, installed: &Installed) -> Result<String, String> {
        let scratch = tempfile::tempdir().unwrap();
        let Err(refusals) =
            pipeline::admit(installed, &self.directory.join("as-written"), &scratch.path().join("image.so"))
        else {
            return Err("is admitted as written: move it to the others".to_owned());
        };
        let shown: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        let place = format!(":{}", self.expected.line);
        // Every finding must be the promised one: a second, unexplained one would send its author
        // on a way that does not lead out.
        let found = refusals.iter().any(|refusal| refusal.place.ends_with(&place));
        if !found || refusals.iter().any(|refusal| refusal.code != self.expected.code) {
            return Err(format!(
                "{} at line {} instead of {shown:?}",
                self.expected.code, self.expected.line
            ));
        }
        if let Some(mute) =
            refusals.iter().find(|refusal| refusal.message.is_empty() || refusal.hint.is_empty())
        {
            return Err(format!("no message or hint: {mute:?}"));
        }
        match pipeline::run(installed, &self.fixed) {
            Ended::Right { .. } => {
                Ok(format!("refused   {}  {}, and its way out is open", self.name, shown[0]))
            }
            ended => Err(format!("the way out does not lead out: {ended:?}")),
        }
    }
}
