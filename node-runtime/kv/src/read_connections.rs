//! Connections that read for calls: the one that was used last is used next, and nothing is asked of it in between.
//!
//! A pool that asks each connection after its use whether it is well makes two round trips of a read, and one that uses them in turn
//! wakes another process of the database for each. Must never use a connection again that was left in the middle of something.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::query::QueryAs;
use sqlx::{ConnectOptions as _, FromRow, PgConnection, Postgres};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long a connection is used, so that no process of the database grows for ever.
const AGE_MAX: Duration = Duration::from_secs(30 * 60);
/// How long one rests before it is closed.
const REST_MAX: Duration = Duration::from_secs(10 * 60);

/// As many connections as may be.
#[derive(Debug)]
pub(crate) struct ReadConnections {
    options: PgConnectOptions,
    places: Semaphore,
    wait_max: Duration,
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

impl ReadConnections {
    /// So many connections, none of them open yet. A read waits so long for one. In the runtime that watches them.
    pub(crate) fn new(options: PgConnectOptions, connections: u32, wait_max: Duration) -> Self {
        let (places, resting) = (Semaphore::new(connections as usize), Mutex::default());
        Self { options, places, wait_max, resting, runtime: Handle::current() }
    }

    /// Asks on a connection that nobody uses. It is closed where that fails, or is given up in the middle.
    pub(crate) async fn fetch_all<R>(
        &self,
        asked: QueryAs<'_, Postgres, R, PgArguments>,
    ) -> Result<Vec<R>, sqlx::Error>
    where
        R: for<'row> FromRow<'row, PgRow> + Send + Unpin,
    {
        let taken = timeout(self.wait_max, async {
            let place = self.places.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
            let rested = self.resting().pop();
            let open = match rested {
                Some(open) => open,
                None => self.open().await?,
            };
            Ok::<_, sqlx::Error>((place, open))
        });
        let (_place, mut open) = taken.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
        let rows = asked.fetch_all(&mut open.connection).await?;
        self.rest(open, Instant::now());
        Ok(rows)
    }

    async fn open(&self) -> Result<Open, sqlx::Error> {
        let options = self.options.clone();
        let connecting = self.runtime.spawn(async move { options.connect().await });
        let connection = connecting.await.map_err(|_| sqlx::Error::WorkerCrashed)??;
        let now = Instant::now();
        Ok(Open { connection, since: now, used: now })
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

#[cfg(test)]
mod tests;
