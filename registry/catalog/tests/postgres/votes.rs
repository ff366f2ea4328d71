//! Votes: given by people, with tokens that open reviews, and never twice by one human under two names.

use mfaas_catalog::{CatalogError, NewToken, NewVote, Token};
use mfaas_ident::{Role, Scope};
use mfaas_rules::People;
use mfaas_rules::review::{ReviewState, Terms};

use crate::fixture::{World, actor, person, reviewing as new_token, secret};
use crate::reviews::{reviewing, waiting};

async fn yes(world: &World, review: i64, token: &Token) -> Result<ReviewState, CatalogError> {
    let terms = Terms::default();
    world.server.vote(&NewVote { review, token, approve: Some(&terms), note: "looked at it" }).await
}

async fn refused(world: &World, review: i64, token: &Token) -> String {
    yes(world, review, token).await.unwrap_err().to_string()
}

async fn open(world: &World) -> i64 {
    let (_, request) = waiting(world).await;
    reviewing(world, request.id, People::Two).await
}

const NO_PERSON: &str = "only a person with a token that opens reviews can speak";

#[tokio::test]
async fn two_tokens_of_one_person_are_one_vote_and_two_people_are_two() {
    let world = World::new().await;
    let review = open(&world).await;
    let (laptop, desktop) = (world.reviewer("alice").await, world.reviewer("alice").await);
    assert_eq!(yes(&world, review, &laptop).await.unwrap(), ReviewState::Open);
    assert_eq!(refused(&world, review, &desktop).await, "this person has voted already");
    assert_eq!(yes(&world, review, &world.reviewer("bob").await).await.unwrap(), ReviewState::Approved);
    let said = world.count("SELECT count(*) FROM audit_log WHERE action = 'review.voted' AND detail ->> 'token_made_by' = 'test'");
    assert_eq!(said.await, 2, "the log tells who made the token of a vote");
}

#[tokio::test]
async fn a_vote_needs_a_token_that_opens_reviews_now() {
    let world = World::new().await;
    let review = open(&world).await;
    let carol = person("carol");
    for scopes in [&[Scope::Deploy][..], &[Scope::Operate], &[Scope::Read]] {
        let new = NewToken { scopes, secret_sha256: secret(), ..new_token(&carol) };
        let token = world.server.create_token(&actor(), &new).await.unwrap();
        assert_eq!(refused(&world, review, &token).await, NO_PERSON, "{scopes:?}");
    }
    let withdrawn = world.reviewer("carol").await;
    world.server.revoke_token(&actor(), None, withdrawn.id).await.unwrap();
    assert_eq!(refused(&world, review, &withdrawn).await, NO_PERSON);
    // A faulty program that puts another name beside the token.
    let forged = Token { person: person("dave"), ..world.reviewer("carol").await };
    assert_eq!(refused(&world, review, &forged).await, NO_PERSON);
    let admin = NewToken { scopes: Role::Admin.scopes(), secret_sha256: secret(), ..new_token(&carol) };
    let admin = world.server.create_token(&actor(), &admin).await.unwrap();
    assert_eq!(yes(&world, review, &admin).await.unwrap(), ReviewState::Open, "admin implies review");
}

#[tokio::test]
async fn votes_of_two_authorities_are_not_added_up() {
    let world = World::new().await;
    let review = open(&world).await;
    // Perhaps one human: an admin calls her alice, the provider by her address.
    let (alice, address) = (world.reviewer("alice").await, world.signed_in("alice@example.org").await);
    assert_eq!(yes(&world, review, &address).await.unwrap(), ReviewState::Open);
    let mixed = "the other votes come from people whom another authority names, and might be the same";
    assert_eq!(refused(&world, review, &alice).await, mixed);
    let same = NewToken { secret_sha256: secret(), ..new_token(&address.person) };
    let same = world.server.create_token(&actor(), &same).await.unwrap();
    assert_eq!(refused(&world, review, &same).await, "this person has voted already");
    let bob = world.signed_in("bob@example.org").await;
    assert_eq!(yes(&world, review, &bob).await.unwrap(), ReviewState::Approved);
}
