//! What builder and acquirer count, for their metrics. Nothing here is recorded unless `MFAAS_METRICS_LISTEN` is set.
//!
//! No label names a tenant or a crate.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mfaas_catalog::Catalog;
use mfaas_ident::BuildVersion;
use mfaas_process_metrics::{ListenError, MetricsListener, WORK_SECONDS};

/// Histograms of what takes long.
const BUCKETS: &[(&str, &[f64])] =
    &[("mfaas_build_seconds", WORK_SECONDS), ("mfaas_dependency_cache_build_seconds", WORK_SECONDS)];

/// The outcome of a build that another builder has meanwhile.
pub(crate) const LOST: &str = "lost";

/// The listener, if there is one. It is there before the database is.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    address: Option<SocketAddr>,
    catalog: Arc<OnceLock<Catalog>>,
}

impl Shown {
    /// Shows metrics at an address, before anything is counted.
    pub(crate) fn start(address: Option<SocketAddr>, program: &'static str) -> Result<Self, ListenError> {
        let Some(address) = address else { return Ok(Self::default()) };
        let listener = MetricsListener::bind(address)?;
        let shown = Self { address: Some(listener.address()), catalog: Arc::default() };
        let catalog = Arc::clone(&shown.catalog);
        listener.start((program, BuildVersion::this().as_str()), BUCKETS, move || {
            if let Some(catalog) = catalog.get() {
                catalog.show_connections();
            }
            String::new()
        })?;
        tracing::info!(address = ?shown.address, "metrics are shown");
        Ok(shown)
    }

    /// From now on with the connections of this one.
    pub(crate) fn with(&self, catalog: &Catalog) {
        // There is one catalog in a program.
        let _ = self.catalog.set(catalog.clone());
    }

    /// What the ready file says of it.
    pub(crate) fn ready(&self) -> Option<(String, serde_json::Value)> {
        self.address.map(|address| ("metrics".to_owned(), address.to_string().into()))
    }
}

/// Says what the builder's names mean, and that nothing happened yet.
pub(crate) fn begin_builder(slots: usize) {
    metrics::describe_counter!("mfaas_builds_total", "Builds of this builder by how they were left.");
    metrics::describe_histogram!(
        "mfaas_build_seconds",
        "From a claim to its end, by how the build was left."
    );
    metrics::describe_gauge!("mfaas_build_leases_held", "Builds that this builder holds.");
    metrics::describe_gauge!("mfaas_build_leases_max", "Builds that this builder holds at most.");
    metrics::describe_counter!(
        "mfaas_build_leases_lost_total",
        "Leases that ran out before their build had ended."
    );
    metrics::describe_gauge!("mfaas_builder_well", "1 while this machine can build.");
    metrics::describe_counter!(
        "mfaas_dependency_cache_lookups_total",
        "Looks for the site's newest dependency cache, by where it was."
    );
    metrics::gauge!("mfaas_build_leases_max").set(slots as f64);
    metrics::gauge!("mfaas_build_leases_held").set(0.0);
    metrics::counter!("mfaas_build_leases_lost_total").absolute(0);
}

/// A lease that is held, while it lives.
#[derive(Debug)]
pub(crate) struct HeldLease;

impl HeldLease {
    pub(crate) fn new() -> Self {
        metrics::gauge!("mfaas_build_leases_held").increment(1.0);
        Self
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        metrics::gauge!("mfaas_build_leases_held").decrement(1.0);
    }
}

/// A build was left, and how: as it ended, `returned` into the queue, `lost` to another builder, or `given_up`.
pub(crate) fn build_left(outcome: &'static str, took: Duration) {
    if outcome == LOST {
        metrics::counter!("mfaas_build_leases_lost_total").increment(1);
    }
    metrics::counter!("mfaas_builds_total", "outcome" => outcome).increment(1);
    metrics::histogram!("mfaas_build_seconds", "outcome" => outcome).record(took.as_secs_f64());
}

/// Whether this machine can build.
pub(crate) fn builder_is_well(is_well: bool) {
    metrics::gauge!("mfaas_builder_well").set(f64::from(u8::from(is_well)));
}

/// The site's newest dependency cache was `open`, `here` on the disk, `fetched` from the blob store, or `missing`.
pub(crate) fn cache_was(place: &'static str) {
    metrics::counter!("mfaas_dependency_cache_lookups_total", "place" => place).increment(1);
}

/// Says what the acquirer's names mean.
pub(crate) fn begin_acquirer() {
    metrics::describe_gauge!("mfaas_acquirer_active", "1 while this acquirer has the site's one place.");
    metrics::describe_gauge!("mfaas_crate_requests", "Requests for crates at the last look, by status.");
    metrics::describe_histogram!(
        "mfaas_dependency_cache_build_seconds",
        "How long a dependency cache took to build and store, by outcome."
    );
    metrics::gauge!("mfaas_acquirer_active").set(0.0);
}

/// Whether this acquirer has the place.
pub(crate) fn acquirer_is_active(is_active: bool) {
    metrics::gauge!("mfaas_acquirer_active").set(f64::from(u8::from(is_active)));
}

/// So many requests have that status.
pub(crate) fn requests(status: &'static str, count: usize) {
    metrics::gauge!("mfaas_crate_requests", "status" => status).set(count as f64);
}

/// A dependency cache was built, or could not be.
pub(crate) fn cache_built(outcome: &'static str, took: Duration) {
    metrics::histogram!("mfaas_dependency_cache_build_seconds", "outcome" => outcome)
        .record(took.as_secs_f64());
}
