#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\ncluster_enabled:0\r\n\
                    maxmemory_policy:noeviction\r\naof_enabled:1\r\n";

#[test]
fn a_server_that_may_lose_data_or_takes_none_is_refused() {
    Facts::read(GOOD).check().unwrap();
    for (is, instead, says) in [
        ("redis_version:7.0.15", "redis_version:6.2.7", "6.2.7"),
        ("redis_version:7.0.15", "", "Redis 7"),
        ("role:master", "role:slave", "primary"),
        ("role:master", "", "primary"),
        ("cluster_enabled:0", "cluster_enabled:1", "cluster"),
        ("maxmemory_policy:noeviction", "maxmemory_policy:allkeys-lru", "noeviction"),
        ("maxmemory_policy:noeviction", "", "noeviction"),
    ] {
        let info = GOOD.replace(is, instead);
        let wrong = Facts::read(&info).check().unwrap_err();
        assert!(wrong.contains(says), "{wrong}");
    }
}

#[test]
fn it_is_known_whether_it_keeps_a_log() {
    assert!(!Facts::read(GOOD).keeps_no_log());
    assert!(Facts::read(&GOOD.replace("aof_enabled:1", "aof_enabled:0")).keeps_no_log());
}
