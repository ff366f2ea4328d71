//! Tokens: only their hash is stored, expiry and revocation count.

use chrono::{TimeDelta, Utc};
use mfaas_catalog::{CatalogError, NewToken};
use mfaas_ident::{Digest, IdentitySource, Role, Scope, TenantName};

use crate::fixture::{World, actor, person, reviewing, secret, tenant};

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

#[tokio::test]
async fn a_token_that_may_vote_has_a_person_with_a_name() {
    let world = World::new().await;
    let alice = person("alice");
    for role in Role::ALL {
        let speaks = role.scopes().iter().any(|scope| scope.may_vote());
        let named = NewToken { scopes: role.scopes(), ..reviewing(&alice) };
        let nameless = NewToken { person: None, secret_sha256: secret(), ..named.clone() };
        let refused =
            world.server.create_token(&actor(), &nameless).await.err().map(|error| error.to_string());
        let sentence = "a token that decides about dependencies has to name its person".to_owned();
        assert_eq!(refused, speaks.then_some(sentence), "{role}");
        let token = world.server.create_token(&actor(), &named).await.unwrap();
        assert_eq!(
            (token.role(), token.identity_source, token.made_by.as_str()),
            (Some(role), IdentitySource::Admin, "test")
        );
        assert_eq!(token.holds(Scope::Review), speaks, "{role}");
    }
}

#[tokio::test]
async fn what_a_provider_says_ends_within_a_day_and_names_a_person() {
    let world = World::new().await;
    let alice = person("alice@example.org");
    let made = world.signed_in("alice@example.org").await;
    assert_eq!((made.identity_source, made.person.as_str()), (IdentitySource::Provider, "alice@example.org"));
    for life in [None, Some(TimeDelta::hours(25))] {
        let expires_at = life.map(|life| Utc::now() + life);
        let new = NewToken { expires_at, ..reviewing(&alice) };
        let error = world.server.create_provider_token(&actor(), &new).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "a token of a person whom the provider has signed in ends within a day"
        );
    }
    let expires_at = Some(Utc::now() + TimeDelta::hours(1));
    let nobody = NewToken { expires_at, person: None, ..reviewing(&alice) };
    assert!(world.server.create_provider_token(&actor(), &nobody).await.is_err());
}

/// A token of the release before, which had no person and a vote all the same.
#[tokio::test]
async fn a_nameless_token_from_before_keeps_all_but_its_vote() {
    let world = World::new().await;
    let alice = person("alice");
    let new = NewToken { scopes: Role::Admin.scopes(), ..reviewing(&alice) };
    let made = world.server.create_token(&actor(), &new).await.unwrap();
    assert!(made.holds(Scope::Review));
    sqlx::query("UPDATE tokens SET vouched_by = 'nobody', person = 'acme/reviewer'")
        .execute(&world.sql)
        .await
        .unwrap();
    let old = world.server.authenticate(&new.secret_sha256).await.unwrap().unwrap();
    assert!(old.holds(Scope::Admin) && !old.holds(Scope::Review) && old.lacks_a_person());
    world.server.revoke_token(&actor(), None, old.id).await.unwrap();
}
