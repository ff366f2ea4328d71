//! Events: written with the change or not at all, handed out to one at a time, counted, and bounded.

use std::time::Duration;

use mfaas_catalog::{EndedCall, EventEnd, ObjectEvents, Trigger, TriggerState, WaitingEvent, WatchedChanges};
use mfaas_ident::TenantName;
use mfaas_kv::WAITING_EVENTS_MAX;

use super::*;

const LEASE: Duration = Duration::from_secs(60);
const ANSWERED: EndedCall<'_> = EndedCall { outcome: "answered", status: Some(200), code: None };

/// A world with a trigger for objects below `in/`.
struct Watched {
    world: World,
    events: ObjectEvents,
    trigger: Trigger,
}

impl Watched {
    async fn new() -> Self {
        let world = World::new(Kind::Postgres).await;
        let events = ObjectEvents::open(&Cluster::get().url(&world.database, OWNER)).unwrap();
        let trigger = Trigger {
            id: Uuid::new_v4(),
            tenant: "acme".parse().unwrap(),
            function: "resize".parse().unwrap(),
            name: "uploads".parse().unwrap(),
            changes: WatchedChanges {
                resource: resource(),
                prefix: "in/".to_owned(),
                on_put: true,
                on_delete: true,
            },
            set_at: chrono::Utc::now(),
            set_by: "test".to_owned(),
            is_granted: true,
        };
        events.watch(&trigger).await.unwrap();
        Self { world, events, trigger }
    }

    async fn put(&self, key: &str) -> Call<'_> {
        let blob = self.world.stores.postgres().announce(&resource(), 7).await.unwrap();
        let mut call = self.world.call();
        call.transaction.put_blob(place(key), blob).unwrap();
        call
    }

    async fn claim(&self) -> Option<WaitingEvent> {
        self.events.claim(&[], LEASE).await.unwrap()
    }

    async fn state(&self) -> TriggerState {
        let mut states = self.events.states(&[self.trigger.id]).await.unwrap();
        assert_eq!(states.len(), 1);
        states.remove(0).1
    }

    fn sql(&self, sql: &str) {
        assert!(Cluster::get().psql(&self.world.database, sql), "{sql}");
    }

    /// As if what was handed out, or waits for a further call, were due.
    fn later(&self) {
        self.sql("UPDATE mfaas_data.events SET due_at = now()");
    }
}

#[tokio::test]
async fn changes_below_the_prefix_are_events_and_no_others() {
    let watched = Watched::new().await;
    for key in ["in/a", "in/b", "out/a", "in", "In/c"] {
        watched.put(key).await.done().await;
    }
    watched.put("in/a").await.done().await;
    let mut deletes = watched.world.call();
    for key in ["in/b", "in/never-there", "out/a"] {
        deletes.delete(key);
    }
    deletes.done().await;
    // Key-value data is none, whatever its key.
    let mut plain = watched.world.call();
    plain.put("in/plain", "1");
    plain.done().await;
    let mut seen = Vec::new();
    while let Some(event) = watched.claim().await {
        assert_eq!((event.trigger, event.tenant.as_str(), event.tries), (watched.trigger.id, "acme", 1));
        seen.push((event.id, String::from_utf8(event.name).unwrap(), event.event, event.bytes));
    }
    seen.sort_unstable();
    let told: Vec<_> = seen.iter().map(|(_, name, event, bytes)| (&**name, &**event, *bytes)).collect();
    assert_eq!(
        told,
        [
            ("in/a", "put", Some(7)),
            ("in/b", "put", Some(7)),
            ("in/a", "put", Some(7)),
            ("in/b", "delete", None)
        ]
    );
}

#[tokio::test]
async fn there_is_no_event_without_a_commit_and_no_second_one() {
    let watched = Watched::new().await;
    // One that meets a conflict.
    let mut meets = watched.put("in/a").await;
    meets.transaction.get_blob(&watched.world.stores, &place("in/other")).await.unwrap();
    watched.put("in/other").await.done().await;
    meets.conflicts().await;
    // One that is ended by the database after it has written its event.
    watched.sql(
        "CREATE FUNCTION mfaas_data.fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             ASSERT (SELECT count(*) FROM mfaas_data.events) = 2; RAISE EXCEPTION 'killed' USING ERRCODE = '57P01'; END $$;
         CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON mfaas_data.commits DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION mfaas_data.fails()",
    );
    let killed = watched.put("in/killed").await;
    let (committed, ()) = tokio::join!(killed.commit(), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(watched.state().await.waiting, 1, "what was not committed is no event");
        watched.sql("DROP TRIGGER fails ON mfaas_data.commits");
    });
    // It was asked for again meanwhile.
    assert_eq!(committed.unwrap(), Committed::Now);
    assert_eq!(killed.commit().await.unwrap(), Committed::Before);
    assert_eq!(watched.state().await.waiting, 2);
}

#[tokio::test]
async fn what_a_function_changes_itself_is_no_event_for_it() {
    let watched = Watched::new().await;
    let mut own = watched.put("in/a").await;
    own.caller.function = "resize".parse().unwrap();
    own.done().await;
    assert_eq!(watched.claim().await, None);
    // The connection remembers nothing of that, and another tenant's function of that name is another one.
    let mut other = watched.put("in/b").await;
    (other.caller.tenant, other.caller.function) = ("umbrella".parse().unwrap(), "resize".parse().unwrap());
    other.done().await;
    watched.sql("UPDATE mfaas_data.entries SET blob = NULL WHERE key = 'in/a'");
    assert_eq!(watched.claim().await.unwrap().name, b"in/b");
}

#[tokio::test]
async fn an_event_is_handed_out_to_one_at_a_time_until_it_has_ended() {
    let watched = Watched::new().await;
    watched.put("in/a").await.done().await;
    let busy: TenantName = "acme".parse().unwrap();
    assert_eq!(watched.events.claim(&[busy], LEASE).await.unwrap(), None);
    let (one, other) = tokio::join!(watched.claim(), watched.claim());
    let first = one.xor(other).expect("one of them has it");
    // Its server is lost.
    watched.later();
    let second = watched.claim().await.unwrap();
    assert_eq!((first.id, second.tries), (second.id, 2));
    watched.events.end(&first, EventEnd::Delivered, ANSWERED).await.unwrap();
    assert_eq!(watched.state().await.delivered, 0, "who was late says nothing");
    let failed = EndedCall { outcome: "failed", status: Some(500), code: Some("MF0802") };
    watched.events.end(&second, EventEnd::Again(LEASE), failed).await.unwrap();
    let state = watched.state().await;
    let (_, outcome, status, code) = state.last.unwrap();
    assert_eq!((&*outcome, status, code.as_deref()), ("failed", Some(500), Some("MF0802")));
    assert!(state.waiting == 1 && watched.claim().await.is_none(), "it waits");
    watched.later();
    let third = watched.claim().await.unwrap();
    watched.events.end(&third, EventEnd::Delivered, ANSWERED).await.unwrap();
    let state = watched.state().await;
    assert_eq!((state.delivered, state.failed, state.waiting), (1, 0, 0));
    assert_eq!(watched.events.waiting().await.unwrap().events, 0);
}

#[tokio::test]
async fn calls_are_paced_and_what_waits_is_bounded() {
    let watched = Watched::new().await;
    watched.sql(&format!(
        "INSERT INTO mfaas_data.events (trigger, name, event) SELECT '{}', 'in/x', 'put' FROM generate_series(1, {})",
        watched.trigger.id,
        WAITING_EVENTS_MAX + 5
    ));
    let swept = watched.world.stores.postgres().sweep(90).await.unwrap();
    assert_eq!(swept.events, 5);
    let state = watched.state().await;
    assert_eq!((state.waiting, state.dropped), (WAITING_EVENTS_MAX as u64, 5));
    watched.sql("UPDATE mfaas_data.triggers SET next_call_at = now() + interval '1 hour'");
    assert_eq!(watched.claim().await, None);
    watched.sql("UPDATE mfaas_data.triggers SET next_call_at = now() - interval '1 hour'");
    let mut begun = 0;
    while watched.claim().await.is_some() {
        begun += 1;
        // Each claim takes some time, in which more are allowed.
        assert!(begun < 1_000, "without end");
    }
    assert!(begun >= 100, "{begun}");
}

#[tokio::test]
async fn a_trigger_that_is_off_or_gone_has_no_events() {
    let watched = Watched::new().await;
    watched.put("in/a").await.done().await;
    let off = Trigger { is_granted: false, ..watched.trigger.clone() };
    watched.events.watch(&off).await.unwrap();
    watched.events.watch(&off).await.unwrap();
    watched.put("in/b").await.done().await;
    let state = watched.state().await;
    assert_eq!((state.waiting, state.dropped), (0, 1));
    // One of a commit that was on its way.
    let late = format!(
        "INSERT INTO mfaas_data.events (trigger, name, event) VALUES ('{}', 'in/x', 'put')",
        watched.trigger.id
    );
    watched.sql(&late);
    assert_eq!(watched.world.stores.postgres().sweep(90).await.unwrap().events, 1);
    assert_eq!(watched.state().await.dropped, 2);
    watched.events.watch(&watched.trigger).await.unwrap();
    watched.put("in/c").await.done().await;
    assert_eq!(watched.state().await.waiting, 1);
    assert_eq!(watched.events.known().await.unwrap(), [(watched.trigger.id, true)]);
    watched.events.remove(&[watched.trigger.id]).await.unwrap();
    watched.put("in/d").await.done().await;
    assert_eq!(watched.events.waiting().await.unwrap().events, 0);
    watched.sql(&late);
    assert_eq!(watched.world.stores.postgres().sweep(90).await.unwrap().events, 1);
}

#[tokio::test]
async fn the_role_of_servers_reaches_no_data() {
    assert!(Cluster::get().psql("postgres", "CREATE ROLE mfaas_events"), "before the schema is made");
    let watched = Watched::new().await;
    let role = |sql: &str| {
        let sql = format!("SET ROLE mfaas_events; SET search_path = mfaas_data; {sql}");
        Cluster::get().psql(&watched.world.database, &sql)
    };
    for allowed in [
        "SELECT name FROM events",
        "UPDATE events SET due_at = now()",
        "UPDATE triggers SET enabled = false",
        "DELETE FROM triggers",
    ] {
        assert!(role(allowed), "{allowed}");
    }
    for denied in [
        "SELECT key FROM entries",
        "DELETE FROM entries",
        "SELECT * FROM audit",
        "SELECT * FROM commits",
        "SELECT server FROM homes",
        "INSERT INTO events (trigger, name, event) VALUES (gen_random_uuid(), 'x', 'put')",
        "UPDATE events SET name = 'x'",
        "UPDATE triggers SET prefix = ''",
        "CREATE TABLE mine (x int)",
    ] {
        assert!(!role(denied), "{denied}");
    }
}
