use super::Recent;

#[test]
fn what_is_remembered_is_bounded_and_what_is_used_stays() {
    let recent = Recent::<u32, u32>::new(1_024);
    for number in 0..50_000 {
        recent.piece(&number).put(number, number);
        assert_eq!(recent.piece(&0).get(&0), Some(&0), "after {number}");
    }
    assert_eq!(recent.count(), 1_024);
    recent.clear();
    assert_eq!(recent.count(), 0);
}
