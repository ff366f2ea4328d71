#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn is_given_up(place: &Place) -> bool {
    place.connection.given_up.is_cancelled()
}

#[test]
fn the_connection_that_was_idle_longest_makes_room_and_a_busy_one_does_not() {
    let connections = Connections::new("test", Bounds { connections_max: 3, peer_connections_max: 2 });
    let (near, far, farther): (IpAddr, IpAddr, IpAddr) =
        ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap());
    let (first, second) = (connections.admit(near).unwrap(), connections.admit(near).unwrap());
    let other = connections.admit(far).unwrap();
    // A peer at its bound pays for itself, though another one has been idle, too.
    let busy = first.connection.busy();
    let third = connections.admit(near).unwrap();
    assert_eq!((is_given_up(&first), is_given_up(&second), is_given_up(&other)), (false, true, false));
    let also_busy = third.connection.busy();
    assert_eq!(connections.admit(near).unwrap_err(), Full::Peer);
    // The bound of all: whoever is idle leaves, whosever it is.
    let last = connections.admit(farther).unwrap();
    assert!(is_given_up(&other));
    let held = last.connection.busy();
    assert_eq!(connections.admit(far).unwrap_err(), Full::All);
    drop((busy, also_busy, held));
    assert!(
        connections.admit(far).is_ok() && is_given_up(&first),
        "an answer has left, and its place is kept"
    );
}

#[test]
fn places_are_given_back_and_a_network_is_one_peer() {
    let connections = Connections::new("test", Bounds { connections_max: 9, peer_connections_max: 1 });
    let of = |text: &str| connections.admit(text.parse().unwrap()).unwrap();
    let first = of("2001:db8::1");
    let second = of("2001:db8::ffff:1");
    assert!(is_given_up(&first), "two addresses of one /64");
    drop(first);
    let mapped = of("::ffff:10.0.0.1");
    let four = of("10.0.0.1");
    assert!(is_given_up(&mapped) && !is_given_up(&second));
    drop((mapped, four, second));
    assert_eq!(connections.lock().connections.len(), 0);
}
