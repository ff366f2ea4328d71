//! Key-value data on a real PostgreSQL: what calls see of each other, and what takes effect of a call, once.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod blobs;
mod calls;
mod effects;
mod model;
mod relay;

use mfaas_ident::{ResourceName, VersionNumber};
use mfaas_kv::{Caller, Committed, Expiry, Key, KvError, Page, Place, Store, Transaction};
use mfaas_test_postgres::{Cluster, OWNER};
use uuid::Uuid;

/// A database of its own, and its store.
struct World {
    store: Store,
    database: String,
}

impl World {
    async fn new() -> Self {
        let database = Cluster::get().create_database();
        let store = Store::open(&Cluster::get().url(&database, OWNER), 8, 0).await.unwrap();
        Self { store, database }
    }

    /// Whether that holds in the database.
    fn holds(&self, condition: &str) -> bool {
        let check = format!("DO $$ BEGIN SET search_path = mfaas_data; ASSERT {condition}; END $$");
        Cluster::get().psql(&self.database, &check)
    }

    /// A call that has not read or changed anything.
    fn call(&self) -> Call<'_> {
        Call { store: &self.store, caller: caller(), transaction: Transaction::default() }
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
    store: &'a Store,
    caller: Caller,
    transaction: Transaction,
}

impl Call<'_> {
    async fn get(&mut self, key: &str) -> Option<String> {
        let keys = [Key::new(key).unwrap()];
        let values = self.transaction.get(self.store, &resource(), &keys).await.unwrap();
        values[0].as_ref().map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    async fn scan(&mut self, prefix: &str, after: Option<&Key>, limit: usize) -> Page {
        self.transaction.scan(self.store, &resource(), prefix.as_bytes(), after, limit).await.unwrap()
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
        self.transaction.increment(self.store, place(key), by).await
    }

    async fn compare_and_set(&mut self, key: &str, expected: Option<&str>, value: Option<&str>) -> bool {
        let expected = expected.map(str::as_bytes);
        let value = value.map(|value| value.as_bytes().to_vec());
        self.transaction.compare_and_set(self.store, place(key), expected, value).await.unwrap()
    }

    async fn commit(&self) -> Result<Committed, KvError> {
        self.store.commit(&self.caller, &self.transaction).await
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
