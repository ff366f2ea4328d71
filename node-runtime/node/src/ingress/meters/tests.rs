#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use metrics_exporter_prometheus::PrometheusBuilder;
use mfaas_dispatch::FunctionId;
use mfaas_ident::Access;

use super::*;
use crate::agent::testing::key;

#[test]
fn a_deployer_cannot_make_the_scrape_grow_without_an_end() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let meters = metrics::with_local_recorder(&recorder, || {
        let meters = Meters::default();
        for number in 0..FUNCTIONS_SHOWN_MAX as u32 + 50 {
            let key = key(&format!("f{number}"), 1);
            // Twice: the second time it is found by its number.
            for _ in 0..2 {
                meters.took(&Served::for_test(FunctionId(number), key.clone(), Access::Public), 0.001);
            }
        }
        meters
    });
    let text = recorder.handle().render();
    let counts: Vec<&str> =
        text.lines().filter(|line| line.starts_with("mfaas_request_seconds_count")).collect();
    assert_eq!(counts.len(), FUNCTIONS_SHOWN_MAX + 1, "{text}");
    assert!(counts.contains(&"mfaas_request_seconds_count{function=\"other\"} 100"), "{counts:?}");
    drop(meters);
}
