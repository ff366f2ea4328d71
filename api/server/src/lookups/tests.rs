#![allow(clippy::unwrap_used, reason = "tests")]

use std::future::{pending, ready};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tokio::time::timeout;

use super::*;

/// In this time nothing is found that has to wait.
const MOMENT: Duration = Duration::from_millis(50);

fn peer(last: u8) -> PeerKey {
    PeerKey::of(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)))
}

fn secret(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

async fn shown(lookups: &Lookups, from: u8, text: &str, found: Option<u8>) -> Result<Option<u8>, Refusal> {
    lookups.token(peer(from), &secret(text), ready(Ok(found))).await
}

#[tokio::test]
async fn a_lane_that_is_full_keeps_up_nobody_in_the_others() {
    let lookups = Lookups::default();
    assert_eq!(shown(&lookups, 1, "good", Some(1)).await.unwrap(), Some(1));
    let stuck = futures::future::join_all((0..100).map(|number| {
        let lookups = &lookups;
        let shown = secret(&number.to_string());
        async move { lookups.token(peer(number), &shown, pending::<Result<Option<u8>, _>>()).await }
    }));
    let others = async {
        assert!(timeout(MOMENT, shown(&lookups, 200, "new", Some(2))).await.is_err(), "the lane is not full");
        assert_eq!(shown(&lookups, 1, "good", Some(1)).await.unwrap(), Some(1));
        lookups.opened(secret("session"));
        assert_eq!(shown(&lookups, 200, "session", Some(3)).await.unwrap(), Some(3));
        assert_eq!(lookups.node(ready(Ok(4))).await.unwrap(), 4);
    };
    tokio::select! {
        biased;
        _ = stuck => panic!("what never ends has ended"),
        done = timeout(Duration::from_secs(2), others) => done.expect("a lane waits for another one"),
    }
}

#[tokio::test]
async fn an_address_that_shows_what_nobody_made_is_refused_before_it_is_looked_up() {
    let lookups = Lookups::default();
    assert_eq!(shown(&lookups, 1, "good", Some(1)).await.unwrap(), Some(1));
    for number in 0..limits::UNKNOWN_SECRETS_MAX {
        assert_eq!(shown(&lookups, 1, &format!("wrong {number}"), None).await.unwrap(), None);
    }
    let wrong = secret("wrong");
    let refused = lookups.token(peer(1), &wrong, pending::<Result<Option<u8>, _>>());
    let refused = timeout(MOMENT, refused).await.expect("it was looked up").unwrap_err();
    assert_eq!(refused.http_status(), 429);
    assert_eq!(shown(&lookups, 1, "good", Some(1)).await.unwrap(), Some(1), "a good one counts on");
    assert_eq!(shown(&lookups, 2, "wrong", None).await.unwrap(), None, "another address is another one");
    tokio::time::sleep(limits::UNKNOWN_PERIOD).await;
    assert_eq!(shown(&lookups, 1, "wrong", None).await.unwrap(), None);
}

#[tokio::test]
async fn a_withdrawn_token_is_a_strangers() {
    let lookups = Lookups::default();
    assert_eq!(shown(&lookups, 1, "good", Some(1)).await.unwrap(), Some(1));
    assert_eq!(shown(&lookups, 1, "good", None).await.unwrap(), None, "it was not looked up");
    assert!(!lookups.good().has(&secret("good")));
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let lookups = Lookups::default();
    for number in 0..2 * limits::GOOD_TOKENS_REMEMBERED_MAX {
        shown(&lookups, 1, &number.to_string(), Some(1)).await.unwrap();
    }
    let good = lookups.good();
    assert!(good.newer.len() + good.older.len() <= limits::GOOD_TOKENS_REMEMBERED_MAX);
}
