//! What takes effect of a call that is lost, and of a commit whose acknowledgement is: nothing, or everything once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mfaas_kv::limits::ENTRY_BYTES;

use super::*;

/// Points at which connections are cut, of the short form and of the whole.
const SHORT: usize = 150;
const WHOLE: usize = 10_000;

async fn a_commit_that_is_asked_for_again_takes_effect_once(world: World) {
    let mut call = world.call();
    call.increment("sum", 1).await.unwrap();
    call.delete("other");
    call.done().await;
    for _ in 0..3 {
        assert_eq!(call.commit().await.unwrap(), Committed::Before);
    }
    let mut later = world.call();
    later.put("sum", "7");
    later.done().await;
    assert_eq!(call.commit().await.unwrap(), Committed::Before, "whatever came after it");
    assert_eq!(world.value("sum").await.as_deref(), Some("7"));
    assert!(world.holds("(SELECT count(*) FROM audit) = 3").await);
}

async fn the_same_call_asked_for_at_the_same_time_takes_effect_once(world: World) {
    for number in 1..=20 {
        let mut call = world.call();
        call.increment("sum", 1).await.unwrap();
        let (one, other, third) = tokio::join!(call.commit(), call.commit(), call.commit());
        let ended = [one.unwrap(), other.unwrap(), third.unwrap()];
        assert_eq!(ended.iter().filter(|ended| **ended == Committed::Now).count(), 1, "{ended:?}");
        assert_eq!(world.value("sum").await, Some(number.to_string()));
    }
}

async fn each_change_has_its_audit_record(world: World) {
    let mut call = world.call();
    call.caller.trace = Some("0123456789abcdef".to_owned());
    call.put("k", "value");
    call.delete("d");
    call.done().await;
    let id = call.caller.call;
    for (key, operation, bytes) in [("k", "put", 5), ("d", "delete", 0)] {
        assert!(world.holds(&format!(
            "(SELECT count(*) FROM audit WHERE call = '{id}' AND tenant = 'acme' AND function = 'book' AND version = 1
                AND trace = '0123456789abcdef' AND resource = 'hotels' AND key_sha256 = sha256('{key}')
                AND operation = '{operation}' AND bytes = {bytes}) = 1"
        )).await);
    }
    // One that does not take effect has none.
    let mut call = world.call();
    call.get("k").await;
    call.put("k", "2");
    let mut other = world.call();
    other.put("k", "3");
    other.done().await;
    call.conflicts().await;
    assert!(world.holds("(SELECT count(*) FROM audit) = 3").await);
}

/// What resources hold is summed up from what statements changed, and is what is there.
async fn what_a_resource_holds_is_known_when_it_is_summed_up(world: World) {
    let sized = async || world.sized().await;
    assert_eq!(sized().await, []);
    let mut call = world.call();
    call.put("key", "value");
    call.put("other", "12345678");
    call.put_for("gone", "x", Expiry::After(Duration::ZERO));
    call.done().await;
    let of = |entries: u64, bytes: u64| vec![("hotels".to_owned(), entries * ENTRY_BYTES + bytes)];
    assert_eq!(sized().await, of(3, 3 + 5 + 5 + 8 + 4 + 1));
    let mut call = world.call();
    call.get("key").await;
    call.put("key", "longer than before");
    call.put("new", "");
    call.delete("other");
    call.delete("never there");
    let growth = call.transaction.growth();
    assert_eq!(growth.get(&resource()), Some(&(13 + ENTRY_BYTES + 3)), "as far as it knows what was there");
    call.done().await;
    assert_eq!(sized().await, of(3, 3 + 18 + 3 + 5));
    assert_eq!(world.swept().await, 1);
    assert_eq!(sized().await, of(2, 3 + 18 + 3));
    assert_eq!(world.stores.large(2 * ENTRY_BYTES + 25).await.unwrap(), []);
    if world.redis.is_some() {
        return;
    }
    // What an operator did to the sums is mended.
    let psql = |statement: &str| assert!(Cluster::get().psql(&world.database, statement));
    psql("UPDATE mfaas_data.sizes SET bytes = 7");
    psql("SELECT mfaas_data.count_sizes()");
    assert_eq!(sized().await, of(2, 3 + 18 + 3));
    let mut call = world.call();
    call.delete("key");
    call.done().await;
    assert_eq!(sized().await, of(1, 3));
    psql("TRUNCATE mfaas_data.entries");
    assert_eq!(sized().await, []);
}

/// Brokers sum up at the same time, each from where it has left off.
#[tokio::test]
async fn each_change_is_summed_up_once_by_whichever_broker() {
    let world = World::new(Kind::Postgres).await;
    let write = async |key: &str| {
        let mut call = world.call();
        call.put(key, "value");
        call.done().await;
    };
    let mut from = 0;
    for number in 0..20 {
        write(&format!("key-{number:02}")).await;
        let (one, other) =
            tokio::join!(world.stores.postgres().sum_sizes(from), world.stores.postgres().sum_sizes(0));
        from = one.unwrap().last.into_iter().chain(other.unwrap().last).fold(from, i64::max);
    }
    assert!(from > 0);
    assert_eq!(world.stores.postgres().sum_sizes(from + 1).await.unwrap().last, None, "nothing is left");
    let expected = 20 * (ENTRY_BYTES + 6 + 5);
    assert_eq!(world.stores.large(1).await.unwrap(), [(resource(), expected)]);
    write("later").await;
    assert_eq!(
        world.stores.postgres().sum_sizes(from + 1_000).await.unwrap().last,
        None,
        "it begins where it is told to"
    );
    assert!(world.stores.postgres().sum_sizes(from).await.unwrap().last.is_some_and(|last| last > from));
}

#[tokio::test]
async fn audit_records_are_kept_for_so_many_days() {
    let world = World::new(Kind::Postgres).await;
    for key in ["old", "new"] {
        let mut call = world.call();
        call.put(key, "v");
        call.done().await;
    }
    let age = "SET search_path = mfaas_data;
               UPDATE audit SET at = now() - interval '11 days' WHERE key_sha256 = sha256('old')";
    assert!(Cluster::get().psql(&world.database, age));
    assert_eq!(world.stores.postgres().sweep(12).await.unwrap().audit, 0);
    assert_eq!(world.stores.postgres().sweep(10).await.unwrap().audit, 1);
    assert!(world.holds("(SELECT key_sha256 FROM audit) = sha256('new')").await);
}

/// Cuts the connection at each of so many points of a commit, and looks at what took effect.
async fn cut_everywhere(world: World, cut: Cut, points: usize) {
    let relay = world.relay(cut);
    let through = world.through(&relay, 1).await;
    let call = |number: usize| {
        let mut transaction = Transaction::default();
        for key in ["left", "right"] {
            transaction.put(place(key), number.to_string().into_bytes(), Expiry::Never).unwrap();
        }
        Call { stores: &through, caller: caller(), transaction }
    };
    // Changes nothing, and leaves a connection on which the statement is prepared.
    let warm = async || {
        let mut warm = world.call();
        warm.get("warm").await;
        warm.get("too").await;
        through.commit(&warm.caller, &warm.transaction).await.unwrap();
        // The pool looks at a connection that is given back.
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    warm().await;
    let before = relay.passed();
    call(0).done().await;
    let bytes = relay.passed() - before;
    assert!(bytes > 0);
    let both = async || {
        let keys = ["left", "right"].map(|key| Key::new(key).unwrap());
        let values = Transaction::default().get(&world.stores, &resource(), &keys).await.unwrap();
        let text = |value: &Option<std::sync::Arc<[u8]>>| {
            String::from_utf8(value.as_ref().unwrap().to_vec()).unwrap()
        };
        [text(&values[0]), text(&values[1])]
    };
    let (mut cuts, mut effects) = (0, 0);
    for number in 1..=points {
        warm().await;
        let call = call(number);
        // All points by turns, and not in their order.
        relay.cut_after(number as i64 * 2_654_435_761 % bytes);
        // The caller is gone when the connection is: nobody asks again by itself.
        let commit = call.commit();
        let lost = async {
            while !relay.has_cut() {
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
        };
        tokio::select! {
            ended = commit => assert_eq!(ended.unwrap(), Committed::Now),
            () = lost => cuts += 1,
        }
        relay.lift();
        let [left, right] = both().await;
        assert_eq!(left, right, "half of it, at {number}");
        // It may still be on its way there; asked for again, it has to be whole, and once.
        let again = world.stores.commit(&call.caller, &call.transaction).await.unwrap();
        effects += usize::from(again == Committed::Before);
        assert_eq!(both().await, [number.to_string(), number.to_string()]);
        let id = call.caller.call;
        if number.is_multiple_of(10) {
            assert!(
                world.holds(&format!("(SELECT count(*) FROM audit WHERE call = '{id}') = 2")).await,
                "at {number}"
            );
        }
    }
    assert!(cuts > points / 2, "only {cuts} of {points} were cut");
    match cut {
        Cut::Requests => {
            assert!(effects < points / 2, "{effects} took effect, though not all of it was heard")
        }
        Cut::Answers => assert!(effects > points / 2, "only {effects} of {points} took effect at first"),
    }
    let all = 2 * (points + 1);
    assert!(world.holds(&format!("(SELECT count(*) FROM audit) = {all}")).await, "not {all} records");
}

async fn a_call_whose_requests_are_cut_has_no_effect_or_its_whole_once(world: World) {
    cut_everywhere(world, Cut::Requests, SHORT).await;
}

async fn a_call_whose_acknowledgement_is_lost_has_its_whole_effect_once(world: World) {
    cut_everywhere(world, Cut::Answers, SHORT).await;
}

async fn ten_thousand_points_of_each_kind(kind: Kind) {
    for cut in [Cut::Requests, Cut::Answers] {
        cut_everywhere(World::new(kind).await, cut, WHOLE).await;
    }
}

/// `cargo test -p mfaas-kv -- --ignored`
#[tokio::test]
#[ignore = "takes minutes"]
async fn ten_thousand_points_of_each_kind_on_postgres() {
    ten_thousand_points_of_each_kind(Kind::Postgres).await;
}

/// The same.
#[tokio::test]
#[ignore = "takes minutes"]
async fn ten_thousand_points_of_each_kind_on_redis() {
    ten_thousand_points_of_each_kind(Kind::Redis).await;
}

/// A store asks again by itself: its caller sees one commit, whatever was lost.
async fn a_lost_acknowledgement_is_not_felt_by_the_caller(world: World) {
    let relay = world.relay(Cut::Answers);
    let through = world.through(&relay, 2).await;
    let mut warm = Call { stores: &through, caller: caller(), transaction: Transaction::default() };
    warm.put("sum", "0");
    warm.done().await;
    let mut repeated = 0;
    for number in 1..=30 {
        let mut call = world.call();
        call.increment("sum", 1).await.unwrap();
        relay.cut_after(number % 3);
        let committed = through.commit(&call.caller, &call.transaction).await.unwrap();
        repeated += usize::from(committed == Committed::Before);
        relay.lift();
        assert_eq!(world.value("sum").await, Some(number.to_string()));
    }
    assert!(repeated > 20, "only {repeated} were lost");
}

/// Reads go on when the database was away for a moment.
async fn a_read_whose_connection_is_gone_is_asked_again(world: World) {
    let mut call = world.call();
    call.put("k", "1");
    call.done().await;
    for _ in 0..3 {
        world.end_connections();
        assert_eq!(world.value("k").await.as_deref(), Some("1"));
        let mut call = world.call();
        call.put("k", "1");
        call.commit().await.unwrap();
    }
}

/// An attempt that is still on its way and one that is asked for again see different things: either it took effect, and the caller
/// hears that, or it meets a conflict, and never does.
#[tokio::test]
async fn a_conflict_after_a_lost_connection_is_the_truth() {
    let world = World::new(Kind::Postgres).await;
    let relay = world.relay(Cut::Answers);
    let through = Arc::new(world.through(&relay, 2).await);
    let mut warm = world.call();
    warm.put("warm", "1");
    through.commit(&warm.caller, &warm.transaction).await.unwrap();
    for round in 0..5 {
        let mut seed = world.call();
        seed.put("seen", "before");
        seed.delete("effect");
        seed.done().await;
        let mut call = world.call();
        call.get("seen").await;
        call.put("effect", "1");
        // What a commit writes first is locked for a while: two attempts wait there, of which one has seen what was before.
        let database = world.database.clone();
        let lock = tokio::task::spawn_blocking(move || {
            let held = "DO $$ BEGIN LOCK TABLE mfaas_data.commits IN ACCESS EXCLUSIVE MODE; PERFORM pg_sleep(0.4); END $$";
            Cluster::get().psql(&database, held)
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let commit = tokio::spawn({
            let (through, caller) = (Arc::clone(&through), call.caller.clone());
            let transaction = call.transaction;
            async move { through.commit(&caller, &transaction).await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let change = "UPDATE mfaas_data.entries SET value = 'after', version = nextval('mfaas_data.versions') WHERE key = 'seen'";
        assert!(Cluster::get().psql(&world.database, change));
        relay.drop_all();
        assert!(lock.await.unwrap());
        let ended = commit.await.unwrap();
        // Whatever is still on its way has its time.
        tokio::time::sleep(Duration::from_millis(100)).await;
        match ended {
            Ok(_) => assert_eq!(world.value("effect").await.as_deref(), Some("1"), "round {round}"),
            Err(KvError::Conflict) => assert_eq!(world.value("effect").await, None, "round {round}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Data of functions is not sent in the clear to another machine, nor to whichever of several servers.
#[tokio::test]
async fn addresses_keep_to_the_rules_of_the_site() {
    let open = async |url: &str| Store::open(url, 1, 0).await.unwrap_err();
    assert!(matches!(open("postgres://u:p@db.example/data?sslmode=prefer").await, KvError::Address(_)));
    let two = "postgres://u:p@127.0.0.1,127.0.0.2/data";
    assert!(matches!(open(two).await, KvError::SeveralServers(2)), "{:?}", open(two).await);
}

/// Nothing was asked, so it is known that nothing took effect, and at once.
async fn a_database_that_is_away_is_no_open_question(world: World) {
    let relay = world.relay(Cut::Answers);
    let through = world.through(&relay, 2).await;
    drop(relay);
    let mut call = world.call();
    call.put("k", "1");
    let asked = Instant::now();
    let ended = through.commit(&call.caller, &call.transaction).await;
    assert!(matches!(ended, Err(KvError::Unavailable(_))), "{ended:?}");
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
}

/// What is asked of it holds connections, and what stands behind it waits: both end, and it goes on when the store does.
async fn a_store_that_says_nothing_is_waited_for_so_long(world: World) {
    let relay = world.relay(Cut::Answers);
    let through = world.through(&relay, 1).await;
    let mut call = Call { stores: &through, caller: caller(), transaction: Transaction::default() };
    call.put("k", "1");
    call.done().await;
    relay.let_pass(false);
    let mut waits = Call { stores: &through, caller: caller(), transaction: Transaction::default() };
    waits.put("k", "2");
    let mut reads = Transaction::default();
    let (resource, keys) = (resource(), [Key::new("k").unwrap()]);
    let both = async { tokio::join!(reads.get(&through, &resource, &keys), waits.commit()) };
    let (read, committed) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    assert!(matches!(read, Err(KvError::Unavailable(_))), "{read:?}");
    assert!(matches!(committed, Err(KvError::Unacknowledged(_))), "{committed:?}");
    relay.let_pass(true);
    waits.commit().await.unwrap();
    let mut after = Call { stores: &through, caller: caller(), transaction: Transaction::default() };
    assert_eq!(after.get("k").await.as_deref(), Some("2"));
}

over_both!(
    a_store_that_says_nothing_is_waited_for_so_long,
    a_commit_that_is_asked_for_again_takes_effect_once,
    the_same_call_asked_for_at_the_same_time_takes_effect_once,
    each_change_has_its_audit_record,
    what_a_resource_holds_is_known_when_it_is_summed_up,
    a_lost_acknowledgement_is_not_felt_by_the_caller,
    a_read_whose_connection_is_gone_is_asked_again,
    a_database_that_is_away_is_no_open_question,
    a_call_whose_requests_are_cut_has_no_effect_or_its_whole_once,
    a_call_whose_acknowledgement_is_lost_has_its_whole_effect_once,
);
