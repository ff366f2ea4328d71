//! A request's turn: its body arrives under time limits, then it takes a permit of its pool, then it is worked on.
//!
//! Who sends slowly holds none of the permits that others wait for, and each kind of caller has permits of its own. A
//! body is counted as its bytes arrive, so announcing many holds nothing. An upload is not gathered here: its handler
//! streams it, and it holds one of the few permits of uploads for as long as that takes. Must never wait for a permit:
//! what finds none is told to come back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use hyper::body::{Frame, SizeHint};
use mfaas_rules::codes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::app::App;
use crate::connections::{Busy, Connection};
use crate::limits::{self, Deadlines};
use crate::refusal::Refusal;

/// Which permits a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pool {
    Anonymous,
    Provider,
    Health,
    Known,
    Upload,
    Join,
    Node,
}

/// The permits, and the bytes that arriving bodies may hold.
#[derive(Debug)]
pub struct Pools {
    anonymous: Arc<Semaphore>,
    provider: Arc<Semaphore>,
    health: Arc<Semaphore>,
    known: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    joins: Arc<Semaphore>,
    nodes: Arc<Semaphore>,
    lookups: Semaphore,
    anonymous_bytes: Arc<Semaphore>,
    known_bytes: Arc<Semaphore>,
    node_bytes: Arc<Semaphore>,
}

/// Marks an answer to somebody who showed a token, a session or a node's certificate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToKnownCaller;

impl Default for Pools {
    fn default() -> Self {
        let of = |permits| Arc::new(Semaphore::new(permits));
        Self {
            anonymous: of(limits::ANONYMOUS_REQUESTS_MAX),
            provider: of(limits::PROVIDER_REQUESTS_MAX),
            health: of(limits::HEALTH_REQUESTS_MAX),
            known: of(limits::REQUESTS_MAX),
            uploads: of(limits::UPLOADS_MAX),
            joins: of(limits::JOINS_MAX),
            nodes: of(limits::NODE_REQUESTS_MAX),
            lookups: Semaphore::new(limits::LOOKUPS_MAX),
            anonymous_bytes: of(limits::ANONYMOUS_BODIES_BYTES_MAX),
            known_bytes: of(limits::BODIES_BYTES_MAX),
            node_bytes: of(limits::NODE_BODIES_BYTES_MAX),
        }
    }
}

impl Pools {
    /// Looks up whose token or certificate it is, when few enough others do. Anybody may ask for it, so it is what
    /// keeps strangers from the database.
    pub(crate) async fn look_up<T>(
        &self,
        looking: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let waiting = timeout(limits::LOOKUP_WAIT_MAX, self.lookups.acquire()).await;
        // Either too many ask, or the database is so slow that a few are too many.
        let Ok(Ok(_permit)) = waiting else {
            let cause = format!("as many lookups as may be ({}) took too long", limits::LOOKUPS_MAX);
            return Err(Refusal::unavailable("The server cannot look up who calls at the moment.", cause));
        };
        looking.await
    }

    fn take(&self, pool: Pool) -> Result<OwnedSemaphorePermit, Refusal> {
        let (permits, detail) = match pool {
            Pool::Anonymous => {
                (&self.anonymous, "The server works on as many requests without a token as it may.")
            }
            Pool::Provider => (&self.provider, "Too many people sign in at once."),
            Pool::Health => (&self.health, "Readiness and numbers are asked for too often."),
            Pool::Known => (&self.known, "The server works on as many requests as it may."),
            Pool::Upload => (&self.uploads, "The server receives as many uploads as it may."),
            Pool::Join => (&self.joins, "Too many nodes join at once."),
            Pool::Node => (&self.nodes, "Too many nodes ask at once."),
        };
        Arc::clone(permits).try_acquire_owned().map_err(|_| Refusal::busy(detail))
    }

    fn bytes_of(&self, pool: Pool) -> &Arc<Semaphore> {
        match pool {
            Pool::Anonymous | Pool::Provider | Pool::Health | Pool::Join => &self.anonymous_bytes,
            Pool::Known | Pool::Upload => &self.known_bytes,
            Pool::Node => &self.node_bytes,
        }
    }
}

impl Pool {
    /// Whether its callers have shown who they are.
    const fn is_of_known_callers(self) -> bool {
        match self {
            Self::Known | Self::Upload | Self::Node => true,
            Self::Anonymous | Self::Provider | Self::Health | Self::Join => false,
        }
    }

    const fn body_time(self, deadlines: &Deadlines) -> Duration {
        if self.is_of_known_callers() { deadlines.body } else { deadlines.anonymous_body }
    }

    /// For the handler, which receives an upload by itself.
    fn work_time(self, deadlines: &Deadlines) -> Duration {
        match self {
            Self::Upload => deadlines.upload + deadlines.work,
            Self::Anonymous | Self::Provider | Self::Health | Self::Known | Self::Join | Self::Node => {
                deadlines.work
            }
        }
    }
}

/// Works on a request when it is its turn. Its body, an upload apart, is whole and at most `bytes_max` by then.
pub(crate) async fn work(app: &App, pool: Pool, bytes_max: usize, request: Request, next: Next) -> Response {
    let mut response = match turn(app, pool, bytes_max, request).await {
        Ok(turn) => turn.run(pool.work_time(&app.config.deadlines), next).await,
        Err(refusal) => refusal.into_response(),
    };
    if pool.is_of_known_callers() {
        response.extensions_mut().insert(ToKnownCaller);
    }
    response
}

/// A request whose turn it is.
struct Turn {
    request: Request,
    pool: Pool,
    busy: Option<Busy>,
    _permit: OwnedSemaphorePermit,
    _bytes: Option<OwnedSemaphorePermit>,
}

async fn turn(app: &App, pool: Pool, bytes_max: usize, request: Request) -> Result<Turn, Refusal> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let (request, bytes) = if pool == Pool::Upload {
        (request, None)
    } else {
        let (parts, body) = request.into_parts();
        let deadlines = &app.config.deadlines;
        let until = Instant::now() + pool.body_time(deadlines);
        let arriving = arrive(body, bytes_max, app.pools.bytes_of(pool), deadlines.body_pause);
        let arrived =
            timeout_at(until, arriving).await.map_err(|_| Refusal::slow("The body came too slowly."))?;
        let (body, held) = arrived?;
        (Request::from_parts(parts, Body::from(body)), held)
    };
    let permit = app.pools.take(pool)?;
    Ok(Turn { request, pool, busy: connection.map(|it| it.busy()), _permit: permit, _bytes: bytes })
}

impl Turn {
    async fn run(self, time_max: Duration, next: Next) -> Response {
        let Ok(response) = timeout(time_max, next.run(self.request)).await else {
            let cause = format!("no answer within {} s", time_max.as_secs());
            return Refusal::unavailable("The server did not get done in time.", cause).into_response();
        };
        // What anybody may ask for is not waited for: they could keep every connection by taking no answer.
        match self.busy.filter(|_| self.pool.is_of_known_callers()) {
            Some(busy) => response.map(|body| Body::new(Leaving { body, _busy: busy })),
            None => response,
        }
    }
}

/// A whole body and the bytes that are held for it.
async fn arrive(
    body: Body,
    bytes_max: usize,
    budget: &Arc<Semaphore>,
    pause_max: Duration,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
    let too_large = || {
        Refusal::new(
            codes::MF0907,
            format!("The body is larger than {bytes_max} bytes, which this route takes."),
        )
    };
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    let (mut pieces, mut whole) = (body.into_data_stream(), BytesMut::new());
    let mut held: Option<OwnedSemaphorePermit> = None;
    loop {
        let piece = timeout(pause_max, pieces.next()).await;
        let piece = match piece.map_err(|_| Refusal::slow("The body paused for too long."))? {
            None => return Ok((whole.freeze(), held)),
            Some(piece) => piece.map_err(|error| Refusal::invalid("The body broke off.").because(error))?,
        };
        if whole.len() + piece.len() > bytes_max {
            return Err(too_large());
        }
        let more = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        let permit = Arc::clone(budget).try_acquire_many_owned(more);
        let permit = permit.map_err(|_| Refusal::busy("Bodies hold as many bytes as they may."))?;
        match &mut held {
            Some(held) => held.merge(permit),
            None => held = Some(permit),
        }
        whole.extend_from_slice(&piece);
    }
}

/// An answer on its way to a known caller; its connection is busy until it has left.
struct Leaving {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
