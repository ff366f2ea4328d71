//! Assets: what of them is signed.

use mfaas_ident::Class;

use crate::world::{MANIFEST, World};
use crate::{SOURCE, outcome};

/// The statement says which bytes a version reads, as the site has them when it is signed.
#[test]
fn an_asset_is_signed_with_its_bytes_and_not_a_larger_one_than_the_class_may_have() {
    let mut world = World::new();
    let _signer = world.signer();
    let digest = "ab".repeat(32);
    world
        .sql
        .batch_execute(&format!(
            "INSERT INTO resources (name, kind, digest, bytes, created_by) VALUES
                 ('model', 'asset', '{digest}', 67108864, 'test'), ('large', 'asset', '{}', 67108865, 'test');
             INSERT INTO resource_grants (resource, tenant, access, granted_by) VALUES ('large', 'acme', 'read', 'test')",
            "cd".repeat(32)
        ))
        .unwrap();
    let deploy = |world: &mut World, class: &str, resources: &[&str]| {
        let row = |(place, name): (usize, &&str)| {
            format!("b{place} = {{ kind = \"asset\", resource = \"{name}\" }}\n")
        };
        let rows: String = resources.iter().enumerate().map(row).collect();
        let manifest = format!(
            "{MANIFEST}[package.metadata.mfaas]\nclass = \"{class}\"\n[package.metadata.mfaas.bindings]\n{rows}"
        );
        let bound = resources.iter().enumerate().map(|(place, name)| {
            let binding = serde_json::json!({"kind": "asset", "resource": name, "access": "read"});
            (format!("b{place}").parse().unwrap(), serde_json::from_value(binding).unwrap())
        });
        let bound: mfaas_ident::Bindings = bound.collect();
        let class = Class::parse(class).unwrap();
        let id = world.built_from(&manifest, SOURCE, |claim| {
            claim.bindings = bound.clone();
            claim.declared.class = class;
        });
        (id, world.ended(id))
    };
    assert_eq!(deploy(&mut world, "micro", &["model"]).1, outcome("refused", &["MF1201"]));
    world.sql.batch_execute("INSERT INTO resource_grants (resource, tenant, access, granted_by) VALUES ('model', 'acme', 'read', 'test')").unwrap();
    // One that two bindings name counts once.
    let (id, ended) = deploy(&mut world, "micro", &["model", "model"]);
    assert_eq!(ended, outcome("admitted", &[]));
    let assets = world.statement(id).predicate.assets();
    let said: Vec<_> = assets.values().map(|asset| (asset.digest.to_string(), asset.bytes)).collect();
    assert_eq!(said, [(digest.clone(), 64 << 20), (digest, 64 << 20)]);
    for resources in [&["large"][..], &["model", "large"]] {
        assert_eq!(
            deploy(&mut world, "micro", resources).1,
            outcome("refused", &["MF1220"]),
            "{resources:?}"
        );
    }
    let (id, ended) = deploy(&mut world, "bulk", &["model", "large"]);
    assert_eq!(ended, outcome("admitted", &[]));
    assert_eq!(world.statement(id).predicate.assets().len(), 2);
}
