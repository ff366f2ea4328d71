#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use mfaas_delivery::{CpuUsed, IsolationSettings, SERVER_PROTOCOL, SiteIsolation};
use mfaas_isolation_client::{Change, CpuTime, Limit, Mode};

use super::{change, count, used};

#[test]
fn cores_are_counted_as_the_kernel_lists_them() {
    for (list, cores) in [("0-3,8", 5), ("7", 1), ("", 0), ("3-1", 0), ("x", 0), ("0-4294967295,1", 0)] {
        assert_eq!(count(list), cores, "{list}");
    }
}

#[test]
fn what_was_used_is_what_came_since_the_last_report() {
    let at = |primary_us, secondary_us| CpuTime { primary_us, secondary_us };
    let told = used(Duration::from_secs(10), at(1_000, 500), at(4_201_000, 10_000_500)).unwrap();
    assert_eq!(told, CpuUsed { interval_ms: 10_000, primary_us: 4_200_000, secondary_us: 10_000_000 });
    assert_eq!(told.in_cores(), (0.42, 1.0));
    let anew = used(Duration::from_secs(10), at(9, 9), at(3, 10)).unwrap();
    assert_eq!((anew.primary_us, anew.secondary_us), (0, 1), "a count that has begun again");
    assert_eq!(used(Duration::from_micros(1), at(0, 0), at(1, 1)), None);
    assert_eq!(used(Duration::from_secs(3_601), at(0, 0), at(1, 1)), None);
}

#[test]
fn no_memory_is_no_limit() {
    let settings = |memory_bytes| IsolationSettings {
        mode: Some(Mode::Blind),
        memory_bytes: Some(memory_bytes),
        ..IsolationSettings::default()
    };
    let told = |memory_bytes| {
        change(&SiteIsolation { protocol: SERVER_PROTOCOL, revision: 7, settings: settings(memory_bytes) })
    };
    let blind = Change { mode: Some(Mode::Blind), revision: Some(7), ..Change::default() };
    assert_eq!(told(0), Change { memory_bytes: Some(Limit::None), ..blind.clone() });
    assert_eq!(told(1 << 30), Change { memory_bytes: Some(Limit::At(1 << 30)), ..blind });
}
