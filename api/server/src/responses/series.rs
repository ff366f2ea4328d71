//! Charts as numbers: what the catalog has by step, as a list with each step in its place.
//!
//! The console draws these very objects, so a chart, the table under it and an answer of the API say the same.

mod quantile;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_catalog::{
    BUILD_EDGES_MS, BuildStep, Catalog, NodeStep, Range, SERIES_STEPS_MAX, Step, TenantStep,
};
use mfaas_delivery::RUN_EDGES_NS;
use mfaas_ident::{FunctionName, TenantName, VersionNumber};
use mfaas_wire::{
    BuildPointView, BuildSeriesView, FunctionPointView, FunctionSeriesView, NodePointView, NodeSeriesView,
    OneNodeSeriesView, OneTenantSeriesView, SeriesSteps, TenantPointView, TenantSeriesView,
    VersionSeriesView,
};
use serde::Deserialize;

use super::usage::moment;
use crate::refusal::Refusal;

use quantile::quantile;

/// What is asked for when nobody says since when.
const SINCE_DEFAULT: TimeDelta = TimeDelta::hours(1);

/// Which steps are wanted. `tenant` is read by [`crate::caller::Sight`].
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SeriesParameters {
    /// A moment (RFC 3339) or how long ago: `90m`, `24h`, `7d`.
    pub since: Option<String>,
    /// The same.
    pub until: Option<String>,
    /// One version of the function.
    pub version: Option<VersionNumber>,
}

/// The steps of an answer, with what was heard in them.
struct Steps {
    range: Range,
    now: DateTime<Utc>,
    /// Those in which any node was heard.
    heard: BTreeSet<DateTime<Utc>>,
}

impl Steps {
    fn asked(parameters: &SeriesParameters) -> Result<Self, Refusal> {
        let now = Utc::now();
        let moment_of = |text: &Option<String>| text.as_deref().map(|text| moment(text, now)).transpose();
        let since = moment_of(&parameters.since)?.unwrap_or(now - SINCE_DEFAULT);
        let until = moment_of(&parameters.until)?.unwrap_or(now);
        let range = Range::of(since, until.min(now), now).ok_or_else(|| {
            let days = u64::from(SERIES_STEPS_MAX) * u64::from(Step::SixHours.seconds()) / 86_400;
            Refusal::invalid(format!(
                "`since` has to lie before `until`, and within the last {days} days, for which charts are kept; \
                 `GET /v1/usage` goes further back."
            ))
        })?;
        Ok(Self { range, now, heard: BTreeSet::new() })
    }

    async fn hear(mut self, catalog: &Catalog) -> Result<Self, Refusal> {
        self.heard = catalog.steps_heard(&self.range).await?.into_iter().collect();
        Ok(self)
    }

    fn view(&self) -> SeriesSteps {
        let step_s = self.range.step().seconds();
        SeriesSteps { since: self.range.since(), until: self.range.until(), step_s }
    }

    /// How much of the step is over; of the one that runs, at least a second.
    fn over_s(&self, at: DateTime<Utc>) -> u32 {
        let over = (self.now - at).num_seconds().clamp(1, i64::from(self.range.step().seconds()));
        u32::try_from(over).unwrap_or(1)
    }

    /// What was told, or nothing where nodes were heard that told nothing; `None` where nobody knows.
    fn known<T: Copy>(&self, at: DateTime<Utc>, told: Option<T>, nothing: T) -> Option<T> {
        told.or_else(|| self.heard.contains(&at).then_some(nothing))
    }

    /// One number a step.
    fn each<T: Copy>(&self, told: &BTreeMap<DateTime<Utc>, T>, nothing: T) -> Vec<Option<T>> {
        self.range.moments().map(|at| self.known(at, told.get(&at).copied(), nothing)).collect()
    }
}

/// A function over time, or one of its versions.
pub(crate) async fn function_series(
    catalog: &Catalog,
    tenant: &TenantName,
    function: &FunctionName,
    parameters: &SeriesParameters,
) -> Result<FunctionSeriesView, Refusal> {
    let steps = Steps::asked(parameters)?;
    catalog.function(tenant, function).await?;
    let steps = steps.hear(catalog).await?;
    let version = parameters.version;
    let series = catalog.call_series(tenant, function, version, &steps.range).await?;
    let point = |at| {
        let told = series.steps.get(&at);
        let runs = told.map(|step| step.runs.clone()).unwrap_or_default();
        FunctionPointView {
            at,
            over_s: steps.over_s(at),
            calls: steps.known(at, told.map(|step| step.calls), 0),
            cpu_ns: steps.known(at, told.map(|step| step.cpu_ns), 0),
            memory_bytes_max: told.map(|step| step.memory_bytes_max),
            run_ns_p50: quantile(&runs, &RUN_EDGES_NS, 50),
            run_ns_p99: quantile(&runs, &RUN_EDGES_NS, 99),
            runs,
        }
    };
    let versions = series.versions.iter();
    Ok(FunctionSeriesView {
        tenant: tenant.clone(),
        function: function.clone(),
        version,
        steps: steps.view(),
        run_edges_ns: RUN_EDGES_NS.to_vec(),
        points: steps.range.moments().map(point).collect(),
        versions: versions
            .map(|(version, told)| VersionSeriesView { version: *version, calls: steps.each(told, 0) })
            .collect(),
    })
}

/// What one tenant uses over time, or all.
pub(crate) async fn tenant_series(
    catalog: &Catalog,
    tenant: Option<&TenantName>,
    parameters: &SeriesParameters,
) -> Result<TenantSeriesView, Refusal> {
    let steps = Steps::asked(parameters)?.hear(catalog).await?;
    let series = catalog.tenant_series(tenant, &steps.range).await?;
    let point = |at| {
        let told = series.steps.get(&at);
        TenantPointView {
            at,
            over_s: steps.over_s(at),
            calls: steps.known(at, told.map(|step| step.calls), 0),
            cpu_ns: steps.known(at, told.map(|step| step.cpu_ns), 0),
            memory_bytes_max: told.map(|step| step.memory_bytes_max),
            calls_left_out: told.map_or(0, |step| step.calls_left_out),
        }
    };
    let of = |told: &BTreeMap<_, TenantStep>, of: fn(&TenantStep) -> u64| {
        told.iter().map(|(at, step)| (*at, of(step))).collect::<BTreeMap<_, _>>()
    };
    let one = |(tenant, told): (&TenantName, &BTreeMap<_, TenantStep>)| OneTenantSeriesView {
        tenant: tenant.clone(),
        cpu_ns: steps.each(&of(told, |step| step.cpu_ns), 0),
        memory_bytes_max: {
            let memory = of(told, |step| step.memory_bytes_max);
            steps.range.moments().map(|at| memory.get(&at).copied()).collect()
        },
    };
    Ok(TenantSeriesView {
        steps: steps.view(),
        points: steps.range.moments().map(point).collect(),
        tenants: series.tenants.iter().map(one).collect(),
    })
}

/// Builds over time. The database counts them itself: a step without any is a step without any.
pub(crate) async fn build_series(
    catalog: &Catalog,
    parameters: &SeriesParameters,
) -> Result<BuildSeriesView, Refusal> {
    let steps = Steps::asked(parameters)?;
    let series = catalog.build_series(&steps.range).await?;
    let point = |at| {
        let BuildStep { builds, queue_counts, build_counts } = series.get(&at).cloned().unwrap_or_default();
        BuildPointView {
            at,
            over_s: steps.over_s(at),
            builds,
            queue_ms_p50: quantile(&queue_counts, &BUILD_EDGES_MS, 50),
            queue_ms_p99: quantile(&queue_counts, &BUILD_EDGES_MS, 99),
            build_ms_p50: quantile(&build_counts, &BUILD_EDGES_MS, 50),
            build_ms_p99: quantile(&build_counts, &BUILD_EDGES_MS, 99),
            queue_counts,
            build_counts,
        }
    };
    let (view, points) = (steps.view(), steps.range.moments().map(point).collect());
    Ok(BuildSeriesView { steps: view, edges_ms: BUILD_EDGES_MS.to_vec(), points })
}

/// How busy nodes are over time.
pub(crate) async fn node_series(
    catalog: &Catalog,
    parameters: &SeriesParameters,
) -> Result<NodeSeriesView, Refusal> {
    let steps = Steps::asked(parameters)?;
    let (series, truncated) = catalog.node_series(&steps.range).await?;
    let nodes = series.into_iter().map(|(node, told)| OneNodeSeriesView {
        node,
        points: steps.range.moments().map(|at| told.get(&at).map(node_point)).collect(),
    });
    let (view, at) = (steps.view(), steps.range.moments().collect());
    Ok(NodeSeriesView { steps: view, at, nodes: nodes.collect(), truncated })
}

fn node_point(step: &NodeStep) -> NodePointView {
    let had_ns = step.interval_ms as f64 * 1e6 * f64::from(step.cores);
    NodePointView {
        load: if had_ns > 0.0 { step.cpu_ns as f64 / had_ns } else { 0.0 },
        cores: step.cores,
        running_max: step.running_max,
        waiting_max: step.waiting_max,
        processes_max: step.processes_max,
        pools_max: step.pools_max,
        pools_busy_max: step.pools_busy_max,
        resident_max: step.resident_max,
        resident_bytes_max: step.resident_bytes_max,
    }
}
