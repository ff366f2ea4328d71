#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn resource(name: &str) -> ResourceName {
    ResourceName::parse(name).unwrap()
}

fn caches() -> Caches {
    Caches::within(32 * CACHE_BYTES)
}

/// A call on the caches.
struct Call<'a> {
    caches: &'a Caches,
    writes: CacheWrites,
}

impl<'a> Call<'a> {
    fn new(caches: &'a Caches) -> Self {
        Self { caches, writes: CacheWrites::default() }
    }

    fn ask(&mut self, name: &str, access: DataAccess, request: &KvRequest<'_>) -> Result<Vec<u8>, NotBegun> {
        // Without the place of the binding, which stands before it.
        let request = &request.encode(0)[size_of::<u32>()..];
        self.caches.answer(&mut self.writes, (&resource(name), access), request, &mut AtOnce::default())
    }

    fn get(&mut self, name: &str, key: &[u8]) -> Option<Vec<u8>> {
        let request = KvRequest::Get { keys: vec![key] };
        let reply = self.ask(name, DataAccess::Read, &request).unwrap();
        let Some(KvReply::Values(values)) = KvReply::decode(&reply, &request) else { panic!("{reply:?}") };
        values[0].map(<[u8]>::to_vec)
    }

    fn put(&mut self, name: &str, key: &[u8], value: &[u8], expiry: KvExpiry) -> Result<(), NotBegun> {
        self.ask(name, DataAccess::Write, &KvRequest::Put { key, value, expiry }).map(drop)
    }

    fn succeed(self) {
        self.caches.apply(self.writes);
    }
}

/// A call puts one value and succeeds.
fn put(caches: &Caches, name: &str, key: &[u8], value: &[u8]) {
    let mut call = Call::new(caches);
    call.put(name, key, value, KvExpiry::Never).unwrap();
    call.succeed();
}

fn get(caches: &Caches, name: &str, key: &[u8]) -> Option<Vec<u8>> {
    Call::new(caches).get(name, key)
}

#[test]
fn others_see_what_a_call_changed_when_it_has_succeeded_and_never_if_it_fails() {
    let caches = &caches();
    put(caches, "pages", b"a", b"old");
    let mut call = Call::new(caches);
    call.put("pages", b"a", b"new", KvExpiry::Never).unwrap();
    call.put("pages", b"b", b"more", KvExpiry::Never).unwrap();
    assert_eq!(call.get("pages", b"a").unwrap(), b"new", "it sees it itself");
    assert_eq!(get(caches, "pages", b"a").unwrap(), b"old");
    drop(call);
    assert_eq!((get(caches, "pages", b"a").unwrap(), get(caches, "pages", b"b")), (b"old".to_vec(), None));
    let mut call = Call::new(caches);
    call.ask("pages", DataAccess::Write, &KvRequest::Delete { key: b"a" }).unwrap();
    assert_eq!(call.get("pages", b"a"), None);
    call.succeed();
    assert_eq!(get(caches, "pages", b"a"), None);
    assert_eq!(caches.numbers().bytes, 0);
}

#[test]
fn a_resource_is_reached_by_its_own_name_alone_and_changed_by_whom_may() {
    let caches = &caches();
    put(caches, "pages", b"a", b"page");
    assert_eq!(get(caches, "other", b"a"), None);
    let mut call = Call::new(caches);
    let (key, value, expiry): (&[u8], &[u8], _) = (b"a", b"x", KvExpiry::Never);
    for request in [KvRequest::Put { key, value, expiry }, KvRequest::Delete { key }] {
        assert_eq!(call.ask("pages", DataAccess::Read, &request), Err(NOT_GRANTED), "{request:?}");
    }
    for request in [
        KvRequest::Increment { key, by: 1 },
        KvRequest::CompareAndSet { key, expected: None, value: None },
        KvRequest::Scan { prefix: key, after: None, limit: 1 },
    ] {
        assert_eq!(call.ask("pages", DataAccess::Write, &request), Err(NO_OPERATION), "{request:?}");
    }
    let what = (&resource("pages"), DataAccess::Write);
    let answered = caches.answer(&mut call.writes, what, b"\x07", &mut AtOnce::default());
    assert_eq!(answered, Err(NO_OPERATION));
    call.succeed();
    assert_eq!(get(caches, "pages", b"a").unwrap(), b"page");
}

#[test]
fn an_entry_is_gone_when_its_time_is_over() {
    let caches = &caches();
    let mut call = Call::new(caches);
    call.put("pages", b"gone", b"x", KvExpiry::AfterMs(0)).unwrap();
    call.put("pages", b"soon", b"x", KvExpiry::AfterMs(40)).unwrap();
    call.put("pages", b"never", b"x", KvExpiry::AfterMs(u64::MAX)).unwrap();
    call.succeed();
    assert_eq!(get(caches, "pages", b"gone"), None);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(get(caches, "pages", b"soon"), None);
    assert_eq!(caches.numbers().bytes, size(5, b"x"), "and takes no room");
    assert!(get(caches, "pages", b"never").is_some());
}

#[test]
fn what_was_used_longest_ago_makes_room_within_its_own_resource() {
    let caches = &caches();
    put(caches, "small", b"kept", b"kept");
    let value = vec![7; VALUE_BYTES_MAX];
    let key = |number: u32| number.to_le_bytes();
    let fit = u32::try_from(CACHE_BYTES / size(4, &value)).unwrap();
    for number in 0..fit {
        put(caches, "large", &key(number), &value);
    }
    // Used now, so that the second one is the oldest.
    assert!(get(caches, "large", &key(0)).is_some());
    put(caches, "large", &key(fit), &value);
    assert!(get(caches, "large", &key(0)).is_some());
    assert_eq!(get(caches, "large", &key(1)), None);
    for number in 0..4 * fit {
        put(caches, "large", &key(number), &value);
    }
    assert!(caches.numbers().bytes <= CACHE_BYTES + size(4, b"kept"));
    assert!(get(caches, "small", b"kept").is_some(), "another resource is full, not this one");
}

#[test]
fn there_are_as_many_caches_as_there_is_memory_for() {
    let caches = &Caches::within(2 * CACHE_BYTES + 1);
    for name in ["one", "two"] {
        put(caches, name, b"a", b"x");
    }
    assert!(get(caches, "one", b"a").is_some());
    put(caches, "three", b"a", b"x");
    let found = ["one", "two", "three"].map(|name| get(caches, name, b"a").is_some());
    assert_eq!(found, [true, false, true], "the one that was used longest ago is gone");
    assert_eq!(caches.numbers().bytes, 2 * size(1, b"x"));
    // To delete what is not there drives out nothing.
    let mut call = Call::new(caches);
    call.ask("four", DataAccess::Write, &KvRequest::Delete { key: b"a" }).unwrap();
    call.succeed();
    assert!(get(caches, "one", b"a").is_some() && get(caches, "three", b"a").is_some());
    let none = &Caches::default();
    put(none, "one", b"a", b"x");
    assert_eq!((get(none, "one", b"a"), none.numbers().bytes), (None, 0));
}

#[test]
fn a_call_changes_no_more_than_it_may() {
    let caches = &caches();
    let mut call = Call::new(caches);
    for key in [&[][..], &[0; KEY_BYTES_MAX + 1]] {
        assert_eq!(call.put("pages", key, b"x", KvExpiry::Never), Err(NO_KEY));
    }
    assert_eq!(call.put("pages", b"a", &[0; VALUE_BYTES_MAX + 1], KvExpiry::Never), Err(LARGE_VALUE));
    for number in 0..WRITES_MAX {
        // Twice the same key is one entry.
        for _ in 0..2 {
            call.put("pages", &number.to_le_bytes(), b"x", KvExpiry::Never).unwrap();
        }
    }
    assert_eq!(call.put("other", b"one more", b"x", KvExpiry::Never), Err(MANY_WRITES));
    let mut call = Call::new(caches);
    let large =
        |call: &mut Call<'_>, key: u8| call.put("pages", &[key], &[0; VALUE_BYTES_MAX], KvExpiry::Never);
    let fit = WRITTEN_BYTES_MAX / size(1, &[0; VALUE_BYTES_MAX]);
    (0..fit).for_each(|key| large(&mut call, key as u8).unwrap());
    assert_eq!(large(&mut call, fit as u8), Err(MANY_WRITES));
    // In the place of another it fits.
    large(&mut call, 0).unwrap();
}

#[test]
fn values_that_do_not_fit_into_one_outcome_are_not_given() {
    let caches = &caches();
    let value = vec![7; VALUE_BYTES_MAX];
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    keys.into_iter().for_each(|key| put(caches, "pages", key, &value));
    let mut call = Call::new(caches);
    let ask = |call: &mut Call<'_>, count: usize| {
        call.ask("pages", DataAccess::Read, &KvRequest::Get { keys: keys[..count].to_vec() })
    };
    assert!(ask(&mut call, 2).unwrap().len() <= OUTCOME_BYTES_MAX);
    assert_eq!(ask(&mut call, 3), Err(LARGE_OUTCOME));
    let CacheNumbers { hits, misses, .. } = caches.numbers();
    assert_eq!((hits, misses), (5, 0));
}

#[test]
fn a_call_asks_for_so_many_keys_before_it_goes_on() {
    let caches = &caches();
    let (mut writes, mut at_once) = (CacheWrites::default(), AtOnce::default());
    let mut ask = |request: &KvRequest<'_>, at_once: &mut AtOnce| {
        let what = (&resource("pages"), DataAccess::Write);
        caches.answer(&mut writes, what, &request.encode(0)[size_of::<u32>()..], at_once)
    };
    let half = KvRequest::Get { keys: vec![b"a"; KEYS_AT_ONCE_MAX / 2] };
    ask(&half, &mut at_once).unwrap();
    ask(&half, &mut at_once).unwrap();
    assert_eq!(at_once.keys(), KEYS_AT_ONCE_MAX);
    let one = KvRequest::Get { keys: vec![b"a"] };
    assert_eq!(ask(&one, &mut at_once), Err(MUCH_AT_ONCE));
    // To change something is another matter, and so is what is asked when the call has gone on.
    ask(&KvRequest::Delete { key: b"a" }, &mut at_once).unwrap();
    ask(&one, &mut AtOnce::default()).unwrap();
}

/// A call takes over what those did that it made, in the place of its own, and no more than one call may change.
#[test]
fn what_a_made_call_changes_counts_for_the_one_that_made_it() {
    let caches = &caches();
    let (mut root, mut made) = (Call::new(caches), Call::new(caches));
    root.put("pages", b"a", b"of the root", KvExpiry::Never).unwrap();
    made.put("pages", b"a", b"made", KvExpiry::Never).unwrap();
    made.put("pages", b"b", b"made", KvExpiry::Never).unwrap();
    let bytes = made.writes.bytes();
    assert!(root.writes.absorb(made.writes));
    assert_eq!((root.writes.count, root.writes.bytes()), (2, bytes));
    let mut many = Call::new(caches);
    for number in 0..WRITES_MAX - 1 {
        many.put("pages", number.to_string().as_bytes(), b"", KvExpiry::Never).unwrap();
    }
    assert!(!root.writes.absorb(many.writes), "one too many");
    assert_eq!((root.writes.count, root.writes.bytes()), (2, bytes), "nothing of it is taken over");
    root.succeed();
    assert_eq!(get(caches, "pages", b"a").as_deref(), Some(&b"made"[..]));
    assert_eq!(
        (get(caches, "pages", b"b").as_deref(), get(caches, "pages", b"0")),
        (Some(&b"made"[..]), None)
    );
}
