//! Endings beside a database that does not answer.

#![allow(clippy::unwrap_used, reason = "tests")]

use mfaas_catalog::Catalog;

use super::*;

/// What a program is told by a database that is not there.
async fn away() -> CatalogError {
    Catalog::connect("postgres://nobody@127.0.0.1:1/none", 1).await.unwrap_err()
}

#[tokio::test]
async fn an_ending_waits_for_the_database_and_nothing_is_claimed_meanwhile() {
    let (unanswered, stopping) = (AtomicUsize::new(0), watch::Sender::new(false));
    let asked = AtomicUsize::new(0);
    let ask = async || match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Err(away().await),
        _ => Ok(unanswered.load(Ordering::Relaxed)),
    };
    let waiting = ask_until_answered(&unanswered, stopping.subscribe(), &ask).await.unwrap();
    assert_eq!((waiting, unanswered.load(Ordering::Relaxed)), (1, 0));
}

#[tokio::test]
async fn a_program_that_stops_does_not_wait() {
    let (unanswered, stopping) = (AtomicUsize::new(0), watch::Sender::new(true));
    let ask = async || Err::<(), _>(away().await);
    let answer = ask_until_answered(&unanswered, stopping.subscribe(), &ask).await;
    assert!(answer.is_err_and(|error| error.is_transient()));
}

/// A lost lease is an answer.
#[tokio::test]
async fn what_the_database_refuses_is_not_asked_again() {
    let (unanswered, stopping) = (AtomicUsize::new(0), watch::Sender::new(false));
    let ask = async || Err::<(), _>(CatalogError::Fenced);
    let answer = ask_until_answered(&unanswered, stopping.subscribe(), &ask).await;
    assert!(matches!(answer, Err(CatalogError::Fenced)));
}
