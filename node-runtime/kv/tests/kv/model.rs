//! Any calls, one after the other, beside a map.

use std::collections::BTreeMap;

use proptest::prelude::{Just, Strategy, prop, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Get(u8),
    Put(u8, u8),
    Delete(u8),
    Increment(u8, i8),
    CompareAndSet(u8, Option<u8>, Option<u8>),
    Scan(bool, usize),
    Commit,
    /// It is lost: nothing of it takes effect.
    Lose,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..6u8;
    let value = || 0..3u8;
    prop_oneof![
        key().prop_map(Step::Get),
        (key(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        key().prop_map(Step::Delete),
        (key(), -2..3i8).prop_map(|(key, by)| Step::Increment(key, by)),
        (key(), prop::option::of(value()), prop::option::of(value()))
            .prop_map(|(key, expected, value)| Step::CompareAndSet(key, expected, value)),
        (prop::bool::ANY, 1..4usize).prop_map(|(all, limit)| Step::Scan(all, limit)),
        Just(Step::Commit),
        Just(Step::Lose),
    ]
}

/// The first three keys have a prefix that the others have not.
fn name(key: u8) -> String {
    format!("{}{key}", if key < 3 { "a" } else { "b" })
}

type Map = BTreeMap<String, String>;

async fn run(world: &World, steps: Vec<Step>) {
    // What a case before has left.
    let mut clear = world.call();
    (0..6).for_each(|key| clear.delete(&name(key)));
    clear.done().await;
    let mut committed = Map::new();
    let mut current = committed.clone();
    let mut call = world.call();
    for step in steps {
        match step {
            Step::Get(key) => assert_eq!(call.get(&name(key)).await.as_ref(), current.get(&name(key))),
            Step::Put(key, value) => {
                call.put(&name(key), &value.to_string());
                current.insert(name(key), value.to_string());
            }
            Step::Delete(key) => {
                call.delete(&name(key));
                current.remove(&name(key));
            }
            Step::Increment(key, by) => {
                let before = current.get(&name(key)).map_or(0, |text| text.parse::<i64>().unwrap());
                let sum = before + i64::from(by);
                assert_eq!(call.increment(&name(key), by.into()).await.unwrap(), sum);
                current.insert(name(key), sum.to_string());
            }
            Step::CompareAndSet(key, expected, value) => {
                let (key, [expected, value]) =
                    (name(key), [expected, value].map(|v| v.map(|v| v.to_string())));
                let is_so = current.get(&key) == expected.as_ref();
                assert_eq!(call.compare_and_set(&key, expected.as_deref(), value.as_deref()).await, is_so);
                match value.filter(|_| is_so) {
                    Some(value) => drop(current.insert(key, value)),
                    None if is_so => drop(current.remove(&key)),
                    None => {}
                }
            }
            Step::Scan(all, limit) => {
                let prefix = if all { "" } else { "a" };
                let (mut found, mut after) = (Map::new(), None);
                loop {
                    let page = call.scan(prefix, after.as_ref(), limit).await;
                    found.extend(page.entries.into_iter().map(|(key, value)| {
                        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                        (text(key.as_bytes()), text(&value.into_bytes().unwrap()))
                    }));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                let expected: Map =
                    current.clone().into_iter().filter(|(key, _)| key.starts_with(prefix)).collect();
                assert_eq!(found, expected);
            }
            Step::Commit => {
                call.done().await;
                committed = current.clone();
                call = world.call();
            }
            Step::Lose => {
                current = committed.clone();
                call = world.call();
            }
        }
    }
    let mut last = world.call();
    for key in 0..6 {
        assert_eq!(last.get(&name(key)).await.as_ref(), committed.get(&name(key)));
    }
}

fn any_calls_do_what_a_map_does(kind: Kind) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::new(kind));
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let steps = prop::collection::vec(step(), 1..40);
    let checked = runner.run(&steps, |steps| {
        runtime.block_on(run(&world, steps));
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn any_calls_do_on_postgres_what_a_map_does() {
    any_calls_do_what_a_map_does(Kind::Postgres);
}

#[test]
fn any_calls_do_on_redis_what_a_map_does() {
    any_calls_do_what_a_map_does(Kind::Redis);
}
