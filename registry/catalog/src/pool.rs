//! The pool of connections, which counts who found none of them free.
//!
//! Must never change what a statement does: it takes a connection and hands everything on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_stream::try_stream;
use futures::TryStreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Describe, Either, Error, Execute, Executor, PgPool, PgTransaction, Postgres, SqlStr};

/// The pool. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    connections: PgPool,
    waited: Arc<Waited>,
}

/// Since the program began.
#[derive(Debug, Default)]
struct Waited {
    times: AtomicU64,
    nanos: AtomicU64,
}

/// How a program's pool of connections is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolState {
    /// Connections that may be open.
    pub connections_max: u32,
    /// Those that are open and that somebody has.
    pub busy: u32,
    /// Those that are open and that nobody has.
    pub idle: u32,
    /// How often all of them were busy for whoever wanted one.
    pub waits: u64,
    /// How long these waited together.
    pub waited: Duration,
}

/// Counts a wait when it ends, also that of a caller who is gone.
struct Wait<'a> {
    begun: Instant,
    waited: &'a Waited,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        metrics::histogram!("mfaas_database_wait_seconds").record(took.as_secs_f64());
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.waited.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.waited.times.fetch_add(1, Ordering::Relaxed);
    }
}

impl Pool {
    pub(crate) fn new(connections: PgPool) -> Self {
        Self { connections, waited: Arc::default() }
    }

    pub(crate) async fn acquire(&self) -> Result<PoolConnection<Postgres>, Error> {
        let _wait = self.wait();
        self.connections.acquire().await
    }

    pub(crate) async fn begin(&self) -> Result<PgTransaction<'static>, Error> {
        let _wait = self.wait();
        self.connections.begin().await
    }

    pub(crate) async fn close(&self) {
        self.connections.close().await;
    }

    /// For whoever keeps a connection as long as the program runs.
    pub(crate) fn connections(&self) -> &PgPool {
        &self.connections
    }

    pub(crate) fn state(&self) -> PoolState {
        let idle = u32::try_from(self.connections.num_idle()).unwrap_or(u32::MAX);
        PoolState {
            connections_max: self.connections.options().get_max_connections(),
            // The two are read one after the other.
            busy: self.connections.size().saturating_sub(idle),
            idle,
            waits: self.waited.times.load(Ordering::Relaxed),
            waited: Duration::from_nanos(self.waited.nanos.load(Ordering::Relaxed)),
        }
    }

    /// Shows it in the metrics of this program.
    pub(crate) fn show(&self) {
        metrics::describe_gauge!(
            "mfaas_database_connections",
            "Connections of this program to the database, by state."
        );
        metrics::describe_gauge!(
            "mfaas_database_connections_max",
            "Connections that this program may open to the database."
        );
        metrics::describe_histogram!(
            "mfaas_database_wait_seconds",
            "How long those waited who found all connections busy."
        );
        let state = self.state();
        for (label, connections) in [("busy", state.busy), ("idle", state.idle)] {
            metrics::gauge!("mfaas_database_connections", "state" => label).set(f64::from(connections));
        }
        metrics::gauge!("mfaas_database_connections_max").set(f64::from(state.connections_max));
    }

    /// A wait, if there is nothing to be had at once.
    fn wait(&self) -> Option<Wait<'_>> {
        let state = self.state();
        let is_full = state.idle == 0 && state.busy >= state.connections_max;
        is_full.then(|| Wait { begun: Instant::now(), waited: &self.waited })
    }
}

impl<'p> Executor<'p> for &Pool {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        Box::pin(try_stream! {
            let mut connection = pool.acquire().await?;
            let mut rows = connection.fetch_many(query);
            while let Some(row) = rows.try_next().await? {
                yield row;
            }
        })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.fetch_optional(query).await })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.prepare_with(sql, parameters).await })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.describe(sql).await })
    }
}
