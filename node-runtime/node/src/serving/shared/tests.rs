use super::Looks;

/// How many of the next calls go by the thread before a caller looks again.
fn skipped(looks: &mut Looks) -> usize {
    (0..100).take_while(|_| !looks.is_worthwhile()).count()
}

#[test]
fn one_miss_says_nothing_and_further_ones_cost_twice_as_many_looks_each() {
    let mut looks = Looks::default();
    for expected in [0, 2, 6, 14, 14] {
        assert!(looks.is_worthwhile());
        looks.record(false);
        assert_eq!(skipped(&mut looks), expected);
    }
    looks.record(true);
    looks.record(false);
    assert_eq!(skipped(&mut looks), 0, "an answer makes the next miss the first one");
}
