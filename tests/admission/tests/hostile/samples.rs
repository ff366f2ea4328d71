//! `tests/hostile/samples.tsv`: what a tenant was seen to try, with how bad it would be and what was
//! promised of it. None of these may be lost, and no promise may become another by a blessing.

use std::collections::BTreeSet;

use anyhow::Context as _;
use mfaas_harness::checkout;

use crate::archives;

/// Samples below this are uploads as bytes.
const ARCHIVES: &str = "archives/";

/// Holds every sample against the cases and archives; answers how many there are.
pub(crate) fn keep() -> anyhow::Result<usize> {
    let folder = checkout().join("tests/hostile");
    let archives = archives::codes()?;
    let mut seen = BTreeSet::new();
    for line in std::fs::read_to_string(folder.join("samples.tsv"))?.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let [name, _severity, wanted] = cells[..] else { anyhow::bail!("`{line}` has not three cells") };
        anyhow::ensure!(seen.insert(name.to_owned()), "{name} is there twice");
        let found = match name.strip_prefix(ARCHIVES) {
            Some(archive) => {
                archives.get(archive).cloned().with_context(|| format!("{name} is not tried"))?
            }
            None => {
                let path = folder.join(name).join("expect.toml");
                let text = std::fs::read_to_string(&path).with_context(|| format!("{name} is not tried"))?;
                let expected: toml_edit::DocumentMut =
                    text.parse().with_context(|| path.display().to_string())?;
                let promise = expected.get("promise").and_then(toml_edit::Item::as_str);
                promise.unwrap_or("refused").to_owned()
            }
        };
        anyhow::ensure!(found == wanted, "{name}: promised {wanted}, and the case has {found}");
    }
    Ok(seen.len())
}
