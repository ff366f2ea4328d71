//! The way to a Redis server: one connection that all share, looked at when it is made.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, ServerErrorKind};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::error::{Meaning, StoreError};
use crate::redis::encoding::IDENTITY;
use crate::redis::facts::Facts;

/// How long a caller waits for a connection, and for an answer.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Between two attempts, of all callers.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// What a server says that should not be asked any more: by its name there may be another one by now.
const LEAVE: [&str; 8] =
    ["READONLY", "LOADING", "MASTERDOWN", "MOVED", "CLUSTERDOWN", "NOAUTH", "WRONGPASS", "MFSTRANGER"];

const BEGIN: &str = include_str!("begin.lua");

/// What is done in the server as a whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Lets the changes of a call take effect.
    Commit,
    /// Looks whether what a call saw is still so.
    Check,
    GiveUp,
    Scan,
    Sweep,
}

impl Script {
    const ALL: [Self; 5] = [Self::Commit, Self::Check, Self::GiveUp, Self::Scan, Self::Sweep];

    /// The flags say when the server refuses it as a whole: where it is full, unless it stores next to nothing.
    fn text(self) -> String {
        let (flags, parts): (_, &[&str]) = match self {
            Self::Commit => ("no-cluster", &[include_str!("check.lua"), include_str!("write.lua")]),
            // Not said to write nothing: a replica would run them.
            Self::Check => ("allow-oom,no-cluster", &[include_str!("check.lua"), "return 1"]),
            Self::GiveUp => ("allow-oom,no-cluster", &[include_str!("give_up.lua")]),
            Self::Scan => ("allow-oom,no-cluster", &[include_str!("scan.lua")]),
            Self::Sweep => ("allow-oom,no-cluster", &[include_str!("sweep.lua")]),
        };
        format!("#!lua flags={flags}\n{BEGIN}{}", parts.concat())
    }
}

/// A connection, and by which digests its server knows the scripts.
#[derive(Clone)]
pub(crate) struct Link {
    number: u64,
    pub(crate) connection: MultiplexedConnection,
    digests: Arc<Vec<(Script, String)>>,
}

impl Link {
    /// Runs a script; `arguments` adds what it takes. One that the server has forgotten is told to it again: it has not run.
    pub(crate) async fn run<T: FromRedisValue>(
        &mut self,
        script: Script,
        arguments: &(impl Fn(&mut Cmd) + Sync),
    ) -> Result<T, RedisError> {
        let mut ask = redis::cmd("EVALSHA");
        ask.arg(self.digest(script)).arg(0);
        arguments(&mut ask);
        match ask.query_async(&mut self.connection).await {
            Err(error) if error.kind() == ServerErrorKind::NoScript.into() => {
                load(&mut self.connection, script).await?;
                ask.query_async(&mut self.connection).await
            }
            answer => answer,
        }
    }

    fn digest(&self, script: Script) -> &str {
        self.digests.iter().find(|(of, _)| *of == script).map_or("", |(_, digest)| digest)
    }
}

/// What leads to one server.
pub(crate) struct Connections {
    /// What the file calls it.
    pub(crate) server: String,
    client: Client,
    /// Which server it has to be.
    identity: OnceLock<Uuid>,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// When there was none to be had.
    failed: Option<Instant>,
    /// How many there have been.
    count: u64,
    link: Option<Link>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Connections {
    /// Looks at a server, and gives it an identity if it has none.
    pub(crate) async fn open(server: String, client: Client) -> Result<Self, StoreError> {
        let all = Self { server, client, identity: OnceLock::new(), current: Mutex::default() };
        let mut connection = tokio::time::timeout(CONNECT_MAX, all.connect())
            .await
            .map_err(|_| StoreError::NoConnection)??;
        let (identity,): (String,) = redis::pipe()
            .cmd("SET")
            .arg(IDENTITY)
            .arg(Uuid::new_v4().to_string())
            .arg("NX")
            .ignore()
            .cmd("GET")
            .arg(IDENTITY)
            .query_async(&mut connection)
            .await?;
        let identity = identity.parse().map_err(|_| {
            let wrong = format!("has {identity:?} where its identity should stand: {IDENTITY}");
            StoreError::Unusable(wrong)
        })?;
        // Nobody else has it yet.
        let _ = all.identity.set(identity);
        Ok(all)
    }

    /// Which server it is.
    pub(crate) fn identity(&self) -> Uuid {
        self.identity.get().copied().unwrap_or_default()
    }

    /// The connection that there is, or a new one. An error says that nothing was asked.
    pub(crate) async fn link(&self) -> Result<Link, StoreError> {
        let link = async {
            let mut current = self.current.lock().await;
            if let Some(link) = &current.link {
                return Ok(link.clone());
            }
            if let Some(failed) = current.failed {
                tokio::time::sleep(CONNECT_PAUSE.saturating_sub(failed.elapsed())).await;
            }
            current.failed = Some(Instant::now());
            let mut connection = self.connect().await?;
            let found: Option<String> = redis::cmd("GET").arg(IDENTITY).query_async(&mut connection).await?;
            if found.as_deref() != Some(self.identity().to_string().as_str()) {
                let wrong = "is another one than before, or has lost what it held: its identity differs";
                return Err(StoreError::Unusable(wrong.to_owned()));
            }
            let mut digests = Vec::new();
            for script in Script::ALL {
                digests.push((script, load(&mut connection, script).await?));
            }
            current.failed = None;
            current.count += 1;
            let link = Link { number: current.count, connection, digests: Arc::new(digests) };
            current.link = Some(link.clone());
            Ok(link)
        };
        tokio::time::timeout(CONNECT_MAX, link).await.map_err(|_| StoreError::NoConnection)?
    }

    /// One that has answered like that may not be asked any more.
    pub(crate) async fn judge(&self, link: &Link, error: &RedisError) {
        let leaves = error.code().is_some_and(|code| LEAVE.contains(&code));
        if leaves || Meaning::of_redis(error) == Meaning::Lost {
            self.leave(link).await;
        }
    }

    async fn leave(&self, link: &Link) {
        let mut current = self.current.lock().await;
        if current.link.as_ref().is_some_and(|of| of.number == link.number) {
            current.link = None;
        }
    }

    /// Looks whether the server may still be used. One that may not is left, and looked at by each new connection.
    pub(crate) async fn look_again(&self) -> Result<(), StoreError> {
        let mut link = self.link().await?;
        let answer: Result<String, RedisError> = redis::cmd("INFO").query_async(&mut link.connection).await;
        if let Err(error) = &answer {
            self.judge(&link, error).await;
        }
        let fit = Facts::read(&answer?).check();
        if fit.is_err() {
            self.leave(&link).await;
        }
        fit.map_err(StoreError::Unusable)
    }

    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_response_timeout(Some(ANSWER_MAX));
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
        let facts = Facts::read(&info);
        facts.check().map_err(StoreError::Unusable)?;
        if facts.keeps_no_log() {
            let server = &self.server;
            tracing::warn!(
                server,
                "a Redis server keeps no log on its disk, and loses changes when it ends: appendonly yes"
            );
        }
        Ok(connection)
    }
}

async fn load(connection: &mut MultiplexedConnection, script: Script) -> Result<String, RedisError> {
    redis::cmd("SCRIPT").arg("LOAD").arg(script.text()).query_async(connection).await
}
