#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use super::*;

fn peer(last: u8) -> PeerKey {
    PeerKey::of(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)))
}

/// Polled so many times, each for so long; says each time who it is.
async fn busy(name: &'static str, polls: usize, each: Duration, said: Rc<RefCell<Vec<&'static str>>>) {
    for _ in 0..polls {
        let until = ticks() + Rate::measured().ticks_of(each);
        while ticks() < until {}
        said.borrow_mut().push(name);
        tokio::task::yield_now().await;
    }
}

/// What was said by sixteen tasks of a heavy peer and, once they are all under way, one of a light one.
fn said(lanes: &Arc<Lanes>) -> Vec<&'static str> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let said = Rc::new(RefCell::new(Vec::new()));
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let turns = tokio::task::spawn_local({
            let lanes = Arc::clone(lanes);
            async move { lanes.take_turns().await }
        });
        let (heavy, light) = (lanes.of(peer(1)), lanes.of(peer(2)));
        let mut tasks = Vec::new();
        for _ in 0..16 {
            let task = busy("heavy", 8, Duration::from_millis(1), Rc::clone(&said));
            tasks.push(tokio::task::spawn_local(Arc::clone(&heavy).queued(task)));
        }
        while said.borrow().len() < 16 {
            tokio::task::yield_now().await;
        }
        said.borrow_mut().clear();
        let task = busy("light", 4, Duration::from_micros(10), Rc::clone(&said));
        tasks.push(tokio::task::spawn_local(light.queued(task)));
        for task in tasks {
            task.await.unwrap();
        }
        turns.abort();
    });
    said.take()
}

#[test]
fn who_takes_little_waits_for_one_turn_of_who_takes_much() {
    let said = said(&Arc::default());
    assert_eq!(said.iter().filter(|name| **name == "heavy").count(), 16 * 8 - 16, "nobody is forgotten");
    let last = said.iter().rposition(|name| *name == "light").unwrap();
    let before = said[..last].iter().filter(|name| **name == "heavy").count();
    // Sixteen for each of its four polls, where tasks run in the order in which they are ready.
    assert!(before <= 16, "the light peer's four polls waited for {before} of the heavy one's");
}

#[tokio::test]
async fn a_peer_alone_never_queues() {
    let lanes = Arc::<Lanes>::default();
    let lane = lanes.of(peer(1));
    lane.charge(0, u64::MAX / 2);
    assert!(!lane.must_queue(ticks()));
    // Nobody calls turns here: who queued would wait for ever.
    tokio::time::timeout(Duration::from_secs(5), Arc::clone(&lane).queued(async {})).await.unwrap();
    let other = lanes.of(peer(2));
    lane.charge(ticks(), ticks() + 4 * lanes.burst);
    assert!(lane.must_queue(ticks()) && !other.must_queue(ticks()));
    drop(other);
    assert!(!lane.must_queue(ticks()), "the other one has gone");
}

#[test]
fn a_debt_is_bounded_and_passes() {
    let lanes = Arc::<Lanes>::default();
    let (lane, _other) = (lanes.of(peer(1)), lanes.of(peer(2)));
    let start = ticks();
    lane.charge(start, start + 1_000 * lanes.burst);
    let now = start + 1_000 * lanes.burst;
    assert!(lane.must_queue(now));
    assert!(!lane.must_queue(now + DEBT_BURSTS_MAX * SHARE_OF_TIME * lanes.burst));
}

#[test]
fn a_connection_that_ends_while_it_waits_leaves_its_lane_to_the_others() {
    let lanes = Arc::<Lanes>::default();
    let (lane, _other) = (lanes.of(peer(1)), lanes.of(peer(2)));
    let now = ticks();
    lane.charge(now, now + 4 * lanes.burst);
    let waker = Waker::noop();
    let first = lane.queue_up(waker);
    let second = lane.queue_up(waker);
    drop(first);
    lane.cost.store(u64::MAX / 16, Ordering::Relaxed);
    assert!(lanes.next_turn() && second.waits_on(waker), "one poll a turn, and nobody took it");
    assert!(lanes.next_turn() && !second.waits_on(waker));
    assert!(!lanes.next_turn());
    drop((lane, _other));
    assert!(lanes.lock().lanes.is_empty());
}
