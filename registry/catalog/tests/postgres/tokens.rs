//! Tokens: only their hash is stored, expiry and revocation count.

use chrono::{TimeDelta, Utc};
use mfaas_catalog::{CatalogError, NewToken};
use mfaas_ident::{Digest, Scope, TenantName};

use crate::fixture::{World, actor, tenant};

#[tokio::test]
async fn a_token_is_found_by_its_secret_until_revoked() {
    let world = World::new().await;
    let tenant = tenant();
    let secret = Digest::of(b"mfaas_secret");
    let new = NewToken {
        tenant: &tenant,
        name: "Lap top",
        person: None,
        scopes: &[Scope::Read, Scope::Deploy],
        secret_sha256: secret,
        expires_at: None,
    };
    let token = world.server.create_token(&actor(), &new).await.unwrap();
    assert!(token.holds(Scope::Deploy) && !token.holds(Scope::Admin));
    assert_eq!(token.person.as_str(), "acme/lap_top", "a token without a person speaks for itself");
    assert_eq!(world.server.authenticate(&secret).await.unwrap(), Some(token.clone()));
    assert_eq!(world.server.authenticate(&Digest::of(b"guess")).await.unwrap(), None);
    let twice = world.server.create_token(&actor(), &new).await;
    assert!(matches!(twice, Err(CatalogError::Conflict { .. })));

    let stranger = TenantName::parse("stranger").unwrap();
    let foreign = world.server.revoke_token(&actor(), Some(&stranger), token.id).await;
    assert!(matches!(foreign, Err(CatalogError::NotFound { what: "token" })));
    world.server.revoke_token(&actor(), Some(&tenant), token.id).await.unwrap();
    world.server.revoke_token(&actor(), None, token.id).await.unwrap();
    assert_eq!(world.server.authenticate(&secret).await.unwrap(), None);
    assert!(world.server.tokens(Some(&tenant), 10).await.unwrap()[0].revoked_at.is_some());
    assert!(world.server.tokens(Some(&stranger), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_expired_token_and_one_without_scopes_do_not_work() {
    let world = World::new().await;
    let tenant = tenant();
    let secret = Digest::of(b"old");
    let expires_at = Some(Utc::now() - TimeDelta::minutes(1));
    let old = NewToken {
        tenant: &tenant,
        name: "old",
        scopes: &[Scope::Read],
        secret_sha256: secret,
        expires_at,
        person: None,
    };
    world.server.create_token(&actor(), &old).await.unwrap();
    assert_eq!(world.server.authenticate(&secret).await.unwrap(), None);
    let none = NewToken { scopes: &[], secret_sha256: Digest::of(b"none"), ..old };
    let error = world.server.create_token(&actor(), &none).await.unwrap_err();
    assert_eq!(error.to_string(), "a token needs at least one known scope");
}
