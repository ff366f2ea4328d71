//! What a site expects of any program in its metrics: the build, the process, and that histograms do not grow between scrapes.
//!
//! Must never show anything but the program itself: what the program counts is described where it is counted.

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use metrics_process::Collector;

/// How often the process is looked at, and what histograms keep is summed up. Often enough for any scrape; a look counts
/// descriptors, of which each image of a node is one.
const LOOK: Duration = Duration::from_secs(10);

/// Keeps them up to date for ever. The recorder of `prometheus` is the global one.
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
