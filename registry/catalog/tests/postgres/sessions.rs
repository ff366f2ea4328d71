//! Sessions and answered sign-ins: hashes alone, for a while, in bounded number, and over at once for everybody.

use std::time::Duration;

use mfaas_catalog::{CatalogError, SIGN_IN_ANSWERS_MAX, TOKEN_SESSIONS_MAX};
use mfaas_ident::Digest;

use crate::fixture::{LONG, World, actor, secret};

#[tokio::test]
async fn a_session_opens_its_token_until_either_is_over() {
    let (world, other) = {
        let world = World::new().await;
        let other = world.again().await;
        (world, other)
    };
    let token = world.reviewer("alice").await;
    let cookies: Vec<Digest> = (0..4).map(|_| secret()).collect();
    for cookie in &cookies[..3] {
        world.server.open_session(cookie, token.id, LONG).await.unwrap();
    }
    let opens = async |cookie: &Digest| other.server.session_token(cookie).await.unwrap();
    assert_eq!(opens(&cookies[0]).await, Some(token.clone()));
    assert_eq!(opens(&cookies[3]).await, None, "nobody opened it");
    world.server.close_session(&cookies[0]).await.unwrap();
    world.server.close_session(&cookies[0]).await.unwrap();
    assert_eq!(opens(&cookies[0]).await, None, "it was closed");
    let over = "UPDATE sessions SET opened_at = now() - interval '1 hour', expires_at = now()
                WHERE cookie_sha256 = $1";
    sqlx::query(over).bind(cookies[1].to_string()).execute(&world.sql).await.unwrap();
    assert_eq!(opens(&cookies[1]).await, None, "its time is over");
    assert!(opens(&cookies[2]).await.is_some(), "another one of the token goes on");
    world.server.revoke_token(&actor(), None, token.id).await.unwrap();
    assert_eq!(opens(&cookies[2]).await, None, "the token was revoked");

    let nobody = world.server.open_session(&secret(), uuid::Uuid::nil(), LONG).await;
    assert!(matches!(nobody, Err(CatalogError::NotFound { what: "token" })), "{nobody:?}");
    let long = Duration::from_secs(24 * 3_600 + 1);
    world
        .server
        .open_session(&secret(), token.id, long)
        .await
        .expect_err("it would live for more than a day");
    world.damage("DELETE FROM tokens").await;
    assert_eq!(world.count("SELECT count(*) FROM sessions").await, 0, "a token takes its sessions along");
}

#[tokio::test]
async fn the_oldest_session_of_a_token_makes_room_and_what_is_over_goes() {
    let world = World::new().await;
    let (token, other) = (world.reviewer("alice").await, world.reviewer("bob").await);
    let theirs = secret();
    world.server.open_session(&theirs, other.id, LONG).await.unwrap();
    let cookies: Vec<Digest> = (0..=TOKEN_SESSIONS_MAX).map(|_| secret()).collect();
    for cookie in &cookies {
        world.server.open_session(cookie, token.id, LONG).await.unwrap();
    }
    let opens = async |cookie: &Digest| world.server.session_token(cookie).await.unwrap().is_some();
    assert!(!opens(&cookies[0]).await, "a token has more sessions than it may");
    assert!(opens(&cookies[1]).await && opens(&cookies[TOKEN_SESSIONS_MAX]).await);
    assert!(opens(&theirs).await, "somebody else's made room");

    world
        .damage(
            "INSERT INTO tokens (id, tenant, name, secret_sha256, scopes)
             SELECT md5(i::text)::uuid, 'acme', 'many', md5(i::text), '{read}' FROM generate_series(1, 1001) i;",
        )
        .await;
    world.damage("UPDATE sessions SET opened_at = opened_at - interval '1 hour', expires_at = now()").await;
    world
        .damage(
            "INSERT INTO sessions (cookie_sha256, token_id, opened_at, expires_at)
             SELECT encode(sha256(i::text::bytea), 'hex'), md5(i::text)::uuid,
                    now() + i * interval '1 ms', now() + interval '1 hour'
             FROM generate_series(1, 1001) i",
        )
        .await;
    assert_eq!(world.count("SELECT count(*) FROM sessions").await, 1_000);
    let over = "SELECT count(*) FROM sessions WHERE expires_at <= now()";
    assert_eq!(world.count(over).await, 0, "what is over is still there");
    let first = "SELECT count(*) FROM sessions WHERE token_id = md5('1')::uuid";
    assert_eq!(world.count(first).await, 0, "the site has more sessions than it may");
}

#[tokio::test]
async fn an_attempt_is_answered_once_and_answers_are_bounded() {
    let world = World::new().await;
    let other = world.again().await;
    let attempt = secret();
    assert!(world.server.take_sign_in_answer(&attempt).await.unwrap());
    assert!(!world.server.take_sign_in_answer(&attempt).await.unwrap());
    assert!(!other.server.take_sign_in_answer(&attempt).await.unwrap(), "another server takes it again");
    let (one, two) = (secret(), secret());
    let both = tokio::join!(world.server.take_sign_in_answer(&one), other.server.take_sign_in_answer(&one));
    assert_eq!([both.0.unwrap(), both.1.unwrap()].iter().filter(|first| **first).count(), 1);

    world.damage("UPDATE sign_in_answers SET answered_at = now() - interval '2 hours'").await;
    world
        .damage(
            "INSERT INTO sign_in_answers SELECT encode(sha256(i::text::bytea), 'hex'), now() - interval '1 minute'
             FROM generate_series(1, 4096) i",
        )
        .await;
    assert!(world.server.take_sign_in_answer(&two).await.unwrap());
    let kept = usize::try_from(world.count("SELECT count(*) FROM sign_in_answers").await).unwrap();
    assert_eq!(kept, SIGN_IN_ANSWERS_MAX);
    assert!(!world.server.take_sign_in_answer(&two).await.unwrap(), "the newest was forgotten");
}

/// The server's role, with statements of whoever took it over.
#[tokio::test]
async fn the_role_neither_lengthens_a_session_nor_forgets_an_answer() {
    let world = World::new().await;
    let token = world.reviewer("alice").await;
    world.server.open_session(&secret(), token.id, LONG).await.unwrap();
    world.server.take_sign_in_answer(&secret()).await.unwrap();
    let server = world.raw("mfaas_server").await;
    for statement in [
        "UPDATE sessions SET expires_at = now() + interval '1 hour'",
        "INSERT INTO sessions (cookie_sha256, token_id, opened_at, expires_at)
         SELECT repeat('a', 64), token_id, now() + interval '9 days', now() + interval '9 days' FROM sessions",
        "DELETE FROM sign_in_answers",
        "UPDATE sign_in_answers SET answered_at = '2000-01-01'",
    ] {
        let error = sqlx::query(statement).execute(&server).await.expect_err(statement);
        let code = error.as_database_error().and_then(|cause| cause.code()).unwrap().into_owned();
        assert_eq!(code, "42501", "{statement}: {error}");
    }
}
