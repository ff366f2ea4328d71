#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use clap::Parser as _;

use super::{Token, TokenCommand, parse_time};

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    token: Token,
}

fn typed(line: &str) -> Result<TokenCommand, String> {
    let words = std::iter::once("token").chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.token.command).map_err(|error| error.to_string())
}

#[test]
fn a_life_has_a_unit_and_an_end() {
    for (text, seconds) in [("90s", 90), ("15m", 900), ("24h", 86_400), ("1s", 1)] {
        assert_eq!(parse_time(text), Ok(seconds));
    }
    for text in ["", "s", "0s", "25h", "86401s", "-1m", "1d", "15", "99999999999h", "1ü"] {
        assert!(parse_time(text).is_err(), "{text}");
    }
}

#[test]
fn a_call_token_is_asked_for_by_its_functions() {
    let TokenCommand::Create { name, call, ttl, rate, concurrency, .. } =
        typed("create shop --call pay,refund --ttl 1h --rate 5").unwrap()
    else {
        panic!("another command");
    };
    assert_eq!(
        (name.as_deref(), call.as_slice()),
        (Some("shop"), ["pay".to_owned(), "refund".to_owned()].as_slice())
    );
    assert_eq!((ttl, rate, concurrency), (3_600, Some(5), None));
    assert!(typed("create --call pay").is_ok(), "its caller is whoever asks");
    assert!(typed("create").is_err(), "another token has a name");
    for line in [
        "create a --call pay --role admin",
        "create a --rate 5",
        "create a --ttl 1h",
        "create a --call pay --rate 0",
    ] {
        assert!(typed(line).is_err(), "{line}");
    }
}

#[test]
fn a_call_token_is_revoked_by_its_id_or_with_all_of_its_caller() {
    let revoked = |line: &str| match typed(line).unwrap() {
        TokenCommand::Revoke { id, call, caller } => (id, call, caller.map(|caller| caller.to_string())),
        other => panic!("{other:?}"),
    };
    assert_eq!(revoked("revoke 7f2c"), (Some("7f2c".to_owned()), false, None));
    assert_eq!(revoked("revoke 7f2c --call"), (Some("7f2c".to_owned()), true, None));
    assert_eq!(revoked("revoke --caller shop"), (None, false, Some("shop".to_owned())));
    for line in [
        "revoke",
        "revoke --call",
        "revoke 7f2c --caller shop",
        "revoke --call --caller shop",
        "revoke --caller Shop",
    ] {
        assert!(typed(line).is_err(), "{line}");
    }
    assert!(matches!(typed("list").unwrap(), TokenCommand::List { call: false }));
    assert!(matches!(typed("list --call").unwrap(), TokenCommand::List { call: true }));
}
