//! What a site expects of any program in its metrics: the build, the process, that durations are histograms which do
//! not grow between scrapes, and a listener that shows all of it.
//!
//! Must never show anything but the program itself: what the program counts is described where it is counted.

mod listener;

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;

pub use listener::{ListenError, MetricsListener, show_at};

/// How often the process is looked at, and what histograms keep is summed up. Often enough for any scrape; a look counts
/// descriptors, of which each image of a node is one.
const LOOK: Duration = Duration::from_secs(10);

/// Upper edges of the buckets of durations in seconds, unless a program says others: requests, statements, pushes.
const SECONDS: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// Upper edges for work that takes from milliseconds to half an hour: checks, compilations, dependency caches.
pub const WORK_SECONDS: &[f64] = &[0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0];

/// Makes a recorder the one of this process. `buckets` are the upper edges of histograms that need others than most durations.
pub fn install_recorder(buckets: &[(&str, &[f64])]) -> Result<PrometheusHandle, BuildError> {
    let mut builder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)?;
    for (name, edges) in buckets {
        builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), edges)?;
    }
    builder.install_recorder()
}

/// Keeps what is said of the process up to date for ever. The recorder of `prometheus` is the global one.
pub async fn watch(program: &'static str, version: &'static str, prometheus: PrometheusHandle) {
    metrics::describe_gauge!("mfaas_build_info", "Always 1; the labels say which program in which version.");
    metrics::gauge!("mfaas_build_info", "program" => program, "version" => version).set(1.0);
    let process = Collector::default();
    process.describe();
    loop {
        let (process, prometheus) = (process.clone(), prometheus.clone());
        // A panic in there would be a library's; the next look tries again.
        let _ = tokio::task::spawn_blocking(move || {
            process.collect();
            // Every value that was recorded is kept until somebody does this: without a scrape, for ever.
            prometheus.run_upkeep();
        })
        .await;
        tokio::time::sleep(LOOK).await;
    }
}
