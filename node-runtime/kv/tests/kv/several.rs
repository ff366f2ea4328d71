//! Resources in several stores: each has one home, and a call changes data of one store.

use super::*;

/// A resource that lies in PostgreSQL in every world.
fn rates(key: &str) -> Place {
    Place { resource: "rates".parse().unwrap(), key: Key::new(key).unwrap() }
}

impl Call<'_> {
    async fn rate(&mut self, key: &str) -> Option<String> {
        let place = rates(key);
        let values = self.transaction.get(self.stores, &place.resource, &[place.key]).await.unwrap();
        values[0].as_ref().map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    fn put_rate(&mut self, key: &str, value: &str) {
        self.transaction.put(rates(key), value.into(), Expiry::Never).unwrap();
    }
}

async fn store(world: &World) -> Store {
    Store::open(&Cluster::get().url(&world.database, OWNER), 4, 0).await.unwrap()
}

fn wrong(opened: Result<Stores, KvError>) -> String {
    match opened {
        Err(KvError::Server { server, wrong }) => format!("{server}: {wrong}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_resource_has_one_home() {
    let world = World::new(Kind::Redis).await;
    let redis = world.redis.as_ref().unwrap();
    let mut call = world.call();
    call.put("a", "1");
    call.done().await;
    let mut call = world.call();
    call.put_rate("a", "1");
    call.done().await;
    // One that has entries in PostgreSQL does not move by being named.
    let said = wrong(Stores::open(store(&world).await, servers(&redis.url(), &["rates"])).await);
    assert!(said.contains("main: `rates` has entries in PostgreSQL"), "{said}");
    // Nor does what is named beside it.
    let said = wrong(Stores::open(store(&world).await, servers(&redis.url(), &["lodges", "rates"])).await);
    assert!(said.contains("`rates` has entries"), "{said}");
    assert!(world.holds("NOT EXISTS (SELECT FROM homes WHERE resource = 'lodges')").await);
    // Nor one that lies in a server to another one.
    let other = TestServer::start(&[]);
    let said = wrong(Stores::open(store(&world).await, servers(&other.url(), &["hotels"])).await);
    assert!(said.contains("`hotels` lies in another server"), "{said}");
    // The same again is fine, by whichever address.
    Stores::open(store(&world).await, servers(&redis.url(), &["hotels"])).await.unwrap();
    // One that no file names is not looked for in PostgreSQL: at first the database alone knows that.
    let unaware = Stores::of(store(&world).await);
    let mut call = Call { stores: &unaware, caller: caller(), transaction: Transaction::default() };
    call.put("b", "2");
    let ended = call.commit().await;
    assert!(matches!(&ended, Err(KvError::Unavailable(_))), "{ended:?}");
    // Nor does it take effect there what has seen nothing of it.
    let mut reads = Call { stores: &unaware, caller: caller(), transaction: Transaction::default() };
    let read = reads.transaction.get(&unaware, &resource(), &[Key::new("a").unwrap()]).await.unwrap();
    assert_eq!(read, [None]);
    reads.put_rate("b", "1");
    let ended = reads.commit().await;
    assert!(matches!(&ended, Err(KvError::Unavailable(_))), "{ended:?}");
    unaware.renew_homes().await.unwrap();
    let read = call.transaction.get(&unaware, &resource(), &[Key::new("a").unwrap()]).await;
    assert!(matches!(&read, Err(KvError::Elsewhere(name)) if *name == resource()), "{read:?}");
    assert!(matches!(call.commit().await, Err(KvError::Elsewhere(_))));
    assert!(matches!(unaware.may_change(&call.transaction, &resource()), Err(KvError::Elsewhere(_))));
    let mut call = Call { stores: &unaware, caller: caller(), transaction: Transaction::default() };
    call.put_rate("b", "2");
    call.done().await;
    // Nor in the server when an operator has taken its home away.
    assert!(Cluster::get().psql(&world.database, "DELETE FROM mfaas_data.homes"));
    world.stores.renew_homes().await.unwrap();
    let mut call = world.call();
    call.put("a", "2");
    assert!(matches!(call.commit().await, Err(KvError::Elsewhere(_))));
}

/// Else a call could change data of one server as if these were two.
#[tokio::test]
async fn a_server_is_named_once() {
    let world = World::new(Kind::Redis).await;
    let url = world.redis.as_ref().unwrap().url();
    let mut twice = servers(&url, &["hotels"]);
    twice.extend(servers(&url, &["carts"]));
    let said = wrong(Stores::open(store(&world).await, twice).await);
    assert!(said.contains("the same as `main`"), "{said}");
}

/// A claim and a commit at the same time: one of them is refused, or the other one was first.
#[tokio::test]
async fn a_resource_that_is_claimed_while_it_is_written_lies_in_one_place() {
    let world = World::new(Kind::Postgres).await;
    let redis = TestServer::start(&[]);
    for number in 0..15 {
        let name = format!("r{number}");
        let place = Place { resource: name.parse().unwrap(), key: Key::new("k").unwrap() };
        let mut call = world.call();
        call.transaction.put(place, b"v".to_vec(), Expiry::Never).unwrap();
        let claims = Stores::open(store(&world).await, servers(&redis.url(), &[&name]));
        let commits = async {
            tokio::time::sleep(std::time::Duration::from_millis(number)).await;
            call.commit().await
        };
        let (claimed, committed) = tokio::join!(claims, commits);
        assert!(claimed.is_err() || committed.is_err(), "both, at {number}");
        let both =
            format!("EXISTS (SELECT FROM homes h JOIN entries e USING (resource) WHERE resource = '{name}')");
        assert!(!world.holds(&both).await);
    }
}

#[tokio::test]
async fn a_call_changes_data_of_one_store() {
    let world = World::new(Kind::Redis).await;
    let mut call = world.call();
    call.put("a", "1");
    let refused = world.stores.may_change(&call.transaction, &rates("a").resource);
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("`hotels`") && said.contains("`rates`"), "{said}");
    world.stores.may_change(&call.transaction, &resource()).unwrap();
    // Also where nobody has asked before.
    call.put_rate("a", "1");
    let ended = call.commit().await;
    assert!(matches!(ended, Err(KvError::SeveralStores { .. })), "{ended:?}");
    assert_eq!((world.value("a").await, world.call().rate("a").await), (None, None));
    assert!(world.holds("NOT EXISTS (SELECT FROM audit)").await);
}

#[tokio::test]
async fn callees_change_data_of_the_store_that_their_caller_changes() {
    let world = World::new(Kind::Redis).await;
    // One that begins after its caller has changed something.
    let mut root = world.call();
    root.put("a", "1");
    let late = root.transaction.of_callee();
    assert!(world.stores.may_change(&late, &rates("a").resource).is_err());
    world.stores.may_change(&late, &resource()).unwrap();
    // Two at the same time, of which the caller has changed nothing.
    let mut root = world.call();
    let (mut one, mut other) = (root.transaction.of_callee(), root.transaction.of_callee());
    one.put(place("a"), b"1".to_vec(), Expiry::Never).unwrap();
    other.put(rates("a"), b"1".to_vec(), Expiry::Never).unwrap();
    world.stores.absorb(&mut root.transaction, one).unwrap();
    let absorbed = world.stores.absorb(&mut root.transaction, other);
    assert!(matches!(absorbed, Err(KvError::SeveralStores { .. })), "{absorbed:?}");
    let mut reads = root.transaction.of_callee();
    reads.get(&world.stores, &rates("a").resource, &[Key::new("a").unwrap()]).await.unwrap();
    world.stores.absorb(&mut root.transaction, reads).unwrap();
    root.done().await;
    assert_eq!((world.value("a").await.as_deref(), world.call().rate("a").await), (Some("1"), None));
}

#[tokio::test]
async fn what_a_call_saw_in_other_stores_has_to_be_so_as_well() {
    let world = World::new(Kind::Redis).await;
    let set = async |rate: &str, hotel: &str| {
        let (mut one, mut other) = (world.call(), world.call());
        one.put_rate("seen", rate);
        one.done().await;
        other.put("seen", hotel);
        other.done().await;
    };
    set("1", "1").await;
    let reader = async |changes: fn(&mut Call<'_>)| {
        let mut call = world.call();
        assert!(call.rate("seen").await.is_some() && call.get("seen").await.is_some());
        changes(&mut call);
        call
    };
    let kinds: [fn(&mut Call<'_>); 3] =
        [|_| {}, |call| call.put("effect", "1"), |call| call.put_rate("effect", "1")];
    for changes in kinds {
        for rate in [true, false] {
            let call = reader(changes).await;
            let mut other = world.call();
            if rate {
                other.put_rate("seen", "2")
            } else {
                other.put("seen", "2")
            }
            other.done().await;
            call.conflicts().await;
            assert_eq!((world.value("effect").await, world.call().rate("effect").await), (None, None));
        }
    }
    for changes in kinds {
        let call = reader(changes).await;
        call.done().await;
        if call.transaction.writes() {
            set("3", "3").await;
            assert_eq!(call.commit().await.unwrap(), Committed::Before, "whatever it saw is no more");
        }
    }
    assert_eq!(
        (world.value("effect").await.as_deref(), world.call().rate("effect").await.as_deref()),
        (Some("1"), Some("1"))
    );
}

/// For whom nobody knows which store the call has changed.
#[tokio::test]
async fn settling_asks_all_stores() {
    let world = World::new(Kind::Redis).await;
    let kinds: [fn(&mut Call<'_>); 2] = [|call| call.put("k", "1"), |call| call.put_rate("k", "1")];
    for changes in kinds {
        let mut call = world.call();
        changes(&mut call);
        call.done().await;
        for _ in 0..2 {
            assert_eq!(world.stores.give_up(&call.caller).await.unwrap(), Committed::Before);
        }
        let mut never = world.call();
        changes(&mut never);
        let settled = world.stores.give_up(&never.caller).await;
        assert!(matches!(settled, Err(KvError::Conflict)), "{settled:?}");
        never.conflicts().await;
    }
    assert!(world.holds("(SELECT count(*) FROM audit) = 2").await);
}

/// A server that is away: it is not known, unless another store knows.
#[tokio::test]
async fn settling_without_a_server_is_an_open_question() {
    let mut world = World::new(Kind::Redis).await;
    let (mut done, lost) = (world.call(), caller());
    done.put_rate("k", "1");
    done.done().await;
    let done = done.caller;
    drop(world.redis.take());
    assert_eq!(world.stores.give_up(&done).await.unwrap(), Committed::Before);
    let settled = world.stores.give_up(&lost).await;
    assert!(matches!(settled, Err(KvError::Unacknowledged(_))), "{settled:?}");
}

#[tokio::test]
async fn objects_do_not_lie_in_redis() {
    let world = World::new(Kind::Redis).await;
    assert!(!world.stores.is_in_postgres(&resource()).unwrap());
    assert!(world.stores.is_in_postgres(&rates("a").resource).unwrap());
    let blob = world.stores.postgres().announce(&resource(), 7).await.unwrap();
    let mut call = world.call();
    call.transaction.put_blob(place("a"), blob).unwrap();
    let ended = call.commit().await;
    assert!(matches!(ended, Err(KvError::Unavailable(_))), "{ended:?}");
}

async fn a_call_that_was_given_up_never_takes_effect(world: World) {
    let mut call = world.call();
    call.put("k", "1");
    let given_up = world.stores.give_up(&call.caller).await;
    assert!(matches!(given_up, Err(KvError::Conflict)), "{given_up:?}");
    call.conflicts().await;
    assert_eq!(world.value("k").await, None);
}

over_both!(a_call_that_was_given_up_never_takes_effect);

/// What lies in PostgreSQL does not wait for a Redis server, and nothing is said of a call that may have been committed there.
#[tokio::test]
async fn a_server_that_was_away_is_reached_when_it_answers() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let database = Cluster::get().create_database();
    let store = Store::open(&Cluster::get().url(&database, OWNER), 4, 0).await.unwrap();
    let url = format!("redis://127.0.0.1:{port}");
    let stores = Stores::open(store, servers(&url, &["hotels"])).await.unwrap();
    let call = || Call { stores: &stores, caller: caller(), transaction: Transaction::default() };
    let mut there = call();
    there.put_rate("a", "1");
    there.done().await;
    let lookup = async |call: &mut Call<'_>| {
        call.transaction.get(&stores, &resource(), &[Key::new("a").unwrap()]).await
    };
    let read = lookup(&mut call()).await;
    assert!(matches!(&read, Err(KvError::Server { server, .. }) if server == "main"), "{read:?}");
    assert_eq!(stores.give_up(&there.caller).await.unwrap(), Committed::Before);
    let other = call();
    let given_up = stores.give_up(&other.caller).await;
    assert!(matches!(given_up, Err(KvError::Unacknowledged(_))), "{given_up:?}");
    stores.reach_servers().await.unwrap();
    assert!(lookup(&mut call()).await.is_err(), "it is still away");

    let _server = TestServer::start(&["--port", &port]);
    stores.reach_servers().await.unwrap();
    stores.renew_homes().await.unwrap();
    let mut late = call();
    late.put("a", "2");
    late.done().await;
    assert_eq!(lookup(&mut call()).await.unwrap()[0].as_deref(), Some(&b"2"[..]));
    assert!(matches!(stores.give_up(&other.caller).await, Err(KvError::Conflict)));
}
