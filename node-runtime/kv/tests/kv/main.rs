//! Key-value data on a real PostgreSQL and a real Redis: what calls see of each other, and what takes effect of a call, once.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod blobs;
mod calls;
mod effects;
mod events;
mod model;
mod redis;
mod relay;
mod several;

use mfaas_ident::{ResourceName, VersionNumber};
use mfaas_kv::{
    Caller, Committed, Expiry, Key, KvError, Page, Place, RedisServer, Store, Stores, Transaction,
};
use mfaas_test_postgres::{Cluster, OWNER};
use mfaas_test_redis::RedisServer as TestServer;
use uuid::Uuid;

use relay::{Cut, Relay, SOCKET};

/// Makes a test of each of these functions on PostgreSQL, and one on Redis.
macro_rules! over_both {
    ($($name:ident),+ $(,)?) => {
        mod on_postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::World::new(crate::Kind::Postgres).await).await;
            })+
        }
        mod on_redis {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::World::new(crate::Kind::Redis).await).await;
            })+
        }
    };
}
use over_both;

/// In the place of a clock that goes faster.
const EXPIRE_SOON: &str = "local time = redis.call('TIME')
    local now = time[1] * 1000
    local members = redis.call('ZRANGEBYSCORE', 'mfaas:{kv}:expiring', '-inf', now + 30 * 60 * 1000)
    for _, member in ipairs(members) do
        redis.call('SETRANGE', 'mfaas:{kv}:entry:' .. member, 8, struct.pack('>I8', now - 1000))
        redis.call('ZADD', 'mfaas:{kv}:expiring', now - 1000, member)
    end";

/// A server as an operator's file names it, with these resources.
fn servers(url: &str, resources: &[&str]) -> Vec<RedisServer> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("[redis.main]\nurl = \"{url}\"\nresources = {resources:?}\n");
    std::fs::write(file.path(), text).unwrap();
    RedisServer::read(file.path()).unwrap()
}

/// Where the resource of a world lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Postgres,
    Redis,
}

/// A database of its own and, where the resource lies there, a server of its own.
struct World {
    stores: Stores,
    database: String,
    redis: Option<TestServer>,
}

impl World {
    async fn new(kind: Kind) -> Self {
        let redis = match kind {
            Kind::Postgres => None,
            Kind::Redis => Some(TestServer::start(&[])),
        };
        Self::over(redis).await
    }

    async fn over(redis: Option<TestServer>) -> Self {
        let database = Cluster::get().create_database();
        let store = Store::open(&Cluster::get().url(&database, OWNER), 8, 0).await.unwrap();
        let servers = redis.iter().flat_map(|redis| servers(&redis.url(), &["hotels", "suites"])).collect();
        let stores = Stores::open(store, servers).await.unwrap();
        Self { stores, database, redis }
    }

    /// What this world is made for is asked through a relay, on one connection or so many.
    async fn through(&self, relay: &Relay, connections: u32) -> Stores {
        let (postgres, servers) = match &self.redis {
            Some(_) => (
                Cluster::get().url(&self.database, OWNER),
                servers(&TestServer::url_of(&relay.socket()), &["hotels", "suites"]),
            ),
            None => (relay.url(&self.database, OWNER), Vec::new()),
        };
        let store = Store::open(&postgres, connections, 0).await.unwrap();
        Stores::open(store, servers).await.unwrap()
    }

    /// A relay to what this world is made for.
    fn relay(&self, cut: Cut) -> Relay {
        let postgres = || Cluster::get().sockets().join(SOCKET);
        Relay::new(cut, self.redis.as_ref().map_or_else(postgres, TestServer::socket))
    }

    /// Whether that holds in the database, when all audit records are there.
    async fn holds(&self, condition: &str) -> bool {
        self.stores.move_audit().await.unwrap();
        let check = format!("DO $$ BEGIN SET search_path = mfaas_data; ASSERT {condition}; END $$");
        Cluster::get().psql(&self.database, &check)
    }

    /// All resources and what they hold.
    async fn sized(&self) -> Vec<(String, u64)> {
        while self.stores.postgres().sum_sizes(0).await.unwrap().may_be_more {}
        let large = self.stores.large(1).await.unwrap();
        large.into_iter().map(|(name, bytes)| (name.to_string(), bytes)).collect()
    }

    /// How many expired entries are removed.
    async fn swept(&self) -> u64 {
        let swept = self.stores.postgres().sweep(90).await.unwrap();
        assert_eq!(swept.commits, 0);
        swept.entries + self.stores.sweep_servers().await.unwrap().0
    }

    /// What would expire within half an hour has expired a second ago.
    fn expire_soon(&self) {
        let Some(redis) = &self.redis else {
            return assert!(Cluster::get().psql(
                &self.database,
                "UPDATE mfaas_data.entries SET expires_at = now() - interval '1 second'
                 WHERE expires_at < now() + interval '30 minutes'"
            ));
        };
        redis.cli(&["EVAL", EXPIRE_SOON, "0"]);
    }

    /// Ends all connections of stores.
    fn end_connections(&self) {
        let Some(redis) = &self.redis else {
            return assert!(Cluster::get().psql(
                &self.database,
                "DO $$ BEGIN ASSERT (SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = 'mfaas-kv') > 0; END $$"
            ));
        };
        redis.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    }

    /// A call that has not read or changed anything.
    fn call(&self) -> Call<'_> {
        Call { stores: &self.stores, caller: caller(), transaction: Transaction::default() }
    }

    /// The value of a key, as a call reads it that begins now.
    async fn value(&self, key: &str) -> Option<String> {
        self.call().get(key).await
    }
}

/// A call of nobody else.
fn caller() -> Caller {
    Caller {
        call: Uuid::new_v4(),
        tenant: "acme".parse().unwrap(),
        function: "book".parse().unwrap(),
        version: VersionNumber::FIRST,
        trace: None,
    }
}

fn resource() -> ResourceName {
    "hotels".parse().unwrap()
}

fn place(key: &str) -> Place {
    Place { resource: resource(), key: Key::new(key).unwrap() }
}

/// A call with its transaction, on texts.
struct Call<'a> {
    stores: &'a Stores,
    caller: Caller,
    transaction: Transaction,
}

impl Call<'_> {
    async fn get(&mut self, key: &str) -> Option<String> {
        let keys = [Key::new(key).unwrap()];
        let values = self.transaction.get(self.stores, &resource(), &keys).await.unwrap();
        values[0].as_ref().map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    async fn scan(&mut self, prefix: &str, after: Option<&Key>, limit: usize) -> Page {
        self.transaction.scan(self.stores, &resource(), prefix.as_bytes(), after, limit).await.unwrap()
    }

    fn put(&mut self, key: &str, value: &str) {
        self.put_for(key, value, Expiry::Never);
    }

    fn put_for(&mut self, key: &str, value: &str, expiry: Expiry) {
        self.transaction.put(place(key), value.into(), expiry).unwrap();
    }

    fn delete(&mut self, key: &str) {
        self.transaction.delete(place(key)).unwrap();
    }

    async fn increment(&mut self, key: &str, by: i64) -> Result<i64, KvError> {
        self.transaction.increment(self.stores, place(key), by).await
    }

    async fn compare_and_set(&mut self, key: &str, expected: Option<&str>, value: Option<&str>) -> bool {
        let expected = expected.map(str::as_bytes);
        let value = value.map(|value| value.as_bytes().to_vec());
        self.transaction.compare_and_set(self.stores, place(key), expected, value).await.unwrap()
    }

    async fn commit(&self) -> Result<Committed, KvError> {
        self.stores.commit(&self.caller, &self.transaction).await
    }

    /// Commits, and it takes effect now.
    async fn done(&self) {
        assert_eq!(self.commit().await.unwrap(), Committed::Now);
    }

    /// Commits, and meets another call.
    async fn conflicts(&self) {
        let ended = self.commit().await;
        assert!(matches!(ended, Err(KvError::Conflict)), "{ended:?}");
    }
}
