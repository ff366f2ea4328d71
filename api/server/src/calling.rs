//! Calls of functions that the server makes at nodes: for people who are signed in, and by schedules.
//!
//! Must never ask another address than one that a node of the site has reported, nor follow where an answer leads.

use std::time::Duration;

use http::header::HeaderValue;
use mfaas_catalog::Actor;
use mfaas_ident::{CallScope, FunctionName, PersonName, Selector, TenantName};
use mfaas_wire::{CreateCallToken, Endpoint};
use rand::seq::SliceRandom as _;
use reqwest::Url;

use crate::refusal::Refusal;
use crate::responses::nodes::endpoint;
use crate::state::App;
use crate::{limits, routes};

/// Connections to nodes, for calls that each take this long at most.
pub(crate) fn http(limit: Duration) -> Result<reqwest::Client, Refusal> {
    reqwest::Client::builder()
        .timeout(limit)
        .connect_timeout(limits::NODE_CONNECT_MAX)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(Refusal::internal)
}

/// The node to ask, as `mfaas invoke` finds it: one that is ready, else one that may have the version by now.
pub(crate) async fn node_for(
    app: &App,
    tenant: &TenantName,
    name: &FunctionName,
    selector: Option<&Selector>,
) -> Result<(String, Url), Refusal> {
    // Says that there is no such function.
    app.catalog.function(tenant, name).await?;
    let served = app.catalog.served_function(tenant, name).await?;
    let has_it = |row: &Endpoint| match selector {
        Some(Selector::Version(version)) => row.loaded_versions.contains(version),
        Some(Selector::Alias(_)) | None => row.live_version.is_some(),
    };
    let rows = app.catalog.nodes().await?.into_iter();
    let rows = rows.map(|status| endpoint(status, tenant, name, served.as_ref(), None));
    let mut rows: Vec<_> = rows.filter_map(|row| Some((address(row.url.as_deref()?)?, row))).collect();
    // Among equals each time another one: they share the calls, and one that takes none is not asked again and again.
    rows.shuffle(&mut rand::rng());
    let best = rows.into_iter().min_by_key(|(_, row)| (!has_it(row), !row.ready));
    let none =
        || Refusal::unavailable("No node has reported an address that calls can go to.", "no endpoint");
    best.map(|(url, row)| (row.node.to_string(), url)).ok_or_else(none)
}

/// An address that a node has reported, if it is one of a function and says nothing else.
fn address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    is_plain.then_some(url)
}

/// A call token for this function alone, which names this caller of a tenant, as a node wants to see it.
pub(crate) async fn bearer(
    app: &App,
    actor: &Actor,
    named: (&TenantName, PersonName),
    name: &FunctionName,
    life: Duration,
) -> Result<HeaderValue, Refusal> {
    let wanted = CreateCallToken {
        functions: CallScope::of(name.clone()),
        caller: None,
        ttl_s: u32::try_from(life.as_secs()).ok(),
        rate: None,
        concurrency: None,
    };
    let created = routes::issue_call_token(app, actor, named, wanted).await?;
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", created.token)).map_err(Refusal::internal)?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

#[cfg(test)]
mod tests;
