//! A node with a data broker of its own over a PostgreSQL of its own, and functions of one tenant that reach the same resource.
//!
//! Beside it the clients that a function has no need of: of the same database, of the same Redis server, and of the same directory of
//! objects.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mfaas_ident::{Binding, Bindings, DataAccess, FunctionBinding, ResourceBinding, ResourceKind};
use mfaas_test_postgres::{Cluster, OWNER};
use mfaas_test_redis::RedisServer;
use object_store::ObjectStoreExt as _;
use object_store::local::LocalFileSystem;

use super::BUDGET_US;
use super::home::Deployed;
use super::node::{Started, TENANT, Variable, of_one_worker, on_cores};
use crate::function::{CALL, Constants, OBJECT_BYTES};
use crate::functions::{Form, Kind, request, verified};
use crate::sides::http::Client;
use crate::sides::{Kit, Side, Timing};
use crate::sys::{pin, pin_to, stamp};

/// What all functions bind, and what they call it.
const RESOURCE: &str = "bench-data";
/// The same where it lies in Redis.
const IN_REDIS: &str = "bench-redis";
const BINDING: &str = "data";
/// What the one that calls another binds as well, after that in the order of the names.
const CALLEE: &str = "other";
/// The function that another one calls.
pub const CALLED: &str = "none";
/// Whose it is if it is not its caller's.
const OTHER_TENANT: &str = "other-tenant";
/// Operations a second that a tenant may ask for: more than there are.
const OPERATIONS: &str = "10000000";
/// Where Debian has its programs.
const POSTGRESQL: &str = "/usr/lib/postgresql";
/// Until the broker has made its tables and listens.
const BROKER_WAIT_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// The node, its broker and the database.
pub struct Data {
    // Ended in this order.
    started: Started,
    _broker: Broker,
    functions: Vec<(String, Constants)>,
    own_core: Option<usize>,
    database: Database,
}

/// A database, where objects lie beside it, and a Redis server where one is needed.
struct Database {
    cluster: Cluster,
    name: String,
    directory: tempfile::TempDir,
    redis: Option<RedisServer>,
}

/// What functions bind.
#[derive(Debug, Clone, Copy)]
pub struct Reached {
    kind: ResourceKind,
    resource: &'static str,
    /// Whose the function is that they call.
    callee: &'static str,
    /// That one binds nothing: then it is called where its caller is.
    is_inline: bool,
}

impl Reached {
    /// Key-value data in Redis.
    pub const REDIS: Self =
        Self { kind: ResourceKind::Kv, resource: IN_REDIS, callee: TENANT, is_inline: false };
    /// A function of the tenant that does nothing but answer.
    pub const INLINE: Self =
        Self { kind: ResourceKind::Cache, resource: RESOURCE, callee: TENANT, is_inline: true };
    /// A function of another tenant.
    pub const OTHER_TENANT: Self =
        Self { kind: ResourceKind::Cache, resource: RESOURCE, callee: OTHER_TENANT, is_inline: false };

    /// A resource of this kind, where it lies unless an operator says otherwise.
    pub fn to(kind: ResourceKind) -> Self {
        Self { kind, resource: RESOURCE, callee: TENANT, is_inline: false }
    }
}

/// The broker; it ends with this value.
struct Broker(Child);

impl Data {
    /// Starts it, with functions that reach this: first one that puts there what others look at, which has
    /// done so then. Of one worker that has a core for itself, where one is named.
    pub fn start(
        kit: &Kit,
        own_core: Option<usize>,
        reached: Reached,
        functions: &[(&str, Kind)],
    ) -> anyhow::Result<Self> {
        let database = Database::start(kit, reached.resource == IN_REDIS)?;
        let broker = Broker::start(kit, &database)?;
        let own = functions.iter().map(|(name, kind)| deployed(kit, reached, (TENANT, name), *kind));
        let mut all: Vec<Deployed> = own.collect::<anyhow::Result<_>>()?;
        if reached.callee != TENANT {
            all.push(deployed(kit, reached, (reached.callee, CALLED), Kind::get(0))?);
        }
        let mut variables: Vec<Variable> = vec![("MFAAS_BROKER_SOCKET", database.socket().into())];
        variables.extend(own_core.into_iter().flat_map(of_one_worker));
        let started = Started::over(kit, &kit.cores.both(), &all, &variables)?;
        let functions = functions.iter().map(|(name, kind)| ((*name).to_owned(), kind.constants(0)));
        Ok(Self { started, _broker: broker, functions: functions.collect(), own_core, database })
    }

    /// Calls of one of the functions.
    pub fn calls(&self, name: &str) -> anyhow::Result<Calls> {
        let found = self.functions.iter().find(|(function, _)| function == name);
        let (function, constants) = found.context("no such function")?;
        let client = Client::connect(self.started.address(), &format!("/f/{TENANT}/{function}"))?;
        Ok(Calls { client, constants: *constants, own_core: self.own_core, number: 0 })
    }

    /// The same value by a client of the database.
    pub fn database_client(&self) -> anyhow::Result<DatabaseClient> {
        let Database { cluster, name, .. } = &self.database;
        let mut client = postgres::Client::connect(&cluster.url(name, OWNER), postgres::NoTls)
            .context("connect to the database")?;
        let get = client.prepare("SELECT value FROM mfaas_data.entries WHERE resource = $1 AND key = $2")?;
        Ok(DatabaseClient { client, get })
    }

    /// The same value by a client of the Redis server.
    pub fn redis_client(&self) -> anyhow::Result<RedisClient> {
        let server = self.database.redis.as_ref().context("nothing lies in Redis")?;
        let connection = redis::Client::open(server.url())?.get_connection().context("connect to Redis")?;
        Ok(RedisClient(connection))
    }

    /// The same object by a client of the directory.
    pub fn object_client(&self) -> anyhow::Result<ObjectClient> {
        let objects = self.database.objects();
        let file = only_file(&objects.join("numbered"))?;
        let path = object_store::path::Path::from_filesystem_path(&file).context("the object's path")?;
        let runtime = tokio::runtime::Builder::new_current_thread().build().context("a runtime")?;
        Ok(ObjectClient { store: LocalFileSystem::new(), path, runtime })
    }
}

/// A function that reaches the resource.
fn deployed(
    kit: &Kit,
    reached: Reached,
    (tenant, name): (&str, &str),
    does: Kind,
) -> anyhow::Result<Deployed> {
    let image = kit.functions.file(Form::Data, &does.constants(0));
    let Reached { kind, resource, callee, is_inline } = reached;
    let resource = ResourceBinding { kind, resource: resource.parse()?, access: DataAccess::Write };
    let mut bindings = Bindings::from([(BINDING.parse()?, Binding::Resource(resource))]);
    if is_inline && name == CALLED {
        bindings.clear();
    }
    if does.kind == CALL {
        bindings.insert(
            CALLEE.parse()?,
            Binding::Function(FunctionBinding::new(format!("{callee}/{CALLED}").parse()?)),
        );
    }
    let function = name.to_owned();
    Ok(Deployed { function, bindings, ..Deployed::micro(tenant, image, BUDGET_US)? })
}

impl Database {
    /// Starts it on both cores, as the node is.
    fn start(kit: &Kit, with_redis: bool) -> anyhow::Result<Self> {
        ensure!(Path::new(POSTGRESQL).is_dir(), "PostgreSQL is not installed at {POSTGRESQL}");
        pin_to(&kit.cores.both())?;
        let cluster = Cluster::start();
        let redis = with_redis.then(|| RedisServer::start(&[]));
        pin(kit.cores.caller)?;
        let name = cluster.create_database();
        let directory = tempfile::tempdir().context("a directory for the broker")?;
        Ok(Self { cluster, name, directory, redis })
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("broker.sock")
    }

    /// Which resource lies in the Redis server, as a broker reads it.
    fn redis_file(&self, server: &RedisServer) -> anyhow::Result<PathBuf> {
        let file = self.directory.path().join("redis.toml");
        let lies = format!("[redis.bench]\nurl = \"{}\"\nresources = [\"{IN_REDIS}\"]\n", server.url());
        std::fs::write(&file, lies).context("write which resources lie in Redis")?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
        Ok(file)
    }

    fn objects(&self) -> PathBuf {
        self.directory.path().join("objects")
    }

    fn volumes(&self) -> PathBuf {
        self.directory.path().join("volumes")
    }
}

impl Broker {
    /// Starts the broker on both cores and waits until it listens.
    fn start(kit: &Kit, database: &Database) -> anyhow::Result<Self> {
        for directory in [database.objects(), database.volumes()] {
            std::fs::create_dir(directory).context("a directory for objects or files")?;
        }
        let url = |directory: PathBuf| format!("file://{}", directory.display());
        let redis = database.redis.as_ref().map(|server| database.redis_file(server)).transpose()?;
        let child = on_cores(kit, (&kit.programs.broker()?, &[]), &kit.cores.both())?
            .envs(redis.map(|file| ("MFAAS_REDIS_FILE", file)))
            .env("MFAAS_BROKER_SOCKET", database.socket())
            .env("MFAAS_DATA_DATABASE_URL", database.cluster.url(&database.name, OWNER))
            .env("MFAAS_OBJECTS_URL", url(database.objects()))
            .env("MFAAS_VOLUMES_URL", url(database.volumes()))
            .env("MFAAS_DATA_OPERATIONS", OPERATIONS)
            .env("MFAAS_LOG", "warn")
            .stdin(Stdio::null())
            .spawn()
            .context("start the broker")?;
        let mut broker = Self(child);
        let begin = Instant::now();
        while !database.socket().exists() {
            let ended = broker.0.try_wait().context("look after the broker")?;
            ensure!(ended.is_none(), "the broker ended: {ended:?}");
            ensure!(begin.elapsed() < BROKER_WAIT_MAX, "the broker does not listen");
            std::thread::sleep(LOOK);
        }
        Ok(broker)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls of a function over HTTP.
pub struct Calls {
    client: Client,
    constants: Constants,
    own_core: Option<usize>,
    number: u64,
}

impl Side for Calls {
    fn protections(&self) -> String {
        let workers = match self.own_core {
            None => "workers that sleep when nobody calls",
            Some(_) => "one worker that looks for the next call on a core of its own",
        };
        format!("all that node and broker run with; the tenant's own pool, {workers}")
    }

    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        self.number += 1;
        let request = request(self.number);
        let sent = stamp();
        let answer = self.client.post(&request)?;
        let answered = stamp();
        verified(&self.constants, &request, &answer)?;
        Ok(Timing { sent, answered })
    }
}

/// A client of the database.
pub struct DatabaseClient {
    client: postgres::Client,
    get: postgres::Statement,
}

impl Side for DatabaseClient {
    fn protections(&self) -> String {
        "none: a client in this process, over one connection, with a prepared statement".to_owned()
    }

    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        let sent = stamp();
        let row = self.client.query_one(&self.get, &[&RESOURCE, &&b"key"[..]]).context("ask the database")?;
        let value: &[u8] = row.try_get(0).context("a value")?;
        let is_there = value.last() == Some(&7);
        let answered = stamp();
        ensure!(is_there, "the database has another value");
        Ok(Timing { sent, answered })
    }
}

/// A client of the Redis server.
pub struct RedisClient(redis::Connection);

impl Side for RedisClient {
    fn protections(&self) -> String {
        "none: a client in this process, over one connection to the server's socket".to_owned()
    }

    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        let key = format!("mfaas:{{kv}}:entry:{IN_REDIS}:key");
        let sent = stamp();
        let value: Vec<u8> = redis::cmd("GET").arg(key).query(&mut self.0).context("ask Redis")?;
        let answered = stamp();
        ensure!(value.last() == Some(&7), "Redis has another value");
        Ok(Timing { sent, answered })
    }
}

/// A client of the directory in which objects lie.
pub struct ObjectClient {
    store: LocalFileSystem,
    path: object_store::path::Path,
    runtime: tokio::runtime::Runtime,
}

impl Side for ObjectClient {
    fn protections(&self) -> String {
        "none: object_store in this process, on the directory".to_owned()
    }

    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        let sent = stamp();
        let bytes = self.runtime.block_on(self.store.get_range(&self.path, 0..OBJECT_BYTES as u64))?;
        let answered = stamp();
        ensure!(bytes.len() == OBJECT_BYTES && bytes.last() == Some(&7), "the object is another one");
        Ok(Timing { sent, answered })
    }
}

/// The one file in directories of a directory.
fn only_file(directory: &Path) -> anyhow::Result<PathBuf> {
    let mut files = Vec::new();
    for below in std::fs::read_dir(directory).context("a store of objects")? {
        for file in std::fs::read_dir(below?.path())? {
            files.push(file?.path());
        }
    }
    match files.pop() {
        Some(file) if files.is_empty() => Ok(file),
        _ => anyhow::bail!("{} has not one file alone", directory.display()),
    }
}
