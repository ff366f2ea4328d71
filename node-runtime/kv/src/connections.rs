//! Connections to the database: the one that was used last is used next, and nothing is asked of it in between.
//!
//! A pool that asks each connection after its use whether it is well makes two round trips of one, and one that uses them in turn
//! wakes another process of the database for each. Must never use a connection again that was left in the middle of something, and
//! must never wait without bound for a database that says nothing: what is held meanwhile, calls of others need.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgArguments, PgConnectOptions, PgQueryResult, PgRow};
use sqlx::query::{Query, QueryAs};
use sqlx::{ConnectOptions as _, FromRow, PgConnection, Postgres};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::error::Meaning;

/// How long a connection is used, so that no process of the database grows for ever.
const AGE_MAX: Duration = Duration::from_secs(30 * 60);
/// How long one rests before it is closed.
const REST_MAX: Duration = Duration::from_secs(10 * 60);
/// Between attempts to connect to a database that starts.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// How long is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// For a connection.
    pub(crate) connection: Duration,
    /// For all that is asked on it at once: longer than the database itself lets a statement take.
    pub(crate) answer: Duration,
}

/// As many connections as may be.
#[derive(Debug)]
pub(crate) struct Connections {
    options: PgConnectOptions,
    places: Semaphore,
    waits: Waits,
    /// The one that was used last is the last.
    resting: Mutex<Vec<Open>>,
    /// Where their sockets are watched, whoever asks.
    runtime: Handle,
}

/// An open connection.
#[derive(Debug)]
struct Open {
    connection: PgConnection,
    since: Instant,
    used: Instant,
}

/// A connection that nobody else uses. It is closed, but where it has answered well all that it was asked.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    // Closed before its place is free.
    open: Open,
    of: &'a Connections,
    _place: SemaphorePermit<'a>,
}

impl Connections {
    /// So many connections, none of them open yet. In the runtime that watches them.
    pub(crate) fn new(options: PgConnectOptions, connections: u32, waits: Waits) -> Self {
        let (places, resting) = (Semaphore::new(connections as usize), Mutex::default());
        Self { options, places, waits, resting, runtime: Handle::current() }
    }

    /// All rows of an answer.
    pub(crate) async fn fetch_all<R>(
        &self,
        asked: QueryAs<'_, Postgres, R, PgArguments>,
    ) -> Result<Vec<R>, sqlx::Error>
    where
        R: for<'row> FromRow<'row, PgRow> + Send + Unpin,
    {
        let mut taken = self.take().await?;
        let answer = self.within(asked.fetch_all(taken.connection())).await;
        taken.answered(answer)
    }

    /// The row of an answer.
    pub(crate) async fn fetch_one<R>(
        &self,
        asked: QueryAs<'_, Postgres, R, PgArguments>,
    ) -> Result<R, sqlx::Error>
    where
        R: for<'row> FromRow<'row, PgRow> + Send + Unpin,
    {
        let mut taken = self.take().await?;
        let answer = self.within(asked.fetch_one(taken.connection())).await;
        taken.answered(answer)
    }

    /// What changing something came to.
    pub(crate) async fn execute(
        &self,
        asked: Query<'_, Postgres, PgArguments>,
    ) -> Result<PgQueryResult, sqlx::Error> {
        let mut taken = self.take().await?;
        let answer = self.within(asked.execute(taken.connection())).await;
        taken.answered(answer)
    }

    /// A connection, when one is free.
    pub(crate) async fn take(&self) -> Result<Taken<'_>, sqlx::Error> {
        let taken = timeout(self.waits.connection, async {
            let place = self.places.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
            let rested = self.rested(Instant::now());
            let open = match rested {
                Some(open) => open,
                None => self.open().await?,
            };
            Ok(Taken { open, of: self, _place: place })
        });
        taken.await.map_err(|_| sqlx::Error::PoolTimedOut)?
    }

    /// An answer that takes no longer than one may. Where it does, its connection is not [`Taken::answered`] well.
    pub(crate) async fn within<T>(
        &self,
        answer: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        let silent = || io::Error::new(io::ErrorKind::TimedOut, "the database does not answer");
        timeout(self.waits.answer, answer).await.unwrap_or_else(|_| Err(silent().into()))
    }

    async fn open(&self) -> Result<Open, sqlx::Error> {
        // Ends with this: nobody connects for a caller that waits no longer.
        let mut connecting = JoinSet::new();
        connecting.spawn_on(connect(self.options.clone()), &self.runtime);
        let connected = connecting.join_next().await.and_then(Result::ok);
        let connection = connected.ok_or(sqlx::Error::WorkerCrashed)??;
        let now = Instant::now();
        Ok(Open { connection, since: now, used: now })
    }

    /// The connection that was used last.
    fn rested(&self, now: Instant) -> Option<Open> {
        let mut resting = self.resting();
        // All others were used before the last.
        if resting.last().is_some_and(|last| now.duration_since(last.used) >= REST_MAX) {
            resting.clear();
        }
        resting.pop()
    }

    /// The connection has answered all that it was asked, and may be asked again.
    fn rest(&self, mut open: Open, now: Instant) {
        open.used = now;
        let mut resting = self.resting();
        if now.duration_since(open.since) < AGE_MAX {
            resting.push(open);
        }
        // All others were used later than the first.
        if resting.first().is_some_and(|first| now.duration_since(first.used) >= REST_MAX) {
            resting.remove(0);
        }
    }

    fn resting(&self) -> MutexGuard<'_, Vec<Open>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken<'_> {
    /// To ask on it.
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.open.connection
    }

    /// What was asked has come to this. The connection is used again where all of it was answered, or ended by the database itself in
    /// favour of others.
    pub(crate) fn answered<T>(self, answer: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        match answer.as_ref().map_err(Meaning::of_postgres) {
            Ok(_) | Err(Meaning::Conflict | Meaning::Contention) => self.of.rest(self.open, Instant::now()),
            // What has ended this one or cut it off has the others as well, and each would be found out by a call.
            Err(Meaning::Lost) => self.of.resting().clear(),
            Err(Meaning::Failed) => {}
        }
        answer
    }
}

/// Waits for a database that starts, or has no connection left for a moment.
async fn connect(options: PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
    loop {
        match options.connect().await {
            Err(sqlx::Error::Io(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(sqlx::Error::Database(error)) if error.is_transient_in_connect_phase() => {}
            connected => return connected,
        }
        sleep(CONNECT_PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
