//! What packages bind is made and granted, as an operator does by `mfaas resource`; on a developer's own machine nobody else would.

use std::collections::BTreeMap;
use std::path::Path;

use mfaas_ident::{Bindings, DataAccess, ResourceKind};
use mfaas_rules::codes;
use mfaas_wire::{CreateResource, GrantResource, Page, ResourceGrantView, ResourceView};

use crate::client::Client;
use crate::commands::deploy::reach;
use crate::commands::resource::{assets, every_page};
use crate::failure::Failure;
use crate::settings::Context;

/// Makes what is missing and grants it to the tenant. A grant is never made smaller.
/// The bytes of an asset are those of the file of its name among `files`.
pub(super) async fn provide(
    context: &Context,
    client: &Client,
    (files, bindings): (&Path, &Bindings),
) -> Result<(), Failure> {
    let bound = reach(bindings);
    let Some(tenant) = context.tenant().filter(|_| !bound.is_empty()) else { return Ok(()) };
    let query = format!("&tenant={tenant}");
    let granted: Vec<ResourceView> = every_page(client, "/v1/resources", &query).await?;
    let granted: BTreeMap<_, _> =
        granted.into_iter().map(|view| (view.name, (view.kind, view.access))).collect();
    for ((kind, resource), access) in &bound {
        let is_granted = |(of, may): &(_, Option<DataAccess>)| of == kind && *may >= Some(*access);
        if granted.get(resource).is_some_and(is_granted) {
            continue;
        }
        let wanted = CreateResource { name: resource.clone(), kind: *kind };
        let grants = format!("/v1/resources/{resource}/grants");
        let made = async {
            let held: Option<Page<ResourceGrantView>> = client.find(&format!("{grants}?limit=2")).await?;
            if held.is_some_and(|held| held.items.iter().any(|grant| grant.tenant != *tenant)) {
                return Ok(false);
            }
            if *kind == ResourceKind::Asset {
                assets::create(client, resource, &files.join(resource.as_str())).await?;
            } else {
                let _: ResourceView = client.post("/v1/resources", &wanted).await?;
            }
            let granted = GrantResource { access: *access };
            client.put::<_, ResourceGrantView>(&format!("{grants}/{tenant}"), &granted).await.map(|_| true)
        };
        match made.await {
            Ok(true) => context.screen.note(&format!("{tenant} may now {access} {kind} `{resource}`")),
            Ok(false) => context.screen.note(&format!(
                "{kind} `{resource}` is another tenant's too: `mfaas resource grant {resource} --tenant {tenant} --access {access}` shares it"
            )),
            Err(Failure::Problem(problem)) if problem.code == codes::MF0902.id() => {
                context.screen.note(&format!(
                    "your token grants no resources (it lacks `operate`): an operator has to make and grant {kind} `{resource}`"
                ));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}
