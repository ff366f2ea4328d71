#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn what_is_left_is_the_nodes_and_is_never_nothing() {
    let all = BTreeSet::from([0, 1, 5]);
    assert_eq!(rest(&all, &BTreeSet::from([1, 5])).unwrap(), BTreeSet::from([0]));
    assert!(matches!(rest(&all, &BTreeSet::from([2])), Err(CoresError::NotAllowed(2))));
    assert!(matches!(rest(&all, &all), Err(CoresError::NoneLeft)));
}

#[test]
fn without_cores_for_workers_a_thread_stays_where_it_is() {
    let before = sched_getaffinity(None).unwrap();
    Cores::set_apart(&BTreeSet::new()).unwrap().take_place(0, true).unwrap();
    assert_eq!(sched_getaffinity(None).unwrap(), before);
}

#[test]
fn a_place_with_a_core_stays_on_it_and_one_without_may_use_all() {
    let here = |cores: &Cores, place: usize, is_shared: bool| {
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                cores.take_place(place, is_shared).unwrap();
                sched_getaffinity(None).unwrap().count()
            });
            thread.join().unwrap()
        })
    };
    let allowed = sched_getaffinity(None).unwrap();
    let all: BTreeSet<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let first = *all.first().unwrap();
    let cores = Cores { workers: vec![first], all: all.clone() };
    assert_eq!(here(&cores, 0, true), 1);
    assert_eq!(here(&cores, 1, true), all.len() as u32);
    // Workers of tenants have the workers' cores together, wherever their place is.
    assert_eq!((here(&cores, 0, false), here(&cores, 7, false)), (1, 1));
}
