//! The allowlist and what waits for it, as one caller may see it.

use mfaas_catalog::Catalog;
use mfaas_wire::CrateView;

use crate::caller::Caller;
use crate::limits;
use crate::refusal::Refusal;

use super::{decided_crate, waiting_crate};

/// Waiting requests that the caller may see: their own tenant's, or all for a reviewer.
pub(crate) async fn waiting_crates(catalog: &Catalog, caller: &Caller) -> Result<Vec<CrateView>, Refusal> {
    let waiting = catalog.unanswered_requests(caller.decisions_of(), limits::PAGE_ROWS_MAX).await?;
    Ok(waiting.into_iter().map(waiting_crate).collect())
}

/// Those, then the decisions for everybody and for the caller's tenant; all for a reviewer.
pub(crate) async fn crate_views(catalog: &Catalog, caller: &Caller) -> Result<Vec<CrateView>, Refusal> {
    let waiting = waiting_crates(catalog, caller).await?.into_iter();
    let decided = catalog.crates(caller.decisions_of()).await?;
    Ok(waiting.chain(decided.into_iter().map(decided_crate)).collect())
}
