#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use uuid::Uuid;

use super::Secret;

#[test]
fn a_token_survives_its_text_and_shows_itself_nowhere_else() {
    let (id, secret) = (Uuid::new_v4(), Secret::generate().unwrap());
    let text = secret.reveal_with(id);
    assert_eq!(Secret::parse(&text), Some((id, secret.clone())));
    assert_eq!(format!("{secret:?}"), "Secret(…)");
    assert_ne!(secret.hash(), Secret::generate().unwrap().hash());
}

#[test]
fn what_is_not_exactly_a_token_is_none() {
    let good = Secret::generate().unwrap().reveal_with(Uuid::new_v4());
    for bad in [
        "",
        "mfaas_",
        "mfaas__",
        &good[1..],
        &good[..good.len() - 1],
        &format!("{good}0"),
        &format!(" {good}"),
        &good.to_uppercase(),
        &good.replace('_', "-"),
    ] {
        assert_eq!(Secret::parse(bad), None, "{bad:?} must not be a token");
    }
}
