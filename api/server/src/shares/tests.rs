#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn a_holder_has_its_share_and_no_other() {
    let shares = Shares::new(4, 2);
    let first = shares.take(&"one", 1).unwrap();
    let second = shares.take(&"one", 1).unwrap();
    assert_eq!(shares.take(&"one", 1).unwrap_err(), Taken::Share);
    let other = shares.take(&"two", 2).unwrap();
    assert_eq!(shares.take(&"three", 1).unwrap_err(), Taken::All);
    assert_eq!(shares.taken(), 4);
    drop(first);
    let third = shares.take(&"one", 1).unwrap();
    assert_eq!(shares.take(&"one", 1).unwrap_err(), Taken::Share);
    drop((second, third, other));
    assert_eq!(shares.taken(), 0);
    assert!(shares.held().by_holder.is_empty(), "nothing is kept of holders that have nothing");
}

#[test]
fn a_share_that_cannot_grow_stays_what_it_was() {
    let shares = Shares::new(10, 8);
    let mut share = shares.take(&"one", 5).unwrap();
    assert_eq!(share.grow(4), Err(Taken::Share));
    share.grow(3).unwrap();
    let other = shares.take(&"two", 2).unwrap();
    assert_eq!((shares.taken(), share.grow(usize::MAX)), (10, Err(Taken::Share)));
    drop(share);
    assert_eq!(shares.taken(), 2);
    drop(other);
}
