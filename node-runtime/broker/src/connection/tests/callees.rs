//! Calls that others made: what they see, and what becomes of what they did.

use super::*;

/// A call of acme that this one made.
async fn child_of(node: &mut TestNode, parent: u64) -> u64 {
    node.begin_child("acme", Some(parent)).await.0
}

/// What is there for all to see.
async fn stored(node: &mut TestNode, key: &str) -> Result<Vec<u8>, u32> {
    let (call, _) = node.begin("acme").await;
    let outcome = node.does(call, READ, &get(key)).await.0;
    node.tell(ToBroker::Forget { call }).await;
    outcome
}

/// Of none of the calls, once those are forgotten that were to be.
async fn nothing_is_held(broker: &Broker) {
    let nothing = async {
        while broker.held.of(&"acme".parse().unwrap()) > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), nothing).await.expect("something is held");
}

#[tokio::test]
async fn what_a_call_did_is_part_of_the_one_that_made_it_and_takes_effect_with_it() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (root, _) = node.begin("acme").await;
    node.does(root, WRITE, &put("a", b"root")).await.0.unwrap();
    let callee = child_of(&mut node, root).await;
    assert_eq!(node.does(callee, READ, &get("a")).await.0, Ok(value(Some(b"root"))));
    node.does(callee, WRITE, &put("a", b"callee")).await.0.unwrap();
    node.does(callee, WRITE, &put("b", b"callee")).await.0.unwrap();
    assert_eq!(node.does(root, READ, &get("a")).await.0, Ok(value(Some(b"root"))), "not yet");
    assert_eq!(node.commits(callee).await, CommitResult::Done);
    assert_eq!(node.does(root, READ, &get("a")).await.0, Ok(value(Some(b"callee"))));
    assert_eq!(stored(&mut node, "a").await, Ok(value(None)), "nobody else sees it");
    // One that failed.
    let failed = child_of(&mut node, root).await;
    node.does(failed, WRITE, &put("b", b"failed")).await.0.unwrap();
    node.tell(ToBroker::Forget { call: failed }).await;
    assert_eq!(node.commits(root).await, CommitResult::Done);
    assert_eq!(stored(&mut node, "a").await, Ok(value(Some(b"callee"))));
    assert_eq!(stored(&mut node, "b").await, Ok(value(Some(b"callee"))));
    nothing_is_held(&broker).await;
}

/// A read of a call that another one made is a read of that one.
#[tokio::test]
async fn others_that_changed_what_a_callee_read_are_in_the_way_of_the_whole_call() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (root, _) = node.begin("acme").await;
    let callee = child_of(&mut node, root).await;
    assert_eq!(node.does(callee, READ, &get("k")).await.0, Ok(value(None)));
    assert_eq!(node.commits(callee).await, CommitResult::Done);
    let (other, _) = node.begin("acme").await;
    node.does(other, WRITE, &put("k", b"other")).await.0.unwrap();
    assert_eq!(node.commits(other).await, CommitResult::Done);
    node.does(root, WRITE, &put("l", b"root")).await.0.unwrap();
    assert_eq!(node.commits(root).await, CommitResult::Conflict);
    assert_eq!(stored(&mut node, "l").await, Ok(value(None)));
}

#[tokio::test]
async fn of_two_that_meet_the_later_is_to_run_again() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (root, _) = node.begin("acme").await;
    let add = KvRequest::Increment { key: b"n", by: 1 };
    let (first, second) = (child_of(&mut node, root).await, child_of(&mut node, root).await);
    for callee in [first, second] {
        assert_eq!(node.does(callee, WRITE, &add).await.0, Ok(KvReply::Number(1).encode()));
    }
    assert_eq!(node.commits(first).await, CommitResult::Done);
    assert_eq!(node.commits(second).await, CommitResult::Conflict);
    let again = child_of(&mut node, root).await;
    assert_eq!(node.does(again, WRITE, &add).await.0, Ok(KvReply::Number(2).encode()));
    assert_eq!(node.commits(again).await, CommitResult::Done);
    assert_eq!(node.commits(root).await, CommitResult::Done);
    assert_eq!(stored(&mut node, "n").await, Ok(value(Some(b"2"))));
}

/// Without the call that made it nothing of a call takes effect, whenever that one went.
#[tokio::test]
async fn a_call_takes_no_effect_without_the_one_that_made_it() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (root, _) = node.begin("acme").await;
    let callee = child_of(&mut node, root).await;
    node.does(callee, WRITE, &put("a", b"x")).await.0.unwrap();
    node.does(root, WRITE, &put("b", b"x")).await.0.unwrap();
    assert_eq!(node.commits(root).await, CommitResult::Done);
    assert_eq!(node.commits(callee).await, CommitResult::Unavailable);
    // One that never was.
    let orphan = child_of(&mut node, 999).await;
    assert_eq!(node.does(orphan, WRITE, &put("a", b"x")).await.0, Err(1205));
    assert_eq!(node.commits(orphan).await, CommitResult::Unavailable);
    assert_eq!(stored(&mut node, "a").await, Ok(value(None)));
    assert_eq!(stored(&mut node, "b").await, Ok(value(Some(b"x"))));
    nothing_is_held(&broker).await;
}

/// A call waits for the one that made it before it takes a turn at the database, and not in it.
#[tokio::test]
async fn a_call_and_the_one_that_made_it_do_not_wait_for_each_other() {
    let database = Cluster::get().create_database();
    let store = Store::open(&Cluster::get().url(&database, OWNER), 2, 0).await.unwrap();
    // One operation of a tenant at a time.
    let broker = Arc::new(Broker::here(Stores::of(store), 2, &BOUNDS));
    let mut node = TestNode::connect(&broker).await;
    let (root, _) = node.begin("acme").await;
    let callee = child_of(&mut node, root).await;
    let other = broker.turns.database.open_commit(&"acme".parse().unwrap());
    let turn = other.turn(1).await.unwrap();
    for call in [callee, root] {
        node.ask(call, 7, READ, &get("k")).await;
        // Until it waits for its turn.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    drop(turn);
    for _ in [callee, root] {
        assert!(matches!(node.next().await, FromBroker::Outcome { code: 0, .. }));
    }
}

/// The one in the middle asks for nothing before what it calls does.
#[tokio::test]
async fn a_call_of_a_call_sees_and_changes_what_the_first_one_does() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (root, _) = node.begin("acme").await;
    node.does(root, WRITE, &put("a", b"root")).await.0.unwrap();
    let middle = child_of(&mut node, root).await;
    let last = child_of(&mut node, middle).await;
    assert_eq!(node.does(last, READ, &get("a")).await.0, Ok(value(Some(b"root"))));
    node.does(last, WRITE, &put("a", b"last")).await.0.unwrap();
    node.does(last, WRITE, &put("b", b"last")).await.0.unwrap();
    assert_eq!(node.commits(last).await, CommitResult::Done);
    assert_eq!(node.does(middle, READ, &get("b")).await.0, Ok(value(Some(b"last"))), "it is still there");
    node.does(middle, WRITE, &put("c", b"middle")).await.0.unwrap();
    for call in [middle, root] {
        assert_eq!(node.commits(call).await, CommitResult::Done);
    }
    for (key, expected) in [("a", &b"last"[..]), ("b", b"last"), ("c", b"middle")] {
        assert_eq!(stored(&mut node, key).await, Ok(value(Some(expected))), "{key}");
    }
    nothing_is_held(&broker).await;
}
