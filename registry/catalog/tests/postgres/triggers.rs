//! Triggers: bounded, recorded, of one tenant, and without effect where the grant is gone.

use mfaas_catalog::{CatalogError, FUNCTION_TRIGGERS_MAX, TENANT_TRIGGERS_MAX, Trigger, WatchedChanges};
use mfaas_ident::{DataAccess, ResourceKind, ResourceName, TenantName, TriggerName};

use crate::fixture::{World, actor, function, tenant};

fn photos() -> ResourceName {
    "photos".parse().unwrap()
}

fn name(name: &str) -> TriggerName {
    TriggerName::parse(name).unwrap()
}

impl World {
    /// With a resource of objects that the tenant may read.
    async fn with_photos() -> Self {
        let world = Self::new().await;
        world.admitted("other", "zero").await;
        world.server.create_resource(&actor(), &photos(), ResourceKind::Object).await.unwrap();
        world.server.grant_resource(&actor(), &photos(), &tenant(), DataAccess::Read).await.unwrap();
        world
    }

    async fn trigger(&self, of: &str, called: &str, prefix: &str) -> Result<Trigger, CatalogError> {
        let changes =
            WatchedChanges { resource: photos(), prefix: prefix.to_owned(), on_put: true, on_delete: false };
        self.server.set_trigger(&actor(), &tenant(), &function(of), (&name(called), &changes)).await
    }
}

#[tokio::test]
async fn a_trigger_is_set_replaced_and_deleted_on_record() {
    let world = World::with_photos().await;
    let missing = world.trigger("resize", "uploads", "in/").await;
    assert!(matches!(missing, Err(CatalogError::NotFound { what: "function" })), "{missing:?}");
    world.admitted("resize", "one").await;
    let set = world.trigger("resize", "uploads", "in/").await.unwrap();
    assert_eq!((set.set_by.as_str(), set.is_granted, set.changes.prefix.as_str()), ("test", true, "in/"));
    let same = world.trigger("resize", "uploads", "in/").await.unwrap();
    assert_eq!(same.id, set.id, "what waits goes on waiting");
    let other = world.trigger("resize", "uploads", "out/").await.unwrap();
    assert_ne!(other.id, set.id);
    assert_eq!(world.server.trigger(set.id).await.unwrap(), None);
    assert_eq!(world.server.trigger(other.id).await.unwrap(), Some(other.clone()));
    assert_eq!(
        world.server.triggers(&tenant(), &function("resize")).await.unwrap(),
        std::slice::from_ref(&other)
    );
    assert_eq!(world.server.site_triggers(None, 10).await.unwrap(), std::slice::from_ref(&other));
    assert!(world.server.site_triggers(Some(other.id), 10).await.unwrap().is_empty());

    let delete = async || {
        world.server.delete_trigger(&actor(), &tenant(), &function("resize"), &name("uploads")).await
    };
    assert_eq!(delete().await.unwrap(), other.id);
    assert!(matches!(delete().await, Err(CatalogError::NotFound { what: "trigger" })));
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'trigger.set'").await, 3);
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'trigger.deleted'").await, 1);

    world.trigger("resize", "uploads", "in/").await.unwrap();
    world.server.delete_function(&actor(), &tenant(), &function("resize")).await.unwrap();
    assert!(world.server.site_triggers(None, 10).await.unwrap().is_empty(), "a deleted function has none");
}

#[tokio::test]
async fn a_grant_that_is_gone_is_seen_at_once() {
    let world = World::with_photos().await;
    world.admitted("resize", "one").await;
    let set = world.trigger("resize", "uploads", "in/").await.unwrap();
    let granted = async || world.server.trigger(set.id).await.unwrap().unwrap().is_granted;
    let kind = async |whose: &TenantName| world.server.granted_kind(whose, &photos()).await.unwrap();
    assert!(granted().await);
    assert_eq!(kind(&tenant()).await, Some(ResourceKind::Object));
    assert_eq!(kind(&"umbrella".parse().unwrap()).await, None, "another tenant has no such resource");
    // That others may read it, or that the tenant may read something else, is not enough.
    world.damage("INSERT INTO tenants (name) VALUES ('umbrella')").await;
    let (umbrella, maps) = ("umbrella".parse().unwrap(), "maps".parse().unwrap());
    world.server.create_resource(&actor(), &maps, ResourceKind::Object).await.unwrap();
    world.server.grant_resource(&actor(), &photos(), &umbrella, DataAccess::Read).await.unwrap();
    world.server.grant_resource(&actor(), &maps, &tenant(), DataAccess::Read).await.unwrap();
    world.server.revoke_resource(&actor(), &photos(), &tenant()).await.unwrap();
    assert!(!granted().await);
    assert_eq!(kind(&tenant()).await, None);
    world.server.grant_resource(&actor(), &photos(), &tenant(), DataAccess::Write).await.unwrap();
    assert!(granted().await);
}

#[tokio::test]
async fn there_are_so_many_triggers_and_no_more() {
    let world = World::with_photos().await;
    world.admitted("resize", "one").await;
    for number in 0..FUNCTION_TRIGGERS_MAX {
        world.trigger("resize", &format!("t{number}"), "in/").await.unwrap();
    }
    world.trigger("resize", "t0", "out/").await.unwrap();
    let full = world.trigger("resize", "more", "in/").await;
    let Err(CatalogError::Conflict { reason }) = full else { panic!("{full:?}") };
    assert!(reason.contains("a function has at most 16 triggers"), "{reason}");
    assert_eq!((FUNCTION_TRIGGERS_MAX, TENANT_TRIGGERS_MAX), (16, 64), "the rows below are as many");
    world
        .damage("INSERT INTO functions (tenant, name, last_version) SELECT 'acme', 'f' || i, 1 FROM generate_series(1, 48) i")
        .await;
    world
        .damage(
            "INSERT INTO triggers (tenant, function, name, id, resource, prefix, on_put, on_delete, set_by)
             SELECT 'acme', 'f' || i, 't', gen_random_uuid(), 'photos', '', true, true, 'test' FROM generate_series(1, 48) i",
        )
        .await;
    let full = world.trigger("f1", "more", "in/").await;
    let Err(CatalogError::Conflict { reason }) = full else { panic!("{full:?}") };
    assert!(reason.contains("a tenant has at most 64 triggers"), "{reason}");
}
