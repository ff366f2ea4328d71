//! The file that tells a supervisor that a service answers, and where.

use std::io;
use std::path::Path;

use serde_json::{Map, Value};

/// Writes `fields` and this process's `pid` as one JSON object: beside the file, then renamed, so that a reader never sees half
/// of it.
pub fn write_ready_file(path: &Path, mut fields: Map<String, Value>) -> io::Result<()> {
    fields.insert("pid".to_owned(), std::process::id().into());
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let partial = path.with_extension("partial");
    std::fs::write(&partial, Value::Object(fields).to_string()).map_err(named)?;
    std::fs::rename(&partial, path).map_err(named)
}

#[cfg(test)]
mod tests;
