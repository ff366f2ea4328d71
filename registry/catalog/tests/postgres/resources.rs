//! Resources, grants, and what versions bind: counted, recorded, and told to the nodes of the functions that it is about.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use mfaas_attest::AuditHead;
use mfaas_catalog::{CatalogError, SITE_RESOURCES_MAX, TENANT_GRANTS_MAX};
use mfaas_ident::{
    AssetContent, Binding, BindingName, Bindings, DataAccess, Digest, FunctionBinding, ResourceBinding,
    ResourceKind, ResourceName, TenantName,
};
use sqlx::AssertSqlSafe;

use crate::fixture::{World, actor, claim, function, tenant};

pub(crate) fn resource(name: &str) -> ResourceName {
    ResourceName::parse(name).unwrap()
}

fn umbrella() -> TenantName {
    TenantName::parse("umbrella").unwrap()
}

/// A site with the resources `links` and `hits`, and the tenants `acme` and `umbrella`.
async fn site() -> World {
    let world = World::new().await;
    for name in ["links", "hits"] {
        assert!(world.server.create_resource(&actor(), &resource(name), ResourceKind::Kv).await.unwrap().1);
    }
    for tenant in [tenant(), umbrella()] {
        world.server.ensure_tenant(&actor(), &tenant).await.unwrap();
    }
    world
}

impl World {
    /// That the newest version of a function binds a resource, as the signer writes it.
    async fn bind(&self, of: &TenantName, function: &str, name: &str, resource: &str, access: DataAccess) {
        let sql = "INSERT INTO version_bindings (tenant, function, version, name, kind, resource, access)
                   SELECT tenant, name, last_version, $3, 'kv', $4, $5 FROM functions WHERE tenant = $1 AND name = $2";
        sqlx::query(sql)
            .bind(of.as_str())
            .bind(function)
            .bind(name)
            .bind(resource)
            .bind(access.as_str())
            .execute(&self.raw("mfaas_signer").await)
            .await
            .unwrap();
    }

    /// Which functions the signer is to say anew, since this was asked last, and how often it was told to look.
    async fn changed(&self) -> (BTreeSet<String>, i64) {
        let sql = "WITH gone AS (DELETE FROM changed_functions RETURNING tenant || '/' || name AS function)
                   SELECT function FROM gone";
        let changed: Vec<String> = sqlx::query_scalar(sql).fetch_all(&self.sql).await.unwrap();
        let generation = self.count("SELECT generation FROM desired_generation").await;
        (changed.into_iter().collect(), generation)
    }

    async fn records(&self, action: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM audit_log WHERE action = '{action}' AND actor = 'test'");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.sql).await.unwrap()
    }
}

#[tokio::test]
async fn a_resource_is_made_once_and_stays_of_its_kind() {
    let world = World::new().await;
    let (links, kv) = (resource("links"), ResourceKind::Kv);
    let (made, is_new) = world.server.create_resource(&actor(), &links, kv).await.unwrap();
    assert!(is_new && made.created_by == "test", "{made:?}");
    let again = world.server.create_resource(&actor(), &links, kv).await.unwrap();
    assert_eq!(again, (made.clone(), false));
    assert_eq!(world.records("resource.created").await, 1);
    assert_eq!(world.server.resources(None, 10, 10).await.unwrap(), [(made, vec![])]);
    // As if a later release knew another kind.
    world.damage("ALTER TABLE resources DROP CONSTRAINT resources_kind_known").await;
    world.damage("UPDATE resources SET kind = 'queue'").await;
    let conflict = world.server.create_resource(&actor(), &links, kv).await;
    assert!(
        matches!(&conflict, Err(CatalogError::Conflict { reason }) if reason.contains("queue")),
        "{conflict:?}"
    );
}

/// An asset is its bytes: a name with others is taken, and so is one of another kind, each way.
#[tokio::test]
async fn an_asset_is_made_once_and_keeps_its_bytes() {
    let world = World::new().await;
    let model = resource("model");
    let content = |bytes: &[u8]| AssetContent { digest: Digest::of(bytes), bytes: bytes.len() as u64 };
    let stores = AtomicU32::new(0);
    let make = async |name: &ResourceName, bytes: &[u8]| {
        let store = async {
            stores.fetch_add(1, Ordering::Relaxed);
            Ok::<_, CatalogError>(())
        };
        world.server.create_asset(&actor(), name, content(bytes), store).await
    };
    assert_eq!(world.server.asset(&Digest::of(b"one")).await.unwrap(), None);
    let unstored = async { Err(CatalogError::NotFound { what: "blob" }) };
    let failed = world.server.create_asset(&actor(), &model, content(b"one"), unstored).await;
    assert!(matches!(failed, Err(CatalogError::NotFound { .. })), "{failed:?}");
    assert_eq!(world.records("resource.created").await, 0, "no row without its blob");
    let (made, is_new) = make(&model, b"one").await.unwrap();
    assert!(is_new && made.content == Some(content(b"one")), "{made:?}");
    assert_eq!(make(&model, b"one").await.unwrap(), (made.clone(), false));
    assert_eq!(stores.load(Ordering::Relaxed), 1, "the same again stores nothing");
    let conflict = make(&model, b"two").await;
    assert!(
        matches!(&conflict, Err(CatalogError::Conflict { reason }) if reason.contains("other bytes")),
        "{conflict:?}"
    );
    let conflict = world.server.create_resource(&actor(), &model, ResourceKind::Kv).await;
    assert!(matches!(conflict, Err(CatalogError::Conflict { .. })), "{conflict:?}");
    assert_eq!(world.server.resource(&model, None, 1).await.unwrap().0, made);
    assert_eq!(world.server.asset(&Digest::of(b"one")).await.unwrap(), made.content);
    assert_eq!(world.records("resource.created").await, 1);
}

#[tokio::test]
async fn a_site_has_so_many_resources_and_a_tenant_so_many_grants() {
    let world = site().await;
    assert_eq!((SITE_RESOURCES_MAX, TENANT_GRANTS_MAX), (10_000, 1_000), "the rows below are as many");
    world
        .damage(
            "INSERT INTO resources (name, kind, created_by)
             SELECT 'r' || i, 'kv', 'test' FROM generate_series(1, 9997) i",
        )
        .await;
    let make = async |name: &str| {
        world.server.create_resource(&actor(), &resource(name), ResourceKind::Kv).await.map(|made| made.1)
    };
    assert!(make("last").await.unwrap());
    let full = make("one-more").await;
    assert!(matches!(&full, Err(CatalogError::Conflict { reason }) if reason.contains("10000")), "{full:?}");
    assert!(!make("last").await.unwrap(), "what is there is answered");

    world
        .damage(
            "INSERT INTO resource_grants (resource, tenant, access, granted_by)
             SELECT 'r' || i, 'acme', 'read', 'test' FROM generate_series(1, 999) i",
        )
        .await;
    let grant = async |name: &str, tenant: &TenantName, access: DataAccess| {
        world.server.grant_resource(&actor(), &resource(name), tenant, access).await.map(|_| ())
    };
    grant("links", &tenant(), DataAccess::Read).await.unwrap();
    let full = grant("hits", &tenant(), DataAccess::Read).await;
    assert!(matches!(&full, Err(CatalogError::Conflict { reason }) if reason.contains("1000")), "{full:?}");
    grant("links", &tenant(), DataAccess::Write).await.unwrap();
    grant("hits", &umbrella(), DataAccess::Read).await.unwrap();
}

#[tokio::test]
async fn a_grant_is_given_changed_and_revoked_with_a_record_each() {
    let world = site().await;
    let (links, nothing) = (resource("links"), resource("nothing"));
    let grant = async |name: &ResourceName, tenant: &TenantName, access: DataAccess| {
        world.server.grant_resource(&actor(), name, tenant, access).await
    };
    let stranger = TenantName::parse("stranger").unwrap();
    for (name, of, missing) in [(&nothing, &tenant(), "resource"), (&links, &stranger, "tenant")] {
        let refused = grant(name, of, DataAccess::Read).await;
        assert!(matches!(&refused, Err(CatalogError::NotFound { what }) if *what == missing), "{refused:?}");
    }
    let first = grant(&links, &tenant(), DataAccess::Read).await.unwrap();
    let (_, before) = world.changed().await;
    assert_eq!(grant(&links, &tenant(), DataAccess::Read).await.unwrap(), first, "the same again");
    assert_eq!((world.changed().await.1, world.records("resource.granted").await), (before, 1));
    let second = grant(&links, &tenant(), DataAccess::Write).await.unwrap();
    assert!(second.access == DataAccess::Write && second.granted_at > first.granted_at, "{second:?}");
    let other = grant(&links, &umbrella(), DataAccess::Read).await.unwrap();

    let (found, grants) = world.server.resource(&links, None, 10).await.unwrap();
    assert_eq!((found.name.as_str(), &grants), ("links", &vec![second.clone(), other.clone()]));
    assert_eq!(world.server.resource(&links, Some(&tenant()), 10).await.unwrap().1, [other]);
    let refused = world.server.resource(&nothing, None, 10).await;
    assert!(matches!(refused, Err(CatalogError::NotFound { what: "resource" })), "{refused:?}");
    let all = world.server.resources(None, 10, 1).await.unwrap();
    let told: Vec<_> = all.iter().map(|(found, grants)| (found.name.as_str(), grants.len())).collect();
    assert_eq!(told, [("hits", 0), ("links", 1)], "one grant of each was asked for");
    assert_eq!(world.server.resources(Some(&resource("hits")), 10, 10).await.unwrap()[0].1, grants);
    assert_eq!(
        world.server.resources_of_tenant(&tenant(), None, 10).await.unwrap(),
        [(found, second.clone())]
    );
    assert_eq!(world.server.resources_of_tenant(&tenant(), Some(&links), 10).await.unwrap(), []);
    assert_eq!(world.server.resources_of_tenant(&stranger, None, 10).await.unwrap(), []);

    let revoke = async || world.server.revoke_resource(&actor(), &links, &tenant()).await;
    assert_eq!(revoke().await.unwrap(), second);
    let refused = revoke().await;
    assert!(matches!(refused, Err(CatalogError::NotFound { .. })), "{refused:?}");
    let told = "SELECT string_agg(action || ' ' || (detail ->> 'access'), ', ' ORDER BY seq) FROM audit_log
                WHERE tenant = 'acme' AND subject = 'links'";
    let told: String = sqlx::query_scalar(told).fetch_one(&world.sql).await.unwrap();
    assert_eq!(told, "resource.granted read, resource.granted write, resource.revoked write");
    assert!(world.server.verify_audit(AuditHead::START).await.unwrap().is_ok());
}

/// Nodes hear of a grant by the functions that bind the resource, whichever of their versions does.
#[tokio::test]
async fn a_grant_is_told_with_the_functions_that_bind_the_resource_and_no_others() {
    let world = site().await;
    for (name, binds) in [("shorten", "links"), ("follow", "links"), ("count", "hits")] {
        world.admitted(name, name).await;
        world.bind(&tenant(), name, "data", binds, DataAccess::Read).await;
    }
    world.admitted("plain", "plain").await;
    // An older version binds it, the newest does not.
    world.admitted("follow", "follow again").await;
    let theirs = world.upload_of(&umbrella(), "theirs", "key", b"theirs").await;
    let claimed = world.claim("one").await;
    world.builder.finish_built(&claimed.lease, &claim(b"theirs")).await.unwrap();
    world.admit(theirs.id, Digest::of(b"theirs")).await;
    world.bind(&umbrella(), "theirs", "data", "links", DataAccess::Read).await;
    let (_, mut generation) = world.changed().await;
    let links = resource("links");
    let all: BTreeSet<String> = ["acme/follow", "acme/shorten"].map(str::to_owned).into();
    let grants = [Some(DataAccess::Read), Some(DataAccess::Write), Some(DataAccess::Read), None];
    for access in grants {
        match access {
            Some(access) => {
                drop(world.server.grant_resource(&actor(), &links, &tenant(), access).await.unwrap())
            }
            None => drop(world.server.revoke_resource(&actor(), &links, &tenant()).await.unwrap()),
        }
        let (changed, now) = world.changed().await;
        assert_eq!((&changed, now), (&all, generation + 1), "{access:?}");
        generation = now;
    }
    world.server.grant_resource(&actor(), &links, &umbrella(), DataAccess::Read).await.unwrap();
    assert_eq!(world.changed().await, (["umbrella/theirs".to_owned()].into(), generation + 1));
}

#[tokio::test]
async fn a_version_has_what_it_binds() {
    let world = site().await;
    let first = world.admitted("shorten", "one").await;
    let second = world.admitted("shorten", "two").await;
    world.bind(&tenant(), "shorten", "urls", "links", DataAccess::Write).await;
    world.bind(&tenant(), "shorten", "hits", "hits", DataAccess::Read).await;
    let sql = "INSERT INTO version_calls (tenant, function, version, name, callee)
               SELECT tenant, name, last_version, 'rank', 'rank-eu' FROM functions WHERE name = 'shorten'";
    sqlx::query(sql).execute(&world.raw("mfaas_signer").await).await.unwrap();
    let binding = |resource_name: &str, access| {
        let resource = resource(resource_name);
        Binding::Resource(ResourceBinding { kind: ResourceKind::Kv, resource, access })
    };
    let bindings: Bindings = [
        (
            BindingName::parse("rank").unwrap(),
            Binding::Function(FunctionBinding::new(function("rank-eu").into())),
        ),
        (BindingName::parse("urls").unwrap(), binding("links", DataAccess::Write)),
        (BindingName::parse("hits").unwrap(), binding("hits", DataAccess::Read)),
    ]
    .into();
    let (tenant, name) = (tenant(), function("shorten"));
    let versions = world.server.versions(&tenant, &name, None, 10).await.unwrap();
    let told: Vec<_> = versions.iter().map(|row| (row.version, row.bindings.clone())).collect();
    assert_eq!(told, [(second, bindings.clone()), (first, Bindings::new())]);
    assert_eq!(world.server.version(&tenant, &name, second).await.unwrap().bindings, bindings);
}
