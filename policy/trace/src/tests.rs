#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn each_signal_is_sent_where_it_has_a_collector_and_only_there() {
    let all = (ENDPOINT, "http://collector:4318");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4318/v1/traces");
    let logs = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://collector:4318/v1/logs");
    let cases = [
        (vec![], [false, false]),
        (vec![(ENDPOINT, "")], [false, false]),
        (vec![all], [true, true]),
        (vec![traces], [true, false]),
        (vec![logs], [false, true]),
        (vec![all, ("OTEL_SDK_DISABLED", "True")], [false, false]),
        (vec![all, ("OTEL_SDK_DISABLED", "false")], [true, true]),
    ];
    for (variables, expected) in cases {
        let variable = |asked: &str| {
            variables.iter().find(|(name, _)| *name == asked).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(have_collectors(variable), expected, "{variables:?}");
    }
}

#[test]
fn a_place_below_another_is_in_its_trace_and_kept_if_that_is() {
    for is_sampled in [true, false] {
        let above = TraceParent::new([1; 16], [2; 8], is_sampled).unwrap();
        let place = below(&above);
        assert_eq!((place.trace(), place.is_sampled()), (above.trace(), is_sampled));
        assert_ne!(place.span(), above.span());
    }
    assert_ne!(new_trace().trace(), new_trace().trace());
    assert!(new_trace().is_sampled());
}
