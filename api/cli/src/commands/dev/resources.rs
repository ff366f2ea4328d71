//! What packages bind is made and granted, as an operator does by `mfaas resource`; on a developer's own machine nobody else would.

use std::collections::BTreeMap;

use mfaas_ident::{Binding, Bindings, DataAccess, ResourceBinding};
use mfaas_rules::codes;
use mfaas_wire::{CreateResource, GrantResource, ResourceGrantView, ResourceView};

use crate::client::Client;
use crate::commands::resource::every_page;
use crate::failure::Failure;
use crate::settings::Context;

/// Makes what is missing and grants it to the tenant. A grant is never made smaller.
pub(super) async fn provide(context: &Context, client: &Client, bindings: &Bindings) -> Result<(), Failure> {
    let bound: Vec<&ResourceBinding> = bindings.values().filter_map(Binding::resource).collect();
    let Some(tenant) = context.tenant().filter(|_| !bound.is_empty()) else { return Ok(()) };
    let query = format!("&tenant={tenant}");
    let granted: Vec<ResourceView> = every_page(client, "/v1/resources", &query).await?;
    let granted: BTreeMap<_, _> =
        granted.into_iter().map(|view| (view.name, (view.kind, view.access))).collect();
    for ResourceBinding { kind, resource, access } in bound {
        let is_granted = |(of, may): &(_, Option<DataAccess>)| of == kind && *may >= Some(*access);
        if granted.get(resource).is_some_and(is_granted) {
            continue;
        }
        let wanted = CreateResource { name: resource.clone(), kind: *kind };
        let path = format!("/v1/resources/{resource}/grants/{tenant}");
        let made = async {
            let _: ResourceView = client.post("/v1/resources", &wanted).await?;
            client.put::<_, ResourceGrantView>(&path, &GrantResource { access: *access }).await
        };
        match made.await {
            Ok(_) => context.screen.note(&format!("{tenant} may now {access} {kind} `{resource}`")),
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
