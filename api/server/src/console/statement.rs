//! What the signed statement about a version says. Nodes decide by it alone, so pages show what stands there and not the
//! server's copy; verifying signatures is for nodes.

use mfaas_attest::{Admission, Draft, Statement};
use mfaas_catalog::{CatalogError, Version};

use crate::refusal::Refusal;
use crate::state::App;

/// The statement, if there is one that can be read and is about this version.
pub(super) async fn admission(app: &App, row: &Version) -> Result<Option<Admission>, Refusal> {
    let stored = match app.catalog.statement_of(&row.tenant, &row.artifact, Some(&row.statement)).await {
        Ok(stored) => stored,
        Err(CatalogError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let draft = Draft::<Statement>::read(stored.envelope.as_bytes()).ok();
    let said = draft.map(|draft| draft.document().predicate.clone());
    Ok(said.filter(|said| {
        said.tenant == row.tenant && said.function == row.function && said.version == row.version
    }))
}
