//! The numbers of `/metrics` that somebody has to count: rows of the database, its connections, times of stages.
//!
//! Labels are words of ours. Must never read more the longer the site runs: each query keeps to what is open or new.

use std::time::Instant;

use mfaas_catalog::{CatalogError, EndedUntil};
use mfaas_wire::{Availability, DeploymentState, NodeState};
use tokio::time::sleep;

use crate::responses::nodes::node_state;
use crate::state::App;
use crate::{metrics as described, parts};

/// Counts what is in the database, unless somebody has just done so: scrapes must not queue for it.
pub(crate) async fn refresh(app: &App) {
    if let Ok(mut counted) = app.counted.try_lock()
        && counted.is_none_or(|at| at.elapsed() >= app.config.counts_life)
    {
        *counted = Some(Instant::now());
        if let Err(error) = count(app).await {
            tracing::warn!(%error, "what the database holds could not be counted");
        }
    }
    app.catalog.show_connections();
    metrics::gauge!("mfaas_event_streams").set(app.streams.taken() as f64);
}

/// Counts what is in the database.
async fn count(app: &App) -> Result<(), CatalogError> {
    let counted = app.catalog.deployment_counts().await?;
    for &state in DeploymentState::ALL {
        // A state without any is not among them.
        let count = counted.iter().find(|row| row.state == state).map_or(0, |row| row.count);
        metrics::gauge!("mfaas_deployments", "state" => state.as_str()).set(count as f64);
    }
    for availability in Availability::ALL {
        let nodes = app.catalog.count_nodes(availability).await?;
        metrics::gauge!("mfaas_nodes", "availability" => availability.as_str()).set(nodes as f64);
    }
    count_node_states(app).await?;
    count_builds(app).await?;
    metrics::gauge!("mfaas_bans").set(app.catalog.count_bans().await? as f64);
    metrics::gauge!("mfaas_counted_seconds").set(chrono::Utc::now().timestamp() as f64);
    Ok(())
}

/// How nodes stand, as `GET /v1/nodes` says it.
async fn count_node_states(app: &App) -> Result<(), CatalogError> {
    let now = chrono::Utc::now();
    let nodes = app.catalog.nodes().await?;
    let states: Vec<_> = nodes.iter().map(|status| node_state(status, now)).collect();
    for state in [NodeState::Ready, NodeState::Behind, NodeState::Silent, NodeState::Joined] {
        let count = states.iter().filter(|is| **is == state).count();
        metrics::gauge!("mfaas_node_states", "state" => state.as_str()).set(count as f64);
    }
    Ok(())
}

async fn count_builds(app: &App) -> Result<(), CatalogError> {
    let builders = app.catalog.builders().await?;
    for (is_well, health) in [(true, "well"), (false, "unwell")] {
        let count = builders.iter().filter(|builder| builder.unwell.is_none() == is_well).count();
        metrics::gauge!("mfaas_builders", "health" => health).set(count as f64);
    }
    metrics::gauge!("mfaas_builders_identities").set(parts::identities(&builders) as f64);
    if let Some(agreement) = app.catalog.builds_agreement().await? {
        metrics::gauge!("mfaas_builds_agreement").set(f64::from(agreement));
    }
    metrics::gauge!("mfaas_builds_postponed").set(app.catalog.count_postponed_builds().await? as f64);
    let queue = app.catalog.build_queue().await?;
    metrics::gauge!("mfaas_builds_queued").set(queue.queued as f64);
    metrics::gauge!("mfaas_builds_running").set(queue.running as f64);
    metrics::gauge!("mfaas_builds_awaiting_agreement").set(queue.awaiting_agreement as f64);
    metrics::gauge!("mfaas_builds_oldest_queued_seconds").set(queue.oldest_queued_seconds as f64);
    Ok(())
}

/// Adds the times of deployments to the histogram as they end, from the start of this server on, for ever.
pub(crate) async fn follow_stages(app: App) {
    let stop = app.stop.clone();
    tokio::select! {
        () = stop.cancelled() => {}
        () = async {
            let mut until = None;
            loop {
                match further_stages(&app, until).await {
                    Ok((seen, true)) => {
                        until = Some(seen);
                        continue;
                    }
                    Ok((seen, false)) => until = Some(seen),
                    Err(error) => tracing::warn!(%error, "the times of stages could not be read"),
                }
                sleep(app.config.stages_look_every).await;
            }
        } => {}
    }
}

/// One look; answers how far it went, and whether there is more.
async fn further_stages(app: &App, from: Option<EndedUntil>) -> Result<(EndedUntil, bool), CatalogError> {
    let Some(from) = from else { return Ok((app.catalog.ended_until_now().await?, false)) };
    let times = app.catalog.stage_times(from, app.config.stages_settle).await?;
    for waited in times.queued {
        described::stage_took("queue", waited);
    }
    for (stage, took) in times.finished {
        described::stage_took(stage.as_str(), took);
    }
    Ok((times.until, times.is_cut))
}
