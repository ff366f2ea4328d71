#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_test_postgres::{Cluster, OWNER};
use sqlx::query_as;

use super::*;
use crate::address;

const WAIT_MAX: Duration = Duration::from_secs(5);

fn connections(number: u32, wait_max: Duration) -> ReadConnections {
    let url = Cluster::get().url(&Cluster::get().create_database(), OWNER);
    ReadConnections::new(address::options(&url).unwrap(), number, wait_max)
}

/// Which process of the database answers.
async fn process(of: &ReadConnections) -> i32 {
    let rows: Vec<(i32,)> = of.fetch_all(query_as("SELECT pg_backend_pid()")).await.unwrap();
    rows[0].0
}

/// The same, after a moment.
async fn slow_process(of: &ReadConnections) -> i32 {
    let rows: Vec<(i32,)> =
        of.fetch_all(query_as("SELECT pg_backend_pid() FROM pg_sleep(0.3)")).await.unwrap();
    rows[0].0
}

#[tokio::test]
async fn the_connection_that_was_used_last_is_used_next() {
    let of = connections(4, WAIT_MAX);
    let first = process(&of).await;
    assert_eq!(process(&of).await, first);
    let (one, other) = tokio::join!(slow_process(&of), process(&of));
    assert_eq!(one, first);
    assert_ne!(other, first, "two at a time have two");
    assert_eq!([process(&of).await, process(&of).await], [first; 2]);
}

#[tokio::test]
async fn a_connection_that_failed_is_closed() {
    let of = connections(1, WAIT_MAX);
    let first = process(&of).await;
    of.fetch_all::<(i32,)>(query_as("SELECT 1 / 0")).await.unwrap_err();
    assert_ne!(process(&of).await, first);
}

#[tokio::test]
async fn a_connection_that_was_given_up_in_the_middle_is_closed() {
    let of = connections(1, WAIT_MAX);
    let first = process(&of).await;
    timeout(Duration::from_millis(50), slow_process(&of)).await.unwrap_err();
    assert_ne!(process(&of).await, first);
}

#[tokio::test]
async fn there_are_so_many_and_a_read_waits_so_long_for_one() {
    let of = connections(1, Duration::from_millis(100));
    process(&of).await;
    let (_, late) = tokio::join!(slow_process(&of), of.fetch_all::<(i32,)>(query_as("SELECT 1")));
    assert!(matches!(late, Err(sqlx::Error::PoolTimedOut)), "{late:?}");
}

#[tokio::test]
async fn an_old_connection_is_not_used_again_and_one_that_rests_too_long_is_closed() {
    let of = connections(2, WAIT_MAX);
    tokio::join!(slow_process(&of), slow_process(&of));
    let take = || of.resting().pop().unwrap();
    let (second, begun) = (take(), Instant::now());
    of.rest(second, begun + REST_MAX);
    assert_eq!(of.resting().len(), 1, "the first was used that long ago");
    of.rest(take(), begun + AGE_MAX);
    assert_eq!(of.resting().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_outlives_the_runtime_that_asked_first() {
    let of = connections(1, WAIT_MAX);
    let first = std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            runtime.unwrap().block_on(process(&of))
        });
        // Meanwhile the runtime of the connection has to run.
        tokio::task::block_in_place(|| elsewhere.join().unwrap())
    });
    assert_eq!(process(&of).await, first);
}
