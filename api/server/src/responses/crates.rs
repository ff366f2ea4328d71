//! The allowlist and what waits for it, as one caller may see it.

use mfaas_catalog::Catalog;
use mfaas_wire::CrateView;

use crate::caller::Caller;
use crate::limits;
use crate::refusal::Refusal;

use super::{decided_crate, waiting_crate};

/// Waiting requests that the caller may see, then the decisions for everybody and for the caller's tenant; all of both for a
/// reviewer.
pub(crate) async fn crate_views(catalog: &Catalog, caller: &Caller) -> Result<Vec<CrateView>, Refusal> {
    let waiting = catalog.unanswered_requests(caller.decisions_of(), limits::PAGE_ROWS_MAX).await?;
    let decided = catalog.crates(caller.decisions_of()).await?;
    let waiting = waiting.into_iter().map(waiting_crate);
    Ok(waiting.chain(decided.into_iter().map(decided_crate)).collect())
}
