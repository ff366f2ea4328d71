//! What calls see: their own changes, each other's when they took effect, and never half of anything.

use std::time::Duration;

use super::*;

async fn a_call_reads_what_it_changed_and_others_read_it_after_the_commit(world: World) {
    let mut call = world.call();
    assert_eq!(call.get("a").await, None);
    call.put("a", "1");
    call.put("b", "2");
    call.delete("b");
    assert_eq!((call.get("a").await, call.get("b").await), (Some("1".to_owned()), None));
    assert_eq!(world.value("a").await, None, "it has not committed");
    call.done().await;
    assert_eq!((world.value("a").await, world.value("b").await), (Some("1".to_owned()), None));
    let mut call = world.call();
    call.delete("a");
    call.done().await;
    assert_eq!(world.value("a").await, None);
}

async fn a_call_that_reads_twice_reads_the_same(world: World) {
    let mut reader = world.call();
    assert_eq!(reader.get("a").await, None);
    let mut writer = world.call();
    writer.put("a", "1");
    writer.done().await;
    assert_eq!(reader.get("a").await, None);
}

async fn resources_do_not_meet(world: World) {
    let other = Place { resource: "suites".parse().unwrap(), key: Key::new("a").unwrap() };
    let mut call = world.call();
    call.transaction.put(other.clone(), b"other".to_vec(), Expiry::Never).unwrap();
    call.put("a", "own");
    call.done().await;
    assert_eq!(world.value("a").await.as_deref(), Some("own"));
    let page = world.call().scan("", None, 10).await;
    assert_eq!(page.entries.len(), 1, "of its own resource alone");
    let mut call = world.call();
    call.transaction.delete(other).unwrap();
    call.done().await;
    assert_eq!(world.value("a").await.as_deref(), Some("own"));
}

async fn what_a_call_saw_has_to_be_so_when_it_commits(world: World) {
    let change = async |key: &str, value: Option<&str>| {
        let mut call = world.call();
        match value {
            Some(value) => call.put(key, value),
            None => call.delete(key),
        }
        call.done().await;
    };
    change("there", Some("1")).await;
    // Changed, removed, made, and made again as it was.
    for (key, changes) in [
        ("there", &[Some("2")][..]),
        ("there", &[None]),
        ("absent", &[Some("1")]),
        ("there", &[Some("1")]),
        ("there", &[None, Some("1")]),
    ] {
        let mut call = world.call();
        call.get(key).await;
        call.put("effect", "it is there");
        for value in changes {
            change(key, *value).await;
        }
        call.conflicts().await;
        assert_eq!(world.value("effect").await, None, "{key}: {changes:?}");
    }
    // What it did not see does not matter, nor does what it only reads alone.
    let mut call = world.call();
    call.put("effect", "blind");
    change("there", Some("9")).await;
    call.done().await;
    let mut reader = world.call();
    reader.get("there").await;
    change("there", Some("10")).await;
    reader.done().await;
    reader.get("effect").await;
    reader.conflicts().await;
}

async fn of_two_calls_that_each_see_what_the_other_changes_one_has_to_run_again(world: World) {
    for _ in 0..20 {
        let mut seed = world.call();
        seed.put("left", "on duty");
        seed.put("right", "on duty");
        seed.done().await;
        // Each may go as long as the other one stays.
        let leave = async |own: &'static str, other: &'static str| {
            let mut call = world.call();
            let (_, stays) = (call.get(own).await, call.get(other).await.as_deref() == Some("on duty"));
            if stays {
                call.put(own, "gone");
            }
            call.commit().await
        };
        let (left, right) = tokio::join!(leave("left", "right"), leave("right", "left"));
        let gone = [world.value("left").await, world.value("right").await];
        assert!(gone.iter().any(|state| state.as_deref() == Some("on duty")), "{left:?} {right:?}");
        assert!(left.is_ok() || right.is_ok(), "{left:?} {right:?}");
    }
}

async fn a_scan_gives_parts_in_order_with_the_calls_own_changes(world: World) {
    let mut seed = world.call();
    for key in ["a", "p1", "p2", "p3", "p4", "p5", "q"] {
        seed.put(key, key);
    }
    seed.done().await;
    let mut call = world.call();
    call.delete("p2");
    call.put("p3", "changed");
    call.put("p35", "made");
    let text = |page: &Page| {
        let rows = page.entries.iter().map(|(key, value)| {
            let value = value.clone().into_bytes().unwrap();
            format!("{}={}", String::from_utf8_lossy(key.as_bytes()), String::from_utf8_lossy(&value))
        });
        rows.collect::<Vec<_>>().join(" ")
    };
    let first = call.scan("p", None, 2).await;
    assert_eq!(text(&first), "p1=p1");
    let second = call.scan("p", first.next.as_ref(), 2).await;
    assert_eq!(text(&second), "p3=changed p35=made", "two, its own among them");
    let third = call.scan("p", second.next.as_ref(), 3).await;
    assert_eq!((text(&third).as_str(), third.next), ("p4=p4 p5=p5", None));
    call.done().await;
}

async fn what_comes_into_a_scan_or_leaves_it_is_a_conflict_and_what_lies_beside_it_is_none(world: World) {
    let mut seed = world.call();
    for key in ["p1", "p3", "p5"] {
        seed.put(key, key);
    }
    seed.done().await;
    let scan = async |changes: fn(&mut Call<'_>)| {
        let mut call = world.call();
        call.scan("p", None, 2).await;
        call.put("effect", "1");
        let mut other = world.call();
        changes(&mut other);
        other.done().await;
        call.commit().await
    };
    assert!(matches!(scan(|other| other.put("p2", "made")).await, Err(KvError::Conflict)));
    assert!(matches!(scan(|other| other.delete("p2")).await, Err(KvError::Conflict)));
    assert!(matches!(scan(|other| other.put("p1", "changed")).await, Err(KvError::Conflict)));
    assert_eq!(
        scan(|other| other.put("p4", "behind the part that was given")).await.unwrap(),
        Committed::Now
    );
    assert_eq!(scan(|other| other.put("q", "no such prefix")).await.unwrap(), Committed::Now);
}

async fn sums_are_exact_however_many_calls_add_at_the_same_time(world: World) {
    const CALLS: usize = 6;
    const EACH: usize = 25;
    let add = async |world: &World| {
        for _ in 0..EACH {
            loop {
                let mut call = world.call();
                call.increment("sum", 1).await.unwrap();
                match call.commit().await {
                    Ok(committed) => break assert_eq!(committed, Committed::Now),
                    Err(KvError::Conflict | KvError::Busy) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    tokio::join!(add(&world), add(&world), add(&world), add(&world), add(&world), add(&world));
    assert_eq!(world.value("sum").await, Some((CALLS * EACH).to_string()));
    assert!(world.holds(&format!("(SELECT count(*) FROM audit) = {}", CALLS * EACH)).await);
}

async fn numbers_are_added_and_compared_values_are_set(world: World) {
    let mut call = world.call();
    assert_eq!(call.increment("n", 5).await.unwrap(), 5);
    assert_eq!(call.increment("n", -7).await.unwrap(), -2);
    call.put("n", "9223372036854775807");
    assert!(matches!(call.increment("n", 1).await, Err(KvError::Overflow)));
    call.put("n", "seven");
    assert!(matches!(call.increment("n", 1).await, Err(KvError::NotANumber)));
    assert!(!call.compare_and_set("n", Some("eight"), Some("nine")).await);
    assert!(!call.compare_and_set("n", None, Some("nine")).await);
    assert!(call.compare_and_set("n", Some("seven"), Some("nine")).await);
    assert!(call.compare_and_set("m", None, Some("made")).await);
    assert!(call.compare_and_set("m", Some("made"), None).await);
    call.done().await;
    assert_eq!((world.value("n").await.as_deref(), world.value("m").await), (Some("nine"), None));
}

async fn an_entry_expires_and_may_keep_its_time(world: World) {
    let mut call = world.call();
    let soon = Expiry::After(Duration::from_secs(600));
    call.put_for("lock", "1", soon);
    call.put_for("changed", "1", soon);
    call.put_for("set", "1", soon);
    call.put_for("later", "1", Expiry::After(Duration::from_secs(3_600)));
    call.done().await;
    let mut call = world.call();
    call.increment("changed", 1).await.unwrap();
    call.put("set", "stays");
    call.done().await;
    assert_eq!(world.value("lock").await.as_deref(), Some("1"));
    assert_eq!(world.value("changed").await.as_deref(), Some("2"));
    let mut waits = world.call();
    waits.get("lock").await;
    waits.put("effect", "1");
    world.expire_soon();
    waits.conflicts().await;
    for (key, value) in [("lock", None), ("changed", None), ("set", Some("stays")), ("later", Some("1"))] {
        assert_eq!(world.value(key).await.as_deref(), value, "{key}");
    }
    assert_eq!(world.call().scan("", None, 10).await.entries.len(), 2);
    // Where one was there is room for another one, swept or not.
    let mut call = world.call();
    assert!(call.compare_and_set("lock", None, Some("2")).await);
    call.done().await;
    assert_eq!(world.swept().await, 1, "what was made again stays");
    assert_eq!(world.value("lock").await.as_deref(), Some("2"));
    if let Some(redis) = &world.redis {
        assert_eq!(redis.cli(&["ZCARD", "mfaas:{kv}:expiring"]), "1", "that of `later`");
        for marker in redis.cli(&["KEYS", "mfaas:{kv}:call:*"]).lines() {
            let seconds: u32 = redis.cli(&["TTL", marker]).parse().unwrap();
            assert!((86_000..=86_400).contains(&seconds), "{seconds}");
        }
        return;
    }
    let past = "UPDATE mfaas_data.commits SET committed_at = now() - interval '25 hours'";
    assert!(Cluster::get().psql(&world.database, past));
    assert_eq!(world.stores.postgres().sweep(90).await.unwrap().commits, 3);
}

async fn an_expiry_that_is_to_be_kept_is_the_one_that_was_read(world: World) {
    let mut call = world.call();
    call.put_for("blind", "1", Expiry::Kept);
    call.put_for("deleted", "1", Expiry::After(Duration::from_secs(600)));
    call.done().await;
    assert_eq!(world.value("blind").await.as_deref(), Some("1"));
    let mut call = world.call();
    call.get("deleted").await;
    call.delete("deleted");
    call.put_for("deleted", "2", Expiry::Kept);
    call.put_for("blind", "2", Expiry::Kept);
    call.done().await;
    world.expire_soon();
    for key in ["deleted", "blind"] {
        assert_eq!(world.value(key).await.as_deref(), Some("2"), "it never expires");
    }
}

async fn a_call_that_scans_commits_though_it_changes_nothing(world: World) {
    let mut call = world.call();
    call.scan("p", None, 10).await;
    assert!(call.transaction.needs_commit() && !call.transaction.writes());
    call.done().await;
    let mut other = world.call();
    other.put("p1", "1");
    other.done().await;
    call.conflicts().await;
}

#[tokio::test]
async fn a_commit_outside_of_a_serializable_transaction_is_refused() {
    let world = World::new(Kind::Postgres).await;
    let commit = "SELECT mfaas_data.commit_call(gen_random_uuid(), 't', 'f', 1, NULL, '{}', '{}', '{}', '{}', '{}', '{}', '{}',
        '{hotels}', '{a}', '{b}', '{NULL}')";
    let begin = |level: &str| {
        let begin =
            format!("BEGIN ISOLATION LEVEL {level}; SET LOCAL search_path = mfaas_data; {commit}; COMMIT");
        Cluster::get().psql(&world.database, &begin)
    };
    assert!(!begin("repeatable read"));
    assert!(begin("serializable"));
}

/// What runs a call may move it between threads while it waits for the database.
async fn reading_and_committing_may_change_threads(world: World) {
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    let (keys, resource) = ([Key::new("a").unwrap()], resource());
    let mut transaction = Transaction::default();
    is_send(transaction.get(&world.stores, &resource, &keys)).await.unwrap();
    is_send(transaction.scan(&world.stores, &resource, b"", None, 1)).await.unwrap();
    is_send(world.stores.commit(&caller(), &transaction)).await.unwrap();
}

over_both!(
    reading_and_committing_may_change_threads,
    a_call_reads_what_it_changed_and_others_read_it_after_the_commit,
    a_call_that_reads_twice_reads_the_same,
    resources_do_not_meet,
    what_a_call_saw_has_to_be_so_when_it_commits,
    of_two_calls_that_each_see_what_the_other_changes_one_has_to_run_again,
    a_scan_gives_parts_in_order_with_the_calls_own_changes,
    what_comes_into_a_scan_or_leaves_it_is_a_conflict_and_what_lies_beside_it_is_none,
    sums_are_exact_however_many_calls_add_at_the_same_time,
    numbers_are_added_and_compared_values_are_set,
    an_entry_expires_and_may_keep_its_time,
    an_expiry_that_is_to_be_kept_is_the_one_that_was_read,
    a_call_that_scans_commits_though_it_changes_nothing,
);
