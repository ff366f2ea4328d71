#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{CORES_MAX, CoreSet, CoreSetError};

fn set(cores: &BTreeSet<usize>) -> CoreSet {
    let mut set = CoreSet::EMPTY;
    cores.iter().for_each(|core| set.insert(*core).unwrap());
    set
}

fn cores() -> impl Strategy<Value = BTreeSet<usize>> {
    proptest::collection::btree_set(0..CORES_MAX, 0..200)
}

#[test]
fn lists_are_read_and_written_as_linux_writes_them() {
    for (text, cores) in [
        ("", vec![]),
        ("0", vec![0]),
        ("0-3,8", vec![0, 1, 2, 3, 8]),
        ("63-65", vec![63, 64, 65]),
        ("1,3,1023", vec![1, 3, 1023]),
    ] {
        let read = CoreSet::parse(text).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), cores, "{text}");
        assert_eq!(read.to_string(), text);
        assert_eq!(CoreSet::parse(&format!("{text}\n")).unwrap(), read, "a file ends with a newline");
    }
}

#[test]
fn what_is_no_list_is_refused() {
    for text in ["a", "1-", "-1", "3-1", "1,,2", "1,", "+1", "0-3:1/2", " 1", "1\n\n", "1 2", "0x1"] {
        assert_eq!(CoreSet::parse(text), Err(CoreSetError::NotAList(text.to_owned())), "{text:?}");
    }
    assert_eq!(CoreSet::parse("1024"), Err(CoreSetError::TooLarge(1024)));
    assert_eq!(CoreSet::parse("0-4000000000"), Err(CoreSetError::TooLarge(4_000_000_000)));
    assert_eq!(CoreSet::default().insert(CORES_MAX), Err(CoreSetError::TooLarge(CORES_MAX)));
}

#[test]
fn the_first_cpus_are_counted_from_zero() {
    assert_eq!(CoreSet::first_cpus(3).unwrap().to_string(), "0-2");
    assert_eq!(CoreSet::first_cpus(CORES_MAX).unwrap().len(), CORES_MAX);
    assert_eq!(CoreSet::first_cpus(CORES_MAX + 1), Err(CoreSetError::TooLarge(CORES_MAX)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_the_set_of_its_numbers(a in cores(), b in cores(), count in 0..300usize, one in 0..CORES_MAX) {
        let (x, y) = (set(&a), set(&b));
        prop_assert_eq!(x.iter().collect::<BTreeSet<_>>(), a.clone());
        prop_assert_eq!(x.len(), a.len());
        prop_assert_eq!(x.is_empty(), a.is_empty());
        prop_assert_eq!(x.contains(one), a.contains(&one));
        prop_assert_eq!(x.union(&y), set(&a.union(&b).copied().collect()));
        prop_assert_eq!(x.intersection(&y), set(&a.intersection(&b).copied().collect()));
        prop_assert_eq!(x.difference(&y), set(&a.difference(&b).copied().collect()));
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!(x.take(count), set(&a.iter().take(count).copied().collect()));
        prop_assert_eq!(CoreSet::parse(&x.to_string()), Ok(x));
        let mut less = x;
        less.remove(one);
        prop_assert_eq!(less, set(&a.into_iter().filter(|core| *core != one).collect()));
    }

    #[test]
    fn a_text_is_refused_or_read_and_written_alike(text in "[0-9,\\-\n]{0,12}") {
        if let Ok(read) = CoreSet::parse(&text) {
            prop_assert_eq!(CoreSet::parse(&read.to_string()), Ok(read));
        }
    }
}
