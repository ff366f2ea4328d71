#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use proptest::prelude::*;

use super::*;

fn tenant(number: usize) -> TenantName {
    TenantName::parse(&format!("t{number}")).unwrap()
}

/// Something that waits for its turn: polled until it has it.
fn ask(turns: &Arc<Turns>, of: usize, weight: usize) -> tokio::task::JoinHandle<(Open, Turn)> {
    let open = turns.open(&tenant(of), 1).unwrap();
    tokio::spawn(async move {
        let turn = open.turn(weight).await.unwrap();
        (open, turn)
    })
}

#[tokio::test]
async fn only_so_many_run_and_no_tenant_has_more_than_half() {
    let turns = Arc::new(Turns::new(4));
    let one: Vec<_> = (0..4).map(|_| ask(&turns, 1, 1)).collect();
    tokio::task::yield_now().await;
    assert_eq!(one.iter().filter(|task| task.is_finished()).count(), 2, "half of them");
    let other: Vec<_> = (0..4).map(|_| ask(&turns, 2, 1)).collect();
    tokio::task::yield_now().await;
    assert_eq!(other.iter().filter(|task| task.is_finished()).count(), 2, "the other half");
    // Each that ends lets the next of its own tenant run: the other one has its half.
    let mut one = one.into_iter();
    drop(one.next().unwrap().await.unwrap());
    drop(one.next().unwrap().await.unwrap());
    let rest: Vec<_> = one.collect();
    tokio::task::yield_now().await;
    assert!(rest.iter().all(tokio::task::JoinHandle::is_finished));
    assert_eq!(other.iter().filter(|task| task.is_finished()).count(), 2);
}

/// How much a read brings is known afterwards.
#[tokio::test]
async fn what_an_operation_brought_is_paid_for_by_the_next_of_its_tenant() {
    let turns = Arc::new(Turns::new(1));
    let first = ask(&turns, 1, QUANTUM).await.unwrap();
    let mut waiting: Vec<_> = [1, 2, 2, 2, 2].map(|of| (of, ask(&turns, of, QUANTUM))).into();
    tokio::task::yield_now().await;
    first.1.charge(3 * QUANTUM);
    drop(first);
    let mut order = Vec::new();
    while !waiting.is_empty() {
        tokio::task::yield_now().await;
        let Some(at) = waiting.iter().position(|(_, task)| task.is_finished()) else { continue };
        let (of, task) = waiting.remove(at);
        order.push(of);
        drop(task.await.unwrap());
    }
    assert_eq!(order, [2, 2, 2, 1, 2]);
}

#[tokio::test]
async fn what_is_given_up_takes_no_turn() {
    let turns = Arc::new(Turns::new(1));
    let first = ask(&turns, 1, 1).await.unwrap();
    let (left, stays) = (ask(&turns, 1, 1), ask(&turns, 2, 1));
    tokio::task::yield_now().await;
    left.abort();
    assert!(left.await.is_err());
    drop(first);
    drop(stays.await.unwrap());
    assert!(turns.lock().tenants.is_empty(), "nothing is remembered of tenants of whom nothing is open");
    assert_eq!(turns.lock().running, 0);
}

#[tokio::test]
async fn a_tenant_has_so_many_open_and_others_do_not_feel_it() {
    let turns = Arc::new(Turns::new(2));
    let mut all: Vec<_> =
        (0..TENANT_OPEN_MAX.operations).map(|_| turns.open(&tenant(1), 1).unwrap()).collect();
    assert_eq!(turns.open(&tenant(1), 1).unwrap_err(), Full);
    drop(turns.open_commit(&tenant(1)));
    let large = turns.open(&tenant(2), TENANT_OPEN_MAX.bytes).unwrap();
    assert_eq!(turns.open(&tenant(2), 1).unwrap_err(), Full, "by its bytes");
    drop(large);
    all.pop();
    all.push(turns.open(&tenant(1), 1).unwrap());
    // And all of them together.
    let others = (3..40).flat_map(|number| turns.open(&tenant(number), TENANT_OPEN_MAX.bytes));
    let others: Vec<_> = others.collect();
    assert_eq!(others.len(), OPEN_MAX.bytes / TENANT_OPEN_MAX.bytes - 1);
    drop((all, others));
    let state = turns.lock();
    assert_eq!((state.open, state.tenants.len()), (Bound::default(), 0));
}

/// In which order waiting operations of tenants start, one at a time.
fn order(asked: &[(usize, usize)]) -> Vec<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let turns = Arc::new(Turns::new(1));
        let first = ask(&turns, 99, 1).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for (of, weight) in asked.iter().copied() {
            let (open, order) = (turns.open(&tenant(of), 1).unwrap(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let turn = open.turn(weight).await.unwrap();
                order.lock().unwrap().push(of);
                drop(turn);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for one in waiting {
            one.await.unwrap();
        }
        assert!(turns.lock().tenants.len() <= 1, "the first is dropped after this");
        std::mem::take(&mut *order.lock().unwrap())
    })
}

#[test]
fn a_flood_of_one_tenant_does_not_keep_another_waiting() {
    let mut asked = vec![(1, QUANTUM); 100];
    asked.push((2, QUANTUM));
    let place = order(&asked).iter().position(|of| *of == 2).unwrap();
    assert!(place <= 2, "it waited for {place} of the others");
}

#[test]
fn tenants_have_the_same_weight_and_not_the_same_number() {
    // Operations of one weigh four times as much as those of the other.
    let mut asked = Vec::new();
    for _ in 0..40 {
        asked.extend([(1, QUANTUM), (2, QUANTUM / 4)]);
    }
    let order = order(&asked);
    let heavy_among_first = order[..25].iter().filter(|of| **of == 1).count();
    assert!((4..=7).contains(&heavy_among_first), "{heavy_among_first} of 25");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn everything_that_waits_runs_once(asked in prop::collection::vec((0..4_usize, 1..4 * QUANTUM), 1..60)) {
        let mut ran = order(&asked);
        let mut wanted: Vec<usize> = asked.iter().map(|(of, _)| *of).collect();
        ran.sort_unstable();
        wanted.sort_unstable();
        prop_assert_eq!(ran, wanted);
    }
}
