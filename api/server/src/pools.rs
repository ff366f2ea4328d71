//! A request's turn: its body arrives under time limits, then it takes a permit of its pool, then it is worked on.
//!
//! Who sends slowly holds none of the permits that others wait for, and each kind of caller has permits of its own, of
//! which one tenant or one node gets a part. A
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
use tokio::time::{Instant, timeout, timeout_at};

use crate::connections::{Busy, Connection};
use crate::limits::{self, Deadlines};
use crate::refusal::Refusal;
use crate::shares::{Holder, Share, Shares, Taken};

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

/// The permits, the bytes that arriving bodies may hold, and how long a request may take.
#[derive(Debug)]
pub(crate) struct Pools {
    deadlines: Deadlines,
    anonymous: Shares<Holder>,
    provider: Shares<Holder>,
    health: Shares<Holder>,
    known: Shares<Holder>,
    uploads: Shares<Holder>,
    joins: Shares<Holder>,
    nodes: Shares<Holder>,
    anonymous_bytes: Shares<Holder>,
    join_bytes: Shares<Holder>,
    known_bytes: Shares<Holder>,
    node_bytes: Shares<Holder>,
}

/// Marks an answer to somebody who showed a token, a session or a node's certificate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToKnownCaller;

impl Pools {
    /// Nothing is taken yet. One tenant may send `tenant_uploads` uploads at once.
    pub(crate) fn new(tenant_uploads: usize, deadlines: Deadlines) -> Self {
        // A proxy is one peer: these are held only while a whole request is worked on, and are nobody's share.
        let undivided = |permits| Shares::new(permits, permits);
        Self {
            deadlines,
            anonymous: undivided(limits::ANONYMOUS_REQUESTS_MAX),
            provider: undivided(limits::PROVIDER_REQUESTS_MAX),
            health: undivided(limits::HEALTH_REQUESTS_MAX),
            known: Shares::new(limits::REQUESTS_MAX, limits::TENANT_REQUESTS_MAX),
            uploads: Shares::new(limits::UPLOADS_MAX, tenant_uploads),
            joins: Shares::new(limits::JOINS_MAX, limits::PEER_JOINS_MAX),
            nodes: Shares::new(limits::NODE_REQUESTS_MAX, limits::ONE_NODES_REQUESTS_MAX),
            anonymous_bytes: Shares::new(limits::ANONYMOUS_BODIES_BYTES_MAX, limits::PEER_BODIES_BYTES_MAX),
            join_bytes: Shares::new(limits::JOIN_BODIES_BYTES_MAX, limits::PEER_JOIN_BODIES_BYTES_MAX),
            known_bytes: Shares::new(limits::BODIES_BYTES_MAX, limits::TENANT_BODIES_BYTES_MAX),
            node_bytes: Shares::new(limits::NODE_BODIES_BYTES_MAX, limits::ONE_NODES_BODIES_BYTES_MAX),
        }
    }

    fn take(&self, pool: Pool, holder: &Holder) -> Result<Share<Holder>, Refusal> {
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
        permits.take(holder, 1).map_err(|taken| match (taken, pool) {
            (Taken::All, _) => Refusal::busy(detail),
            (Taken::Share, Pool::Upload) => {
                Refusal::share("As many uploads of the tenant are being received as may be.")
            }
            (Taken::Share, _) => Refusal::busy(match holder {
                Holder::Peer(_) => "The server works on as many requests from this address as it may.",
                Holder::Tenant(_) => "The server works on as many requests of the tenant as it may.",
                Holder::Node(_) => "The server works on as many requests of the node as it may.",
            }),
        })
    }

    fn bytes_of(&self, pool: Pool) -> &Shares<Holder> {
        match pool {
            // The routes of two of them take no body.
            Pool::Anonymous | Pool::Provider | Pool::Health => &self.anonymous_bytes,
            Pool::Join => &self.join_bytes,
            Pool::Known | Pool::Upload => &self.known_bytes,
            Pool::Node => &self.node_bytes,
        }
    }

    /// Works on a request when it is its turn. Its body, an upload apart, is whole and at most `bytes_max` by then.
    pub(crate) async fn work(
        &self,
        pool: Pool,
        holder: Holder,
        bytes_max: usize,
        request: Request,
        next: Next,
    ) -> Response {
        let mut response = match self.turn(pool, holder, bytes_max, request).await {
            Ok(turn) => turn.run(pool.work_time(&self.deadlines), next).await,
            Err(refusal) => refusal.into_response(),
        };
        if pool.is_of_known_callers() {
            response.extensions_mut().insert(ToKnownCaller);
        }
        response
    }

    async fn turn(
        &self,
        pool: Pool,
        holder: Holder,
        bytes_max: usize,
        request: Request,
    ) -> Result<Turn, Refusal> {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let (request, bytes) = if pool == Pool::Upload {
            (request, None)
        } else {
            let (parts, body) = request.into_parts();
            let until = Instant::now() + pool.body_time(&self.deadlines);
            let held = self.bytes_of(pool).take(&holder, 0).map_err(no_room)?;
            let arriving = arrive(body, bytes_max, held, self.deadlines.body_pause);
            let arrived =
                timeout_at(until, arriving).await.map_err(|_| Refusal::slow("The body came too slowly."))?;
            let (body, held) = arrived?;
            (Request::from_parts(parts, Body::from(body)), Some(held))
        };
        let permit = self.take(pool, &holder)?;
        Ok(Turn { request, pool, busy: connection.map(|it| it.busy()), _permit: permit, _bytes: bytes })
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

/// A request whose turn it is.
struct Turn {
    request: Request,
    pool: Pool,
    busy: Option<Busy>,
    _permit: Share<Holder>,
    _bytes: Option<Share<Holder>>,
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

fn no_room(taken: Taken) -> Refusal {
    Refusal::busy(match taken {
        Taken::Share => "Bodies of this caller hold as many bytes as they may.",
        Taken::All => "Bodies hold as many bytes as they may.",
    })
}

/// A whole body; `held` has its bytes.
async fn arrive(
    body: Body,
    bytes_max: usize,
    mut held: Share<Holder>,
    pause_max: Duration,
) -> Result<(Bytes, Share<Holder>), Refusal> {
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
    loop {
        let piece = timeout(pause_max, pieces.next()).await;
        let piece = match piece.map_err(|_| Refusal::slow("The body paused for too long."))? {
            None => return Ok((whole.freeze(), held)),
            Some(piece) => piece.map_err(|error| Refusal::invalid("The body broke off.").because(error))?,
        };
        if whole.len() + piece.len() > bytes_max {
            return Err(too_large());
        }
        held.grow(piece.len()).map_err(no_room)?;
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
