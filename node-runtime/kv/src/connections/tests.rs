#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_test_postgres::{Cluster, OWNER};
use sqlx::query_as;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixListener;

use super::*;
use crate::address;

const LONG: Duration = Duration::from_secs(5);
/// Less than an answer of [`slow_process`] takes.
const SHORT: Duration = Duration::from_millis(100);
const WAITS: Waits = Waits { connection: LONG, answer: LONG };

fn connections(number: u32, waits: Waits) -> Connections {
    let url = Cluster::get().url(&Cluster::get().create_database(), OWNER);
    Connections::new(address::options(&url).unwrap(), number, waits)
}

/// Which process of the database answers.
async fn process(of: &Connections) -> i32 {
    let rows: Vec<(i32,)> = of.fetch_all(query_as("SELECT pg_backend_pid()")).await.unwrap();
    rows[0].0
}

/// The same, after a moment.
async fn slow_process(of: &Connections) -> i32 {
    let rows: Vec<(i32,)> =
        of.fetch_all(query_as("SELECT pg_backend_pid() FROM pg_sleep(0.3)")).await.unwrap();
    rows[0].0
}

#[tokio::test]
async fn the_connection_that_was_used_last_is_used_next() {
    let of = connections(4, WAITS);
    let first = process(&of).await;
    assert_eq!(process(&of).await, first);
    let (one, other) = tokio::join!(slow_process(&of), process(&of));
    assert_eq!(one, first);
    assert_ne!(other, first, "two at a time have two");
    assert_eq!([process(&of).await, process(&of).await], [first; 2]);
}

#[tokio::test]
async fn a_connection_that_failed_is_closed() {
    let of = connections(1, WAITS);
    let first = process(&of).await;
    of.fetch_all::<(i32,)>(query_as("SELECT 1 / 0")).await.unwrap_err();
    assert_ne!(process(&of).await, first);
}

#[tokio::test]
async fn a_connection_that_was_given_up_in_the_middle_is_closed() {
    let of = connections(1, WAITS);
    let first = process(&of).await;
    timeout(Duration::from_millis(50), slow_process(&of)).await.unwrap_err();
    assert_ne!(process(&of).await, first);
}

#[tokio::test]
async fn what_the_database_ended_in_favour_of_others_leaves_its_connection_well() {
    let of = connections(1, WAITS);
    let first = process(&of).await;
    for code in ["MF001", "40001"] {
        let mut taken = of.take().await.unwrap();
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{code}'; END $$");
        let ended = sqlx::query(sqlx::AssertSqlSafe(raise)).execute(taken.connection()).await;
        taken.answered(ended).unwrap_err();
        assert_eq!(process(&of).await, first, "{code}");
    }
}

#[tokio::test]
async fn a_database_that_says_nothing_is_waited_for_so_long_and_holds_nothing_then() {
    let of = connections(1, Waits { answer: Duration::from_millis(500), ..WAITS });
    let first = process(&of).await;
    let silent = of.fetch_all::<(i32,)>(query_as("SELECT 1 FROM pg_sleep(3)")).await.unwrap_err();
    assert_eq!(Meaning::of_postgres(&silent), Meaning::Lost, "it may take effect yet: {silent}");
    assert_ne!(process(&of).await, first, "the place is free, and the connection is closed");
}

/// They share their fate, and a call each would have to wait for that.
#[tokio::test]
async fn with_a_connection_that_is_lost_those_that_rest_are_closed() {
    let of = connections(2, Waits { answer: Duration::from_millis(500), ..WAITS });
    let both = tokio::join!(slow_process(&of), slow_process(&of));
    of.fetch_all::<(i32,)>(query_as("SELECT 1 FROM pg_sleep(3)")).await.unwrap_err();
    let after = process(&of).await;
    assert!(after != both.0 && after != both.1);
}

#[tokio::test]
async fn a_connection_that_nobody_answers_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
    let url = format!("postgres:///none?host={}&port=5432&user=nobody", directory.path().display());
    let of = Connections::new(address::options(&url).unwrap(), 1, Waits { connection: SHORT, ..WAITS });
    for _ in 0..2 {
        let late = of.take().await.map(drop);
        assert!(matches!(late, Err(sqlx::Error::PoolTimedOut)), "{late:?}");
        let (mut accepted, _) = listener.accept().await.unwrap();
        let all = timeout(LONG, accepted.read_to_end(&mut Vec::new())).await;
        all.expect("nobody waits for it any more").unwrap();
    }
}

#[tokio::test]
async fn there_are_so_many_and_a_read_waits_so_long_for_one() {
    let of = connections(1, Waits { connection: SHORT, ..WAITS });
    process(&of).await;
    let (_, late) = tokio::join!(slow_process(&of), of.fetch_all::<(i32,)>(query_as("SELECT 1")));
    assert!(matches!(late, Err(sqlx::Error::PoolTimedOut)), "{late:?}");
}

#[tokio::test]
async fn an_old_connection_is_not_used_again_and_one_that_rests_too_long_is_closed() {
    let of = connections(2, WAITS);
    tokio::join!(slow_process(&of), slow_process(&of));
    let take = || of.resting().pop().unwrap();
    let (second, begun) = (take(), Instant::now());
    of.rest(second, begun + REST_MAX);
    assert_eq!(of.resting().len(), 1, "the first was used that long ago");
    of.rest(take(), begun + AGE_MAX);
    assert_eq!(of.resting().len(), 0);
    process(&of).await;
    let long_after = Instant::now() + REST_MAX;
    assert!(of.rested(long_after).is_none(), "nobody has used any for that long");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_outlives_the_runtime_that_asked_first() {
    let of = connections(1, WAITS);
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
