//! `mfaas down`: stops everything of a home and looks whether something is left.

use std::path::PathBuf;

use mfaas_supervisor::stop_everything;

use crate::commands::up::home_of;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Stop everything that `mfaas up` runs, and prove that nothing is left.
///
/// For example: `mfaas down`
#[derive(Debug, clap::Args)]
pub(crate) struct Down {
    /// The home that was given to `mfaas up`.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
}

impl Down {
    /// Stops and looks.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let home = home_of(self.home.as_deref())?;
        let left = stop_everything(&home)?;
        context.screen.result(&serde_json::json!({ "home": home.root(), "left": left }), || {
            if left.is_empty() {
                format!("{} is stopped; no process, socket or mount is left", home.root().display())
            } else {
                left.join("\n")
            }
        })?;
        Ok(if left.is_empty() { Exit::Ok } else { Exit::Failed })
    }
}
