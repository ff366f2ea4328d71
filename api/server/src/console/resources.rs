//! Resources and their grants, and the forms with which an operator changes them.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use mfaas_ident::{AssetContent, DataAccess, ResourceKind, ResourceName, TenantName};
use mfaas_wire::{ResourceGrantView, ResourceView};
use serde::Deserialize;

use super::form::SignedForm;
use super::frame::{Frame, html};
use super::rows::{joined, time};
use crate::caller::Caller;
use crate::extract::{Path, Query};
use crate::limits;
use crate::refusal::Refusal;
use crate::responses::resources::{grant_view, resource_view};
use crate::routes::demand_no_asset;
use crate::state::App;

#[derive(Template)]
#[template(path = "resources.html")]
struct ResourcesPage {
    frame: Frame,
    kinds: Vec<ResourceKind>,
    rows: Vec<ResourceRow>,
    /// Behind which name the next page begins.
    next: Option<ResourceName>,
}

/// A row of the table of resources.
struct ResourceRow {
    name: ResourceName,
    kind: ResourceKind,
    created_at: String,
    /// Tenants with what they may do.
    granted: String,
}

impl From<ResourceView> for ResourceRow {
    fn from(view: ResourceView) -> Self {
        let more = view.truncated.then(|| "and more".to_owned());
        let granted = view.grants.iter().map(|grant| format!("{} ({})", grant.tenant, grant.access));
        Self {
            granted: joined(granted.chain(more)),
            name: view.name,
            kind: view.kind,
            created_at: time(view.created_at),
        }
    }
}

#[derive(Template)]
#[template(path = "resource.html")]
struct ResourcePage {
    frame: Frame,
    name: ResourceName,
    kind: ResourceKind,
    /// Of an asset.
    content: Option<AssetContent>,
    accesses: &'static [DataAccess],
    grants: Vec<GrantRow>,
    /// Behind which tenant the next page begins.
    next: Option<TenantName>,
}

/// A row of the table of grants.
struct GrantRow {
    tenant: TenantName,
    access: DataAccess,
    granted_at: String,
}

impl From<ResourceGrantView> for GrantRow {
    fn from(view: ResourceGrantView) -> Self {
        Self { tenant: view.tenant, access: view.access, granted_at: time(view.granted_at) }
    }
}

/// Where a page begins.
#[derive(Deserialize)]
pub(super) struct ResourcesQuery {
    after: Option<ResourceName>,
}

/// The resources of the site.
pub(super) async fn list(
    State(app): State<App>,
    _caller: Caller,
    frame: Frame,
    Query(query): Query<ResourcesQuery>,
) -> Result<Response, Refusal> {
    let grants = limits::RESOURCE_GRANTS_SHOWN_MAX + 1;
    let found = app.catalog.resources(query.after.as_ref(), limits::CONSOLE_ROWS_MAX + 1, grants).await?;
    let views = found.into_iter().map(|(row, grants)| resource_view(row, grants).into());
    let (rows, next) = cut(views.collect(), |row: &ResourceRow| row.name.clone());
    let kinds = ResourceKind::ALL.into_iter().filter(|kind| demand_no_asset(*kind).is_ok()).collect();
    let page = ResourcesPage { frame: frame.at("resources"), kinds, rows, next };
    html(&page, &page.frame.nonce)
}

/// Where a page begins.
#[derive(Deserialize)]
pub(super) struct GrantsQuery {
    after: Option<TenantName>,
}

/// One resource, and which tenants may bind it.
pub(super) async fn show(
    State(app): State<App>,
    _caller: Caller,
    frame: Frame,
    Path(name): Path<ResourceName>,
    Query(query): Query<GrantsQuery>,
) -> Result<Response, Refusal> {
    let limit = limits::CONSOLE_ROWS_MAX + 1;
    let (resource, found) = app.catalog.resource(&name, query.after.as_ref(), limit).await?;
    let rows = found.into_iter().map(|row| grant_view(row).into());
    let (grants, next) = cut(rows.collect(), |row: &GrantRow| row.tenant.clone());
    let page = ResourcePage {
        frame: frame.at("resources"),
        name: resource.name,
        kind: resource.kind,
        content: resource.content,
        accesses: &DataAccess::ALL,
        grants,
        next,
    };
    html(&page, &page.frame.nonce)
}

/// The rows of one page out of one more, and the last of them if there are further ones.
fn cut<T, N>(mut rows: Vec<T>, name: impl Fn(&T) -> N) -> (Vec<T>, Option<N>) {
    let more = rows.len() > limits::CONSOLE_ROWS_MAX as usize;
    rows.truncate(limits::CONSOLE_ROWS_MAX as usize);
    let next = rows.last().filter(|_| more).map(name);
    (rows, next)
}

/// Makes a resource.
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    form: SignedForm,
) -> Result<Response, Refusal> {
    let name: ResourceName = read(form.one("name")?)?;
    let kind = read(form.one("kind")?)?;
    demand_no_asset(kind)?;
    app.catalog.create_resource(&caller.actor(), &name, kind).await?;
    Ok(page_of(&name))
}

/// Grants a resource to a tenant, or changes what it may do with it.
pub(super) async fn grant(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<ResourceName>,
    form: SignedForm,
) -> Result<Response, Refusal> {
    let tenant: TenantName = read(form.one("tenant")?)?;
    let access = read(form.one("access")?)?;
    app.catalog.grant_resource(&caller.actor(), &name, &tenant, access).await?;
    Ok(page_of(&name))
}

/// Revokes a grant.
pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path((name, tenant)): Path<(ResourceName, TenantName)>,
    _form: SignedForm,
) -> Result<Response, Refusal> {
    app.catalog.revoke_resource(&caller.actor(), &name, &tenant).await?;
    Ok(page_of(&name))
}

/// A field of a form as what it has to be.
fn read<T: std::str::FromStr<Err = mfaas_ident::ParseError>>(text: &str) -> Result<T, Refusal> {
    text.trim().parse().map_err(|error: mfaas_ident::ParseError| Refusal::invalid(error.to_string()))
}

fn page_of(name: &ResourceName) -> Response {
    Redirect::to(&format!("/resources/{name}")).into_response()
}
