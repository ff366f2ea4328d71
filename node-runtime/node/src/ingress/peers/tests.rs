#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;

use mfaas_ident::Class;

use super::super::bounds::TURN_BYTES;
use super::super::response::Answer;
use super::*;

fn bounds() -> Bounds {
    Bounds {
        connections_max: 4,
        peer_connections_max: 2,
        requests_max: 3,
        peer_requests_max: 2,
        ..Bounds::node()
    }
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

#[test]
fn coming_back_forgets_nothing_that_is_still_held() {
    let peers = Peers::new(bounds());
    let place = peers.admit(address(1)).unwrap();
    let held = [place.connection().ask().unwrap(), place.connection().ask().unwrap()];
    drop(place);
    let again = peers.admit(address(1)).unwrap();
    assert_eq!(again.connection().ask().unwrap_err(), Full::Peer);
    drop(held);
    assert!(again.connection().ask().is_ok());
}

#[test]
fn peers_that_left_are_forgotten() {
    let peers = Peers::new(bounds());
    for last in 0..=255 {
        peers.admit(address(last)).unwrap();
    }
    let open = peers.lock();
    assert_eq!(open.connections.len(), 0);
    assert!(open.peers.len() <= 2, "{}", open.peers.len());
}

#[test]
fn a_refusal_takes_nothing() {
    let peers = Peers::new(Bounds { body_bytes_max: 100, peer_body_bytes_max: 60, ..bounds() });
    let places = [1, 2].map(|last| peers.admit(address(last)).unwrap());
    let passes = places.each_ref().map(|place| place.connection().ask().unwrap());
    let mut shares = passes.each_ref().map(|pass| pass.share(Budget::Requests));
    assert_eq!(shares[0].grow_to(61), Err(Full::Peer));
    shares[0].grow_to(60).unwrap();
    assert_eq!(shares[1].grow_to(41), Err(Full::Node));
    shares[1].grow_to(40).unwrap();
    // The other budget is another one.
    passes[0].share(Budget::Answers).grow_to(60).unwrap();
    drop((shares, passes));
    assert_eq!(peers.all.requests.load(Ordering::Relaxed), 0);
    assert_eq!(peers.all.request_bytes.load(Ordering::Relaxed), 0);
    assert_eq!(peers.all.answer_bytes.load(Ordering::Relaxed), 0);
}

/// An answer is on its way until the last of its bytes is let go of: hyper and h2 keep them for a peer that takes none.
#[test]
fn answers_hold_their_budget_and_their_request_until_they_are_sent() {
    let large = vec![1; 64 << 10];
    let bounds = Bounds { body_bytes_max: 100 << 10, peer_body_bytes_max: 100 << 10, ..bounds() };
    let peers = Peers::new(bounds);
    let place = peers.admit(address(1)).unwrap();
    let mut pass = Some(place.connection().ask().unwrap());
    let mut answer = Answer::of_function(large.clone(), 10, Class::Micro, &mut pass).unwrap();
    assert!(pass.is_none());
    let bytes = answer.frame().now_or_never().unwrap().unwrap().unwrap().into_data().unwrap();
    assert_eq!(bytes.len(), large.len() - 10);
    drop(answer);
    assert!(!place.connection().is_idle());
    let mut second = Some(place.connection().ask().unwrap());
    assert!(matches!(Answer::of_function(large.clone(), 0, Class::Micro, &mut second), Err(Full::Peer)));
    assert!(second.is_some(), "the refusal is an answer, too");
    assert!(
        Answer::of_function(vec![1; 1_000], 0, Class::Micro, &mut None).is_ok(),
        "small ones need no budget"
    );
    // A request's body has a budget of its own.
    second.as_ref().unwrap().share(Budget::Requests).grow_to(100 << 10).unwrap();
    drop(bytes);
    assert!(Answer::of_function(large, 0, Class::Micro, &mut second).is_ok());
    assert!(place.connection().is_idle());
}

/// Between two pieces of a large answer others have their turn. Its length is said before the first.
#[test]
fn a_large_answer_leaves_in_pieces() {
    let encoded: Vec<u8> = (0..TURN_BYTES * 5 / 2).map(|at| (at % 251) as u8).collect();
    let mut answer = Answer::of_function(encoded.clone(), 10, Class::Bulk, &mut None).unwrap();
    let mut sent = Vec::new();
    while !answer.is_end_stream() {
        assert_eq!(answer.size_hint().exact(), Some((encoded.len() - 10 - sent.len()) as u64));
        let piece = answer.frame().now_or_never().unwrap().unwrap().unwrap().into_data().unwrap();
        assert!(piece.len() <= TURN_BYTES, "{} bytes in one piece", piece.len());
        sent.extend_from_slice(&piece);
    }
    assert_eq!(sent, encoded[10..]);
    assert!(answer.frame().now_or_never().unwrap().is_none());
}

/// Bulk bodies take nothing from the budgets of others, and others nothing from theirs.
#[test]
fn bulk_bodies_have_budgets_of_their_own() {
    let bounds = Bounds { peer_body_bytes_max: 10, peer_bulk_body_bytes_max: 30, ..bounds() };
    let peers = Peers::new(Bounds { body_bytes_max: 15, bulk_body_bytes_max: 40, ..bounds });
    let place = peers.admit(address(1)).unwrap();
    let pass = place.connection().ask().unwrap();
    let share = |class| (pass.share(Budget::of_requests(class)), pass.share(Budget::of_answers(class)));
    let ((mut large, mut large_answer), (mut small, mut small_answer)) =
        (share(Class::Bulk), share(Class::Micro));
    assert_eq!(large.grow_to(31), Err(Full::Peer));
    for share in [&mut large, &mut large_answer] {
        share.grow_to(30).unwrap();
    }
    for share in [&mut small, &mut small_answer] {
        share.grow_to(10).unwrap();
        assert_eq!(share.grow_to(11), Err(Full::Peer));
    }
    let other = peers.admit(address(2)).unwrap();
    let pass = other.connection().ask().unwrap();
    assert_eq!(pass.share(Budget::BulkRequests).grow_to(11), Err(Full::Node));
    drop(large);
    pass.share(Budget::BulkRequests).grow_to(11).unwrap();
}

/// Nothing happens on a connection while a bulk call runs, and it is not quiet.
#[test]
fn a_connection_with_a_bulk_call_on_its_way_is_not_taken_for_quiet() {
    let peers = Peers::new(bounds());
    let place = peers.admit(address(1)).unwrap();
    let pass = place.connection().ask().unwrap();
    let (one, other) = (pass.long_call(), pass.long_call());
    drop(one);
    assert!(place.connection().has_long_call());
    let beats = place.connection().beats();
    drop(other);
    assert!(!place.connection().has_long_call());
    assert!(place.connection().beats() > beats, "its answer is news: it may take a while to be taken");
}
