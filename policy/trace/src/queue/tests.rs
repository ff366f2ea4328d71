#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::net::TcpListener;
use std::time::Instant;

use metrics_exporter_prometheus::PrometheusBuilder;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::error::OTelSdkError;

use super::*;
use crate::client::CollectorClient;

#[test]
fn what_finds_no_room_and_what_is_not_taken_is_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let waiting = Waiting::new("spans");
        assert!((0..QUEUE_MAX).all(|_| waiting.enter()));
        assert!(!waiting.enter(), "there is no room for one more");
        waiting.left(3, &Ok(()));
        assert!((0..3).all(|_| waiting.enter()) && !waiting.enter(), "three had left");
        waiting.left(5, &Err(OTelSdkError::InternalFailure("away".to_owned())));
        assert!(waiting.enter(), "what was lost waits no more");
    });
    let shown = handle.render();
    for (reason, count) in [("full", 2), ("failed", 5)] {
        let series =
            format!("mfaas_telemetry_dropped_total{{signal=\"spans\",reason=\"{reason}\"}} {count}\n");
        assert!(shown.contains(&series), "{shown}");
    }
}

#[test]
fn nobody_waits_for_a_collector_that_says_nothing() {
    // Another test of this process may have done it; either is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/traces", silent.local_addr().unwrap());
    let exporter = SpanExporter::builder().with_http().with_http_client(CollectorClient::start().unwrap());
    let queue = SpanQueue::new(exporter.with_endpoint(url).build().unwrap(), &Resource::builder().build());
    let span = SpanData {
        span_context: SpanContext::new(
            1.into(),
            1.into(),
            opentelemetry::TraceFlags::SAMPLED,
            false,
            Default::default(),
        ),
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: "work".into(),
        start_time: std::time::SystemTime::UNIX_EPOCH,
        end_time: std::time::SystemTime::UNIX_EPOCH,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: Default::default(),
        links: Default::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::default(),
    };
    let began = Instant::now();
    for _ in 0..10 * QUEUE_MAX {
        queue.add(span.clone());
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(queue.waiting.count.load(Ordering::Relaxed), QUEUE_MAX);
    queue.finish(Duration::from_millis(300));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
