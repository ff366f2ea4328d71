//! Performance isolation, told to the server and learned from it: what this machine's controller says goes up, and what the site
//! wants of all controllers comes down.
//!
//! A controller that does not answer is reported as silent. Nothing else of the node waits for it.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use mfaas_delivery::{
    ControllerReport, CpuUsed, ISOLATION_CORES_MAX, ISOLATION_INTERVAL_MS_MAX, IsolationReport,
    IsolationSettings, NODE_PROTOCOL, SettingsRefused, SiteIsolation,
};
use mfaas_ident::sanitise_line;
use mfaas_isolation::CoreSet;
use mfaas_isolation_client::{Change, ClientError, CpuTime, Limit, Request, Response, Status, ask};
use tokio::sync::oneshot;

use crate::upstream::{Upstream, UpstreamError};

/// How often the controller is asked.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long it may take: longer than its client gives it, but for a connection that nobody takes.
const ANSWER_MAX: Duration = Duration::from_secs(6);
/// Bytes of a refusal's sentence and of its code.
const MESSAGE_BYTES_MAX: usize = 400;
const CODE_BYTES_MAX: usize = 16;

/// A question on its way.
type Asked = oneshot::Receiver<Result<Response, ClientError>>;

/// Talks to the controller and to the server.
#[derive(Debug)]
pub(crate) struct Isolation {
    socket: PathBuf,
    upstream: Upstream,
    /// A question that got no answer in time. Before it has one, no other is asked: one thread waits at most.
    unanswered: Option<Asked>,
    /// When CPU time was reported last, and how much it was.
    reported: Option<(Instant, CpuTime)>,
    /// What the controller said no to.
    refused: Option<SettingsRefused>,
}

impl Isolation {
    /// With the controller that listens there.
    pub(crate) fn new(socket: PathBuf, upstream: Upstream) -> Self {
        Self { socket, upstream, unanswered: None, reported: None, refused: None }
    }

    /// Reports and follows for ever.
    pub(crate) async fn run(mut self) {
        let mut failing = false;
        loop {
            match self.step().await {
                Ok(()) => failing = false,
                Err(error) if !std::mem::replace(&mut failing, true) => {
                    tracing::warn!(%error, "isolation cannot be reported; it will be tried again");
                }
                Err(_) => {}
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn step(&mut self) -> Result<(), UpstreamError> {
        let status = match self.ask(Request::Status).await {
            Some(Ok(Response::Status(status))) => Some(*status),
            _ => None,
        };
        let now = Instant::now();
        let controller = status.as_ref().map(|status| self.controller(status, now));
        let report = IsolationReport { protocol: NODE_PROTOCOL, controller, refused: self.refused.clone() };
        let site = self.upstream.isolation(&report).await?;
        let Some(status) = status else { return Ok(()) };
        // What could not be reported is in the next report.
        self.reported = status.cpu.map(|cpu| (now, cpu));
        if let Some(site) = site {
            self.follow(&site, &status).await;
        }
        Ok(())
    }

    fn controller(&self, status: &Status, now: Instant) -> ControllerReport {
        let cores = count(&status.cores.all).clamp(1, ISOLATION_CORES_MAX);
        ControllerReport {
            mode: status.mode,
            off: status.off,
            cores,
            buffer_cores: status.cores.buffer.min(cores),
            idle_cores: status.cores.idle.map(|idle| idle.min(cores)),
            secondary_cores: count(&status.cores.secondary).min(cores),
            used: self.reported.zip(status.cpu).and_then(|((at, before), cpu)| used(now - at, before, cpu)),
            memory_bytes: status.memory_bytes,
            killed: status.killed,
            revision: status.revision,
        }
    }

    /// Hands over what the site wants, once for each of its numbers: a command on the machine holds until the next one. What is
    /// refused is handed over again, since the machine may be told otherwise.
    async fn follow(&mut self, site: &SiteIsolation, status: &Status) {
        if site.revision == 0 || status.revision == Some(site.revision) {
            self.refused = None;
            return;
        }
        let refusal = match self.ask(Request::Set(change(site))).await {
            Some(Ok(_)) => None,
            Some(Err(ClientError::Refused(refused))) => Some(SettingsRefused {
                revision: site.revision,
                code: sanitise_line(&refused.code, CODE_BYTES_MAX),
                message: sanitise_line(&refused.reason, MESSAGE_BYTES_MAX),
            }),
            // It is asked again.
            Some(Err(_)) | None => return,
        };
        match &refusal {
            Some(refused) if self.refused != refusal => {
                let (code, message) = (&refused.code, &refused.message);
                tracing::warn!(
                    revision = site.revision,
                    code,
                    message,
                    "the site's isolation is refused here"
                );
            }
            Some(_) => {}
            None => tracing::info!(revision = site.revision, "the site's isolation is in force here"),
        }
        self.refused = refusal;
    }

    /// The controller's answer; `None` when there is none in time.
    async fn ask(&mut self, request: Request) -> Option<Result<Response, ClientError>> {
        if let Some(before) = &mut self.unanswered {
            if matches!(before.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
                return None;
            }
            self.unanswered = None;
        }
        let (answer, mut answered) = oneshot::channel();
        let socket = self.socket.clone();
        // A thread, since a connection may wait for ever, and the runtime would wait for it when the node ends.
        let asking = move || drop(answer.send(ask(&socket, &request)));
        thread::Builder::new().name("isolation".to_owned()).spawn(asking).ok()?;
        match tokio::time::timeout(ANSWER_MAX, &mut answered).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                self.unanswered = Some(answered);
                None
            }
        }
    }
}

/// What was used in this time; nothing of one that is too long or too short to say anything.
fn used(interval: Duration, before: CpuTime, now: CpuTime) -> Option<CpuUsed> {
    let interval_ms = u64::try_from(interval.as_millis()).ok()?;
    (1..=ISOLATION_INTERVAL_MS_MAX).contains(&interval_ms).then(|| CpuUsed {
        interval_ms,
        // A count that has begun again counts for nothing.
        primary_us: now.primary_us.saturating_sub(before.primary_us),
        secondary_us: now.secondary_us.saturating_sub(before.secondary_us),
    })
}

/// How many cores a list of the kernel has, for example `0-3,8`; what is no list has none.
fn count(list: &str) -> u32 {
    CoreSet::parse(list).map_or(0, |cores| cores.len() as u32)
}

fn change(site: &SiteIsolation) -> Change {
    let IsolationSettings { off, mode, buffer_cores, memory_bytes } = site.settings;
    let memory_bytes = memory_bytes.map(|bytes| if bytes == 0 { Limit::None } else { Limit::At(bytes) });
    Change { mode, buffer_cores, memory_bytes, off, revision: Some(site.revision) }
}

#[cfg(test)]
mod tests;
