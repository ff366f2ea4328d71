//! `mfaas resource`: data of the site that functions bind, and which tenants may.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use mfaas_ident::{DataAccess, ResourceKind, ResourceName, TenantName};
use mfaas_wire::schema::PAGE_ROWS_MAX;
use mfaas_wire::{CreateResource, GrantResource, Page, Removed, ResourceGrantView, ResourceView};

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

pub(super) mod assets;

/// Data that functions bind.
#[derive(Debug, clap::Args)]
pub(crate) struct Resource {
    #[command(subcommand)]
    command: ResourceCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ResourceCommand {
    /// Make a resource; needs the scope operate. The name is never used for anything else. The same again changes nothing.
    ///
    /// For example: `mfaas resource create links --kind kv`, `mfaas resource create model --kind asset --file model.bin`
    Create {
        /// The resource.
        #[arg(value_name = "NAME")]
        name: ResourceName,
        /// What it is: `kv` for values by key.
        #[arg(long, value_name = "KIND")]
        kind: ResourceKind,
        /// The bytes of an asset, which never change.
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
    },
    /// Let the functions of a tenant (`--tenant`) bind a resource, or change what they may do; needs the scope operate.
    ///
    /// For example: `mfaas resource grant links --tenant acme --access write`
    Grant {
        /// The resource.
        #[arg(value_name = "NAME")]
        name: ResourceName,
        /// `read`, or `write`, which includes it.
        #[arg(long, value_name = "ACCESS")]
        access: DataAccess,
    },
    /// Let the functions of a tenant (`--tenant`) reach a resource no more; needs the scope operate. Its data stays.
    ///
    /// For example: `mfaas resource revoke links --tenant acme`
    Revoke {
        /// The resource.
        #[arg(value_name = "NAME")]
        name: ResourceName,
    },
    /// List what your tenant was granted; for operators all resources with their grants, or those of `--tenant`.
    ///
    /// For example: `mfaas resource list`
    List,
}

impl Resource {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            ResourceCommand::Create { name, kind, file } => create(context, name, kind, file).await,
            ResourceCommand::Grant { name, access } => grant(context, &name, access).await,
            ResourceCommand::Revoke { name } => revoke(context, &name).await,
            ResourceCommand::List => list(context).await,
        }
    }
}

async fn create(
    context: &Context,
    name: ResourceName,
    kind: ResourceKind,
    file: Option<PathBuf>,
) -> Result<Exit, Failure> {
    let client = context.client()?;
    let made: ResourceView = match (kind == ResourceKind::Asset, file) {
        (true, Some(file)) => assets::create(&client, &name, &file).await?,
        (false, None) => client.post("/v1/resources", &CreateResource { name, kind }).await?,
        (true, None) => return Err(assets::refused("an asset is made of a file: --file PATH")),
        (false, Some(_)) => return Err(assets::refused("only an asset is made of a file: --kind asset")),
    };
    context
        .screen
        .result(&made, || format!("{} is there, of the kind {}{}", made.name, made.kind, said(&made)))?;
    Ok(Exit::Ok)
}

/// What an asset consists of.
fn said(view: &ResourceView) -> String {
    let content = view.content.map(|content| format!(", {} bytes, sha256 {}", content.bytes, content.digest));
    content.unwrap_or_default()
}

async fn grant(context: &Context, name: &ResourceName, access: DataAccess) -> Result<Exit, Failure> {
    let tenant = named_tenant(context)?;
    let path = format!("/v1/resources/{name}/grants/{tenant}");
    let granted: ResourceGrantView = context.client()?.put(&path, &GrantResource { access }).await?;
    context.screen.result(&granted, || {
        format!("{} may {} {name}; nodes follow within seconds", granted.tenant, granted.access)
    })?;
    Ok(Exit::Ok)
}

async fn revoke(context: &Context, name: &ResourceName) -> Result<Exit, Failure> {
    let tenant = named_tenant(context)?;
    let path = format!("/v1/resources/{name}/grants/{tenant}");
    let removed: Removed = context.client()?.delete(&path).await?;
    context
        .screen
        .result(&removed, || format!("{tenant} reaches {name} no more; nodes follow within seconds"))?;
    Ok(Exit::Ok)
}

/// Nobody means their own tenant by saying nothing where another one gains or loses something.
fn named_tenant(context: &Context) -> Result<&TenantName, Failure> {
    let tenant = context.global.tenant.as_ref();
    tenant.ok_or_else(|| Failure::Usage("name the tenant that it is about: --tenant TENANT".to_owned()))
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let client = context.client()?;
    let mut items: Vec<ResourceView> =
        every_page(&client, "/v1/resources", &context.own_tenant_if_named()).await?;
    for item in items.iter_mut().filter(|item| item.truncated) {
        item.grants = every_page(&client, &format!("/v1/resources/{}/grants", item.name), "").await?;
        item.truncated = false;
    }
    let page = Page { items, next: None };
    context.screen.result(&page, || text(&page.items))?;
    Ok(Exit::Ok)
}

/// The whole list of a route that answers by pages.
pub(super) async fn every_page<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &str,
    query: &str,
) -> Result<Vec<T>, Failure> {
    let first = format!("{path}?limit={PAGE_ROWS_MAX}{query}");
    let mut page: Page<T> = client.get(&first).await?;
    while let Some(next) = page.next.take() {
        let mut more: Page<T> = client.get(&format!("{first}&after={next}")).await?;
        page.items.append(&mut more.items);
        page.next = more.next;
    }
    Ok(page.items)
}

/// Of one tenant a line for each resource, else one for each grant.
fn text(items: &[ResourceView]) -> String {
    if items.is_empty() {
        return "there is no resource to bind: an operator makes and grants them".to_owned();
    }
    if items.iter().any(|item| item.access.is_some()) {
        let access = |item: &ResourceView| item.access.map_or("-", DataAccess::as_str).to_owned();
        let rows: Vec<_> = items
            .iter()
            .map(|item| vec![item.name.to_string(), item.kind.to_string(), access(item), content(item)])
            .collect();
        return columns(items, &["resource", "kind", "access", "content"], rows);
    }
    let rows: Vec<_> = items.iter().flat_map(grant_rows).collect();
    columns(items, &["resource", "kind", "tenant", "access", "since", "content"], rows)
}

/// A table whose last column is there where one of the resources has content.
fn columns(items: &[ResourceView], heads: &[&str], mut rows: Vec<Vec<String>>) -> String {
    let shown = heads.len() - usize::from(items.iter().all(|item| item.content.is_none()));
    rows.iter_mut().for_each(|row| row.truncate(shown));
    table(&heads[..shown], &rows)
}

/// Bytes of an asset and the beginning of its digest; `-` for what changes.
fn content(item: &ResourceView) -> String {
    item.content.map_or("-".to_owned(), |content| format!("{} B {}", content.bytes, content.digest.short()))
}

fn grant_rows(item: &ResourceView) -> Vec<Vec<String>> {
    let row = |tenant: &str, access: &str, since: &DateTime<Utc>| {
        let since = since.format("%Y-%m-%d %H:%M").to_string();
        let (name, kind) = (item.name.to_string(), item.kind.to_string());
        vec![name, kind, tenant.to_owned(), access.to_owned(), since, content(item)]
    };
    if item.grants.is_empty() {
        return vec![row("-", "-", &item.created_at)];
    }
    item.grants
        .iter()
        .map(|grant| row(grant.tenant.as_str(), grant.access.as_str(), &grant.granted_at))
        .collect()
}

#[cfg(test)]
mod tests;
