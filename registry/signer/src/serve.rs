//! The loop: look, work, wait for a wake-up or a second, until SIGTERM.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chrono::Utc;
use mfaas_blobs::Blobs;
use mfaas_delivery::DeploymentState;
use mfaas_ident::{BuildVersion, DeploymentId, Epoch};
use mfaas_startup::write_ready_file;
use postgres::Client;
use postgres::fallible_iterator::FallibleIterator as _;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::certificates::Issuer;
use crate::config::ServeConfig;
use crate::deploy::{self, Ended, PollOutcome, SigningContext};
use crate::passphrase::Source;
use crate::rotation::OnlineKeys;
use crate::{connection, keys, ledger, meters, serving};

/// How long a wake-up is waited for; a lost notification costs this much.
const POLL: Duration = Duration::from_secs(1);
/// Before a signer that starts asks its database again, and how often its log says that it waits.
const START_PAUSE: Duration = Duration::from_secs(1);
const WARN_EVERY: Duration = Duration::from_secs(30);
/// Before the same is tried again that another transaction has ended.
const CONTENTION_PAUSE: Duration = Duration::from_millis(20);
/// How often serving sets are signed while one deployment follows another.
const SET_INTERVAL: Duration = Duration::from_millis(250);
/// How often what waits for another builder is looked through.
const TAKE_UP_INTERVAL: Duration = Duration::from_secs(60);
/// How much of it is taken up before anything else is done.
const TAKE_UP_AT_ONCE: u32 = 100;
/// How long a deployment is left alone after something of ours went wrong with it.
const DEFER: Duration = Duration::from_secs(5);
/// How long the last spans and log lines may take on their way to a collector.
const TELL_WITHIN: Duration = Duration::from_secs(1);
/// How often something may go wrong with a deployment before it is failed.
const BROKEN_MAX: u32 = 3;

/// A deployment that has to wait.
struct Deferral {
    since: Instant,
    /// How often it went wrong; a blob store that does not answer does not count, nor a failure of the database.
    broken: u32,
}

type Deferrals = HashMap<Uuid, Deferral>;

/// What is remembered from one look at the queue to the next.
#[derive(Default)]
struct Remembered {
    deferred: Deferrals,
    /// Admitted since the last serving set, which they are not in.
    admitted: Vec<Ended>,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn serve(config: ServeConfig, passphrase: &Source) -> anyhow::Result<()> {
    let stop = mfaas_startup::shutdown_flag()?;
    let shown = show_metrics(&config)?;
    let context = open_context(&config, passphrase)?;
    let mut issuer = config.authority.as_ref().map(Issuer::open).transpose()?;
    if issuer.is_none() {
        tracing::info!("MFAAS_CA_DIR is not set: this signer issues no certificates of nodes");
    }
    let Some(mut client) = connect_when_ready(&config, &context, &stop)? else { return Ok(()) };
    if let Some(file) = &config.ready_file {
        write_ready_file(file, shown).context("MFAAS_READY_FILE")?;
    }
    let OnlineKeys { statements, sets } = context.keys.public();
    tracing::info!(statements = %statements.id(), sets = %sets.id(), "the signer serves");
    let mut remembered = Remembered::default();
    let mut taken_up = None;
    while !stop.load(Ordering::Relaxed) {
        let worked = take_up(&mut client, &context, &mut taken_up)
            .and_then(|()| work(&mut client, &context, issuer.as_mut(), &mut remembered, &stop));
        if let Err(error) = worked {
            if ledger::is_contention(&error) {
                tracing::warn!(error = format!("{error:#}"), "another program was in the way; trying again");
                std::thread::sleep(CONTENTION_PAUSE);
                continue;
            }
            tracing::error!(
                error = format!("{error:#}"),
                "the signer cannot work with its database; connecting again"
            );
            std::thread::sleep(POLL);
            match connection::connect(&config.database_url) {
                Ok(fresh) => client = fresh,
                Err(error) => tracing::error!(error = format!("{error:#}"), "the database is not available"),
            }
        }
    }
    tracing::info!("the signer stops");
    mfaas_trace::finish(TELL_WITHIN);
    Ok(())
}

/// Shows metrics if they are asked for; what the ready file says of it.
fn show_metrics(config: &ServeConfig) -> anyhow::Result<Map<String, Value>> {
    let names = (env!("CARGO_PKG_NAME"), BuildVersion::this().as_str());
    let shown = mfaas_process_metrics::show_at(config.metrics_listen, names, meters::describe)?;
    Ok(shown.map(|address| ("metrics".to_owned(), address.to_string().into())).into_iter().collect())
}

/// The connection with which a signer begins; waits for a database that is away or not migrated yet. `None`: it is to stop.
fn connect_when_ready(
    config: &ServeConfig,
    context: &SigningContext,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Client>> {
    let mut warned: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        let connected = connection::connect(&config.database_url).and_then(|mut client| {
            ledger::check_schema(&mut client)?;
            ledger::claims::tell_agreement(&mut client, context.builds_agreement)?;
            Ok(client)
        });
        let error = match connected {
            Ok(client) => return Ok(Some(client)),
            Err(error) if connection::is_worth_waiting_for(&error) => error,
            Err(error) => return Err(error),
        };
        if warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            warned = Some(Instant::now());
            let error = format!("{error:#}");
            tracing::warn!(error, "the signer waits for its database and asks again every second");
        }
        std::thread::sleep(START_PAUSE);
    }
    Ok(None)
}

fn open_context(config: &ServeConfig, passphrase: &Source) -> anyhow::Result<SigningContext> {
    let keys = keys::load(&config.keys_dir, passphrase)?;
    if keys.is_plain() {
        tracing::info!(directory = %config.keys_dir.display(), "the online keys take no passphrase: anyone who reads the files can sign");
    }
    Ok(SigningContext {
        blobs: Blobs::open(&config.blobs_url)?,
        keys: keys.into_keys(),
        default_access: config.default_access,
        sandbox_minimum: config.sandbox_minimum,
        builds_agreement: config.builds_agreement,
        runtime: tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?,
    })
}

/// Takes up what waits for another builder and needs none any more; now and then, since only a start with another number makes
/// something of that kind.
fn take_up(client: &mut Client, context: &SigningContext, last: &mut Option<Instant>) -> anyhow::Result<()> {
    if last.is_some_and(|last| last.elapsed() < TAKE_UP_INTERVAL) {
        return Ok(());
    }
    for _ in 0..TAKE_UP_AT_ONCE {
        let Some(deployment) = deploy::take_up(client, context)? else {
            *last = Some(Instant::now());
            break;
        };
        tracing::info!(%deployment, builders = context.builds_agreement, "enough builders have made the same by now");
    }
    Ok(())
}

/// Everything that is to do now, then one wait.
fn work(
    client: &mut Client,
    context: &SigningContext,
    mut issuer: Option<&mut Issuer>,
    Remembered { deferred, admitted }: &mut Remembered,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut set_at = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        // Somebody waits for these, and each takes no longer than a signature.
        if let Some(issuer) = &mut issuer {
            issuer.answer(client)?;
        }
        let waiting: Vec<Uuid> =
            deferred.iter().filter(|(_, d)| d.since.elapsed() < DEFER).map(|(id, _)| *id).collect();
        let began = Instant::now();
        let outcome = deploy::next(client, context, &waiting)?;
        if let Some(outcome) = outcome.as_str() {
            meters::looked(outcome, began);
        }
        if let PollOutcome::Done(ended @ Ended { state: DeploymentState::Admitted, .. }) = outcome {
            admitted.push(ended);
        }
        // One set for all that were admitted within a moment; a node should not wait for the whole queue.
        if matches!(outcome, PollOutcome::Idle) || set_at.elapsed() >= SET_INTERVAL {
            let began = Instant::now();
            if let Some(epoch) = serving::sign_if_due(client, &context.keys.sets, Utc::now())? {
                meters::signed_set(epoch, began);
                tracing::info!(%epoch, "signed a serving set");
                admitted.drain(..).for_each(|ended| tell_accepted(ended, epoch));
            }
            set_at = Instant::now();
        }
        match outcome {
            PollOutcome::Idle => break,
            PollOutcome::Done(Ended { deployment, state: DeploymentState::Received, .. }) => {
                tracing::warn!(%deployment, "a deployment was built under other rules and is built again");
                deferred.remove(&deployment.0);
            }
            PollOutcome::Asked(deployment) => {
                tracing::info!(%deployment, "another builder has to make the same before this is signed");
                deferred.remove(&deployment.0);
            }
            PollOutcome::Done(Ended { deployment, state, .. }) => {
                tracing::info!(%deployment, %state, "ended a deployment");
                deferred.remove(&deployment.0);
            }
            PollOutcome::Deferred(deployment, cause) => {
                tracing::warn!(%deployment, cause, "a deployment has to wait for its signature");
                defer(deferred, deployment, 0);
            }
            PollOutcome::Broken(deployment, error) => {
                tracing::error!(%deployment, error = format!("{error:#}"), "a deployment cannot be signed");
                if ledger::is_of_the_database(&error) {
                    // The next one would meet the same.
                    defer(deferred, deployment, 0);
                    break;
                }
                if defer(deferred, deployment, 1) >= BROKEN_MAX {
                    deploy::give_up(client, deployment)?;
                    deferred.remove(&deployment.0);
                }
            }
        }
    }
    meters::deferred(deferred.len());
    wait(client)
}

/// Says once that the serving set of this epoch has a deployment.
fn tell_accepted(Ended { deployment, trace_parent, .. }: Ended, epoch: Epoch) {
    let trace = trace_parent.map(|place| place.trace_id());
    tracing::info!(%deployment, %epoch, trace, "a deployment is accepted");
}

/// Leaves a deployment alone for a while; returns how often it went wrong.
fn defer(deferred: &mut Deferrals, deployment: DeploymentId, broken: u32) -> u32 {
    let entry = deferred.entry(deployment.0).or_insert(Deferral { since: Instant::now(), broken: 0 });
    entry.since = Instant::now();
    entry.broken += broken;
    entry.broken
}

/// Returns after a notification, and after [`POLL`] in any case.
fn wait(client: &mut Client) -> anyhow::Result<()> {
    let mut notifications = client.notifications();
    notifications.timeout_iter(POLL).next().context("the connection is lost")?;
    // One look answers all that came meanwhile.
    while notifications.iter().next().context("the connection is lost")?.is_some() {}
    Ok(())
}
