#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

const BOUNDS: Bounds = Bounds { items_max: 10, bytes_max: 1_000, tenant_items_max: 8, tenant_bytes_max: 600 };

fn tenant(name: &str) -> TenantName {
    TenantName::parse(name).unwrap()
}

fn drained(queue: &mut FairQueue<u32>) -> Vec<u32> {
    std::iter::from_fn(|| queue.pop()).collect()
}

#[test]
fn tenants_take_turns_and_keep_their_own_order() {
    let mut queue = FairQueue::new(BOUNDS);
    for (name, item) in [("loud", 1), ("loud", 2), ("loud", 3), ("quiet", 11), ("quiet", 12), ("other", 21)] {
        assert_eq!(queue.push(&tenant(name), item, 1), []);
    }
    assert_eq!(drained(&mut queue), [1, 11, 21, 2, 12, 3]);
    assert!(queue.is_empty() && queue.lanes.is_empty() && queue.numbers.is_empty() && queue.sizes.is_empty());
    assert_eq!((queue.bytes, queue.turns.len()), (0, 0));
}

#[test]
fn a_tenant_over_its_bounds_loses_its_own_oldest() {
    let mut queue = FairQueue::new(BOUNDS);
    queue.push(&tenant("quiet"), 100, 1);
    let dropped: Vec<_> = (0..12).flat_map(|item| queue.push(&tenant("loud"), item, 1)).collect();
    assert_eq!(dropped, (0..4).map(|item| (item, Full::Tenant)).collect::<Vec<_>>());
    assert_eq!(
        queue.push(&tenant("loud"), 12, 598),
        (4..10).map(|item| (item, Full::Tenant)).collect::<Vec<_>>()
    );
    assert_eq!(queue.push(&tenant("quiet"), 101, 601), [(100, Full::Tenant), (101, Full::Tenant)]);
    assert_eq!(drained(&mut queue), [10, 11, 12]);
}

#[test]
fn what_all_hold_is_taken_from_the_largest() {
    let mut queue = FairQueue::new(BOUNDS);
    for item in 0..7 {
        queue.push(&tenant("loud"), item, 1);
    }
    for item in 10..13 {
        assert_eq!(queue.push(&tenant("quiet"), item, 1), []);
    }
    assert_eq!(queue.push(&tenant("quiet"), 13, 1), [(0, Full::Node)]);
    assert_eq!(queue.push(&tenant("third"), 20, 1), [(1, Full::Node)]);
    // By weight: four things of one are more than one of 300 bytes, and less than two of 591.
    assert_eq!(queue.push(&tenant("heavy"), 30, 300), [(2, Full::Node)]);
    assert_eq!(queue.push(&tenant("third"), 21, 590), [(20, Full::Node)]);
    assert_eq!(drained(&mut queue), [3, 10, 21, 30, 4, 11, 5, 12, 6, 13]);
}
