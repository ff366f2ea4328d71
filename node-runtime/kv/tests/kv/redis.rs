//! What holds of a Redis server besides: what it has to be, what it does when it is full, and how audit records leave it.

use std::time::Duration;

use mfaas_kv::limits::{ENTRY_BYTES, VALUE_BYTES_MAX};

use super::*;

async fn refused(server: &TestServer) -> String {
    let database = Cluster::get().create_database();
    let store = Store::open(&Cluster::get().url(&database, OWNER), 2, 0).await.unwrap();
    Stores::open(store, servers(&server.url(), &["hotels"])).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_server_that_throws_data_away_or_takes_none_is_refused() {
    let evicts = TestServer::start(&["--maxmemory-policy", "volatile-ttl"]);
    let wrong = refused(&evicts).await;
    assert!(
        wrong.contains("`main`") && wrong.contains("noeviction") && wrong.contains("volatile-ttl"),
        "{wrong}"
    );
    let primary = TestServer::start(&[]);
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", "1"]);
    assert!(refused(&replica).await.contains("primary"));
    let cluster = TestServer::start(&["--cluster-enabled", "yes"]);
    assert!(refused(&cluster).await.contains("cluster"));
    drop(primary);
}

/// Nothing of a commit is there that the server has no room for, and what it did before stays.
#[tokio::test]
async fn a_full_server_refuses_a_commit_as_a_whole() {
    let world = World::new(Kind::Redis).await;
    let redis = world.redis.as_ref().unwrap();
    let mut before = world.call();
    before.put("before", "1");
    before.done().await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "4mb"]);
    let large = "x".repeat(VALUE_BYTES_MAX);
    let mut commits = 1;
    let refused = loop {
        let mut call = world.call();
        for part in 0..8 {
            call.put(&format!("{commits:03}-{part}"), &large);
        }
        match call.commit().await {
            Ok(_) => commits += 1,
            Err(error) => break (call, error),
        }
        assert!(commits < 100, "it never is full");
    };
    let (call, error) = refused;
    assert!(matches!(&error, KvError::Unavailable(cause) if cause.to_string().contains("OOM")), "{error:?}");
    assert_eq!(world.value("before").await.as_deref(), Some("1"), "reads go on");
    for part in 0..8 {
        assert_eq!(world.value(&format!("{commits:03}-{part}")).await, None);
    }
    let entries = world.call().scan("", None, 256).await.entries.len();
    assert_eq!(entries, (commits - 1) * 8 + 1);
    let bytes = ENTRY_BYTES + 7 + (commits as u64 - 1) * 8 * (ENTRY_BYTES + 5 + VALUE_BYTES_MAX as u64);
    assert_eq!(world.sized().await, [("hotels".to_owned(), bytes)]);
    // A call that only reads commits, and one that nobody knows the end of can be given up.
    let mut reader = world.call();
    reader.get("before").await;
    reader.get("other").await;
    reader.done().await;
    let given_up = world.stores.give_up(&call.caller).await;
    assert!(matches!(given_up, Err(KvError::Conflict)), "{given_up:?}");
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(world.holds(&format!("(SELECT count(*) FROM audit) = {entries}")).await);
    call.conflicts().await;
}

#[tokio::test]
async fn expired_entries_are_passed_over_and_swept_in_parts() {
    let world = World::new(Kind::Redis).await;
    for part in 0..8 {
        let mut call = world.call();
        for number in 0..200 {
            call.put_for(&format!("k{part}{number:03}"), "v", Expiry::After(Duration::ZERO));
        }
        call.put(&format!("k{part}live"), "v");
        call.done().await;
    }
    let mut call = world.call();
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = call.scan("k", after.as_ref(), 3).await;
        found.extend(
            page.entries.into_iter().map(|(key, _)| String::from_utf8(key.as_bytes().to_vec()).unwrap()),
        );
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, (0..8).map(|part| format!("k{part}live")).collect::<Vec<_>>());
    call.put("effect", "1");
    call.done().await;
    let mut parts = 0;
    loop {
        parts += 1;
        if !world.stores.sweep_servers().await.unwrap().1 {
            break;
        }
    }
    assert_eq!(parts, 4, "500 at a time");
    let redis = world.redis.as_ref().unwrap();
    assert_eq!(redis.cli(&["ZCARD", "mfaas:{kv}:index:hotels"]), "9");
    assert_eq!(redis.cli(&["ZCARD", "mfaas:{kv}:expiring"]), "0");
    assert_eq!(world.sized().await, [("hotels".to_owned(), 8 * (ENTRY_BYTES + 6 + 1) + ENTRY_BYTES + 6 + 1)]);
    // What was swept and what comes into a scan is seen at the commit.
    let mut scans = world.call();
    scans.scan("k0", None, 10).await;
    scans.put("effect", "2");
    let mut phantom = world.call();
    phantom.put("k0new", "v");
    phantom.done().await;
    scans.conflicts().await;
}

/// What was expired when a call looked is not there, and made again it is another one.
#[tokio::test]
async fn an_entry_that_expires_between_a_read_and_the_commit_is_a_conflict() {
    let world = World::new(Kind::Redis).await;
    let mut call = world.call();
    call.put_for("k", "v", Expiry::After(Duration::from_secs(60)));
    call.done().await;
    let (mut reads, mut scans) = (world.call(), world.call());
    reads.get("k").await;
    reads.put("effect", "1");
    scans.scan("k", None, 10).await;
    world.expire_soon();
    reads.conflicts().await;
    scans.conflicts().await;
}

/// Any bytes: what ends a name, what looks like another key, and no text at all.
#[tokio::test]
async fn a_key_of_any_bytes_stays_in_its_resource() {
    let redis = TestServer::start(&[]);
    let world = World::over(Some(redis)).await;
    let keys: Vec<Vec<u8>> = [
        &b":"[..],
        b"::hotels:a",
        b"\0",
        b"\0\0",
        b"\xff",
        b"\xff\xff",
        b"a\nb",
        b"* ?[a]",
        b"mfaas:{kv}:sizes",
        b"..",
        b"'); redis.call('FLUSHALL')",
    ]
    .map(<[u8]>::to_vec)
    .into();
    let place = |key: &[u8]| Place { resource: resource(), key: Key::new(key).unwrap() };
    let mut call = world.call();
    for key in &keys {
        call.transaction.put(place(key), key.clone(), Expiry::After(Duration::from_secs(600))).unwrap();
    }
    call.done().await;
    let mut call = world.call();
    let asked: Vec<Key> = keys.iter().map(|key| Key::new(key.clone()).unwrap()).collect();
    let values = call.transaction.get(&world.stores, &resource(), &asked).await.unwrap();
    let expected: Vec<_> = keys.iter().map(|key| Some(key.clone().into())).collect();
    assert_eq!(values, expected);
    let page = call.scan("", None, 256).await;
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(page.entries.iter().map(|(key, _)| key.as_bytes()).collect::<Vec<_>>(), sorted);
    let prefix = call.transaction.scan(&world.stores, &resource(), b"\xff", None, 256).await.unwrap();
    assert_eq!(prefix.entries.len(), 2);
    call.put("effect", "1");
    call.done().await;
    assert_eq!(world.redis.as_ref().unwrap().cli(&["ZCARD", "mfaas:{kv}:expiring"]), keys.len().to_string());
    let mut call = world.call();
    keys.iter().for_each(|key| call.transaction.delete(place(key)).unwrap());
    call.delete("effect");
    call.done().await;
    assert_eq!(world.sized().await, []);
    let left = world.redis.as_ref().unwrap().cli(&["KEYS", "mfaas:{kv}:*"]);
    let left = left.lines().filter(|key| !key.contains(":call:")).count();
    assert_eq!(left, 3, "the identity, the sizes and the outbox");
}

/// Whenever it ends: records are there once.
#[tokio::test]
async fn an_audit_record_leaves_the_outbox_once_wherever_its_way_is_cut() {
    let world = World::new(Kind::Redis).await;
    let url = Cluster::get().url(&world.database, OWNER);
    let mut records = 0;
    for cut in [Cut::Requests, Cut::Answers] {
        let (redis, postgres) = (world.relay(cut), Relay::new(cut, Cluster::get().sockets().join(SOCKET)));
        let over_postgres = postgres.url(&world.database, OWNER);
        let over_redis = TestServer::url_of(&redis.socket());
        let store = Store::open(&url, 1, 0).await.unwrap();
        let stores = Stores::open(store, servers(&over_redis, &["hotels"])).await.unwrap();
        records += move_with_cuts(&world, &redis, &stores).await;
        let store = Store::open(&over_postgres, 1, 0).await.unwrap();
        let redis_url = world.redis.as_ref().unwrap().url();
        let stores = Stores::open(store, servers(&redis_url, &["hotels"])).await.unwrap();
        records += move_with_cuts(&world, &postgres, &stores).await;
    }
    assert!(world.holds(&format!("(SELECT count(*) FROM audit) = {records}")).await, "not {records}");
    assert!(world.holds("NOT EXISTS (SELECT FROM audit GROUP BY call HAVING count(*) <> 2)").await);
    assert_eq!(world.redis.as_ref().unwrap().cli(&["XLEN", "mfaas:{kv}:outbox"]), "0");
}

/// Lets the way be cut at many points, where what moves them is dropped, as if its process was killed: how many there should be.
async fn move_with_cuts(world: &World, relay: &Relay, stores: &Stores) -> usize {
    const POINTS: usize = 60;
    const MEASURED: usize = 5;
    let write = async || {
        let mut call = world.call();
        call.put("a", "1");
        call.delete("b");
        call.done().await;
    };
    write().await;
    stores.move_audit().await.unwrap();
    // On a busy machine one of them may have to connect anew, and passes more.
    let mut bytes = i64::MAX;
    for _ in 0..MEASURED {
        write().await;
        let before = relay.passed();
        stores.move_audit().await.unwrap();
        bytes = bytes.min(relay.passed() - before);
    }
    let mut cuts = 0;
    for number in 0..POINTS {
        write().await;
        // A connection that was cut is found to be dead.
        let _ = stores.large(1).await;
        let _ = stores.renew_homes().await;
        relay.cut_after(number as i64 * 2_654_435_761 % bytes);
        let lost = async {
            while !relay.has_cut() {
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
        };
        tokio::select! {
            _ = stores.move_audit() => {}
            () = lost => {}
        }
        cuts += usize::from(relay.has_cut());
        relay.lift();
    }
    assert!(cuts > POINTS / 2, "only {cuts} of {POINTS}, of {bytes} bytes");
    2 * (1 + MEASURED + POINTS)
}

/// Several brokers move at the same time.
#[tokio::test]
async fn brokers_that_move_the_same_records_leave_them_there_once() {
    let world = World::new(Kind::Redis).await;
    for number in 0..300 {
        let mut call = world.call();
        call.put(&number.to_string(), "v");
        call.done().await;
    }
    let (one, other, third) =
        tokio::join!(world.stores.move_audit(), world.stores.move_audit(), world.stores.move_audit());
    assert!(one.unwrap() + other.unwrap() + third.unwrap() >= 300);
    assert!(world.holds("(SELECT count(*) FROM audit) = 300").await);
    assert!(world.holds("(SELECT bool_and(at BETWEEN now() - interval '1 minute' AND now() + interval '1 second') FROM audit)").await);
}

/// It is remembered that they came as long as they are there.
#[tokio::test]
async fn calls_that_have_moved_are_forgotten_with_their_records() {
    let world = World::new(Kind::Redis).await;
    for age in [11, 9] {
        let mut call = world.call();
        call.put("a", "1");
        call.done().await;
        assert_eq!(world.stores.move_audit().await.unwrap(), 1);
        let past = format!(
            "UPDATE mfaas_data.audit SET at = now() - interval '{age} days' WHERE at > now() - interval '1 day';
             UPDATE mfaas_data.moved_calls SET moved_at = now() - interval '{age} days'
             WHERE moved_at > now() - interval '1 day'"
        );
        assert!(Cluster::get().psql(&world.database, &past));
    }
    let swept = world.stores.postgres().sweep(10).await.unwrap();
    assert_eq!((swept.audit, swept.commits), (1, 1));
    assert!(world.holds("(SELECT count(*) FROM moved_calls) = 1 AND (SELECT count(*) FROM audit) = 1").await);
}

/// An item that is none of ours stands in nobody's way.
#[tokio::test]
async fn an_item_that_is_no_record_stays_and_others_leave() {
    let world = World::new(Kind::Redis).await;
    let redis = world.redis.as_ref().unwrap();
    redis.cli(&["XADD", "mfaas:{kv}:outbox", "*", "what", "is this"]);
    let mut call = world.call();
    call.put("a", "1");
    call.done().await;
    assert!(world.holds("(SELECT count(*) FROM audit) = 1").await);
    assert_eq!(redis.cli(&["XLEN", "mfaas:{kv}:outbox"]), "1");
}

#[tokio::test]
async fn an_outbox_that_nobody_empties_is_bounded() {
    let world = World::new(Kind::Redis).await;
    let fill = "for i = 1, 1000000 do redis.call('XADD', 'mfaas:{kv}:outbox', i .. '-1', 'a', 'b') end";
    world.redis.as_ref().unwrap().cli(&["EVAL", fill, "0"]);
    let mut call = world.call();
    call.put("a", "1");
    let ended = call.commit().await;
    assert!(
        matches!(&ended, Err(KvError::Unavailable(cause)) if cause.to_string().contains("MFOUTBOX")),
        "{ended:?}"
    );
    assert_eq!(world.value("a").await, None);
}

/// A user who may not do all of it does nothing of it.
#[tokio::test]
async fn rights_that_are_missing_are_found_before_anything_is_written() {
    let world = World::new(Kind::Redis).await;
    let redis = world.redis.as_ref().unwrap();
    let mut call = world.call();
    call.put("a", "1");
    call.done().await;
    for missing in ["-xadd", "-hincrby", "-zrem", "-zadd", "-set", "-del"] {
        redis.cli(&["ACL", "SETUSER", "default", "+@all", missing]);
        let mut call = world.call();
        call.put("a", "2");
        call.put_for("b", "2", Expiry::After(Duration::from_secs(9)));
        let ended = call.commit().await;
        assert!(matches!(ended, Err(KvError::Unavailable(_))), "{missing}: {ended:?}");
        redis.cli(&["ACL", "SETUSER", "default", "+@all"]);
        assert_eq!(
            (world.value("a").await.as_deref(), world.value("b").await),
            (Some("1"), None),
            "{missing}"
        );
    }
    assert!(world.holds("(SELECT count(*) FROM audit) = 1").await);
}

/// Those that docs/operations.md names are all that it takes.
#[tokio::test]
async fn the_rights_that_the_documentation_names_are_enough() {
    let operations = include_str!("../../../../docs/operations.md");
    let rights = operations.split_once("`~mfaas").unwrap().1.split_once('`').unwrap().0;
    let rights = format!("~mfaas{rights}");
    let mut world = World::new(Kind::Redis).await;
    let redis = world.redis.as_ref().unwrap();
    let mut user = vec!["ACL", "SETUSER", "mfaas", "on", ">hidden"];
    user.extend(rights.split_whitespace());
    redis.cli(&user);
    let url = format!("{}?user=mfaas&pass=hidden", redis.url());
    let store = Store::open(&Cluster::get().url(&world.database, OWNER), 2, 0).await.unwrap();
    world.stores = Stores::open(store, servers(&url, &["hotels", "suites"])).await.unwrap();
    let mut call = world.call();
    call.put_for("k", "v", Expiry::After(Duration::ZERO));
    call.put_for("l", "v", Expiry::After(Duration::from_secs(9)));
    call.done().await;
    let mut call = world.call();
    call.scan("", None, 9).await;
    call.increment("n", 1).await.unwrap();
    call.delete("l");
    call.done().await;
    assert_eq!(world.stores.give_up(&call.caller).await.unwrap(), Committed::Before);
    assert_eq!(world.stores.sweep_servers().await.unwrap(), (1, false));
    assert_eq!(world.sized().await, [("hotels".to_owned(), ENTRY_BYTES + 2)]);
    assert!(world.holds("(SELECT count(*) FROM audit) = 4").await);
}

/// A certificate for `localhost` and its key, of an authority of their own: the server's files, and that authority.
fn certificate(directory: &std::path::Path) -> [String; 3] {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(params, key);
    let key = rcgen::KeyPair::generate().unwrap();
    let names = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = names.signed_by(&key, &issuer).unwrap().pem();
    let files = [("ca.pem", authority), ("server.pem", certificate), ("server.key", key.serialize_pem())];
    files.map(|(name, text)| {
        let file = directory.join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    })
}

/// Encrypted, to a server whose certificate names it and comes from whom the operator says.
#[tokio::test]
async fn a_server_elsewhere_has_to_show_who_it_is() {
    mfaas_startup::install_tls_provider().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let [authority, certificate, key] = certificate(directory.path());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let _server = TestServer::start(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &authority,
        "--tls-auth-clients",
        "no",
        "--requirepass",
        "hidden",
    ]);
    let database = Cluster::get().create_database();
    let store = Store::open(&Cluster::get().url(&database, OWNER), 2, 0).await.unwrap();
    let open = async |url: &str, more: &str| {
        let file = tempfile::NamedTempFile::new_in(directory.path()).unwrap();
        let text = format!("[redis.main]\nurl = \"{url}:{port}\"\nresources = [\"hotels\"]\n{more}");
        std::fs::write(file.path(), text).unwrap();
        Stores::open(store.clone(), RedisServer::read(file.path()).unwrap()).await
    };
    let ca = "ca_file = \"ca.pem\"\n";
    for (url, more) in [
        ("rediss://:hidden@localhost", ""),
        ("rediss://:hidden@127.0.0.1", ca),
        ("rediss://:wrong@localhost", ca),
        ("redis://:hidden@localhost", ""),
    ] {
        let refused = open(url, more).await;
        assert!(matches!(&refused, Err(KvError::Server { .. })), "{url}: {refused:?}");
        assert!(!format!("{refused:?}").contains("hidden"));
    }
    let stores = open("rediss://:hidden@localhost", ca).await.unwrap();
    let mut call = Call { stores: &stores, caller: caller(), transaction: Transaction::default() };
    call.put("k", "v");
    call.done().await;
    assert_eq!(stores.large(1).await.unwrap().len(), 1);
}

/// A server that has lost what it held is not taken for an empty one.
#[tokio::test]
async fn a_server_that_lost_its_data_is_another_one() {
    let world = World::new(Kind::Redis).await;
    let redis = world.redis.as_ref().unwrap();
    let mut call = world.call();
    call.put("a", "1");
    call.done().await;
    // Scripts that it has forgotten it is told again.
    redis.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(call.commit().await.unwrap(), Committed::Before);
    call.scan("a", None, 1).await;
    redis.cli(&["FLUSHALL"]);
    let mut call = world.call();
    let read = call.transaction.get(&world.stores, &resource(), &[Key::new("a").unwrap()]).await;
    assert!(matches!(read, Err(KvError::Unavailable(_))), "{read:?}");
    call.put("a", "2");
    assert!(matches!(call.commit().await, Err(KvError::Unavailable(_))));
    assert_eq!(redis.cli(&["KEYS", "*"]), "");
    // Nor when a broker starts there.
    let store = Store::open(&Cluster::get().url(&world.database, OWNER), 1, 0).await.unwrap();
    let opened = Stores::open(store, servers(&redis.url(), &["hotels"])).await;
    assert!(matches!(&opened, Err(KvError::Server { wrong, .. }) if wrong.contains("homes")), "{opened:?}");
}

/// A primary that became a replica takes nothing, and goes on when it is one again.
#[tokio::test]
async fn a_server_that_became_a_replica_takes_nothing() {
    let world = World::new(Kind::Redis).await;
    let redis = world.redis.as_ref().unwrap();
    let mut call = world.call();
    call.put("a", "1");
    call.done().await;
    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let mut call = world.call();
    call.put("a", "2");
    for _ in 0..2 {
        let ended = call.commit().await;
        assert!(matches!(ended, Err(KvError::Unavailable(_))), "{ended:?}");
    }
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(world.value("a").await.as_deref(), Some("1"));
    call.done().await;
}

/// It may have taken effect where nobody hears of it; asked for again it is known, and is there once.
#[tokio::test]
async fn a_server_that_hangs_leaves_open_what_a_commit_came_to() {
    let world = World::new(Kind::Redis).await;
    let redis = world.redis.as_ref().unwrap();
    assert_eq!(world.value("a").await, None);
    let info = redis.cli(&["INFO", "server"]);
    let process = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().to_owned();
    let signal = |name: &str| {
        assert!(std::process::Command::new("kill").args([name, &process]).status().unwrap().success());
    };
    let mut call = world.call();
    call.increment("a", 1).await.unwrap();
    signal("-STOP");
    let (ended, read) = tokio::join!(call.commit(), async {
        Transaction::default().get(&world.stores, &resource(), &[Key::new("a").unwrap()]).await
    });
    signal("-CONT");
    assert!(matches!(ended, Err(KvError::Unacknowledged(_))), "{ended:?}");
    assert!(matches!(read, Err(KvError::Unavailable(_))), "{read:?}");
    call.commit().await.unwrap();
    assert_eq!(call.commit().await.unwrap(), Committed::Before);
    assert_eq!(world.value("a").await.as_deref(), Some("1"));
    assert!(world.holds("(SELECT count(*) FROM audit) = 1").await);
}

/// Versions are never used again, also by a server that has lost its last changes.
#[tokio::test]
async fn a_server_that_went_back_in_time_gives_no_version_twice() {
    let world = World::new(Kind::Redis).await;
    let redis = world.redis.as_ref().unwrap();
    let mut reads = world.call();
    let change = async |value: &str| {
        let mut call = world.call();
        call.put("a", value);
        call.done().await;
    };
    change("seen").await;
    reads.get("a").await;
    reads.put("effect", "1");
    // As if the change had never arrived on the disk, and another one came in its place.
    redis.cli(&["DEL", "mfaas:{kv}:entry:hotels:a"]);
    change("other").await;
    reads.conflicts().await;
}
