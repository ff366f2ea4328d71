//! From nothing to everything serving, step by step. Every step finds its own result again, so a
//! second run only starts the programs.
//!
//! Nothing here may leave a secret readable by a program that does not need it: keys and
//! certificates go to directories that only their program enters.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mfaas_ident::{IdentitySource, Scope};
use mfaas_wire::{Availability, CreateJoinToken, JoinTokenCreated, NodeState, NodeView, Page, WhoAmI};

use crate::config::{OWNER_ROLE, UpConfig};
use crate::error::SupervisorError;
use crate::files::{self, write_atomically};
use crate::identity::{Identities, Role};
use crate::launch::{Launch, Siblings, run_as_self};
use crate::layout::Home;
use crate::options::UpOptions;
use crate::postgres::{self, Cluster};
use crate::profile::Profile;
use crate::programs::{Programs, with_env};
use crate::server::Server;
use crate::supervisor::Supervisor;

/// The tenant of the first token.
const FIRST_TENANT: &str = "default";

/// The largest public document (certificate, key, key list) that is copied, in bytes.
const PUBLIC_BYTES_MAX: u64 = 64 << 10;

/// How long the node may take to serve what is desired, or to load one version more of it.
const SERVING_LIMIT: Duration = Duration::from_secs(60);

/// Sets up and starts everything; returns when the node serves what is desired.
pub(crate) fn bring_up(
    supervisor: &mut Supervisor<'_>,
    home: &Home,
    identities: &Identities,
    config: &UpConfig,
    options: &UpOptions,
) -> Result<(), SupervisorError> {
    supervisor.step("ports", |_| config.ports.demand_free(config.node_addresses().0))?;
    let siblings = supervisor.step("programs", |_| Siblings::beside_us()?.reachable(home, identities))?;
    let programs = Programs { home, config, siblings: &siblings, log: &options.log };
    database(supervisor, &programs, identities)?;
    supervisor.step("keys", |_| keys(&programs, identities))?;
    supervisor.step("certificates", |_| certificates(&programs, identities))?;
    let toolchain = supervisor.step("toolchain", |_| options.materials.toolchain(&programs))?;
    supervisor.state_mut().toolchain = toolchain.file_name().map(|id| id.to_string_lossy().into_owned());
    let dependencies = supervisor.step("dependencies (compiled once for each toolchain)", |_| {
        options.materials.dependencies(&programs, identities, &toolchain)
    })?;
    supervisor.step("allowlist", |_| {
        let list = dependencies.join("allowlist.json");
        programs
            .server_command(OWNER_ROLE)?
            .args(["allowlist", "import"])
            .arg(list)
            .run(home, identities)
            .map(drop)
    })?;
    supervisor.step("signer", |s| {
        s.start(programs.signer()?)?;
        s.wait_ready(Role::Signer).map(drop)
    })?;
    if let Some(file) = &options.oidc {
        supervisor.step("identity provider", |_| identity_provider(home, identities, file))?;
    }
    let addresses = supervisor.step("server", |s| start_server(s, &programs))?;
    supervisor.step("first token", |_| first_token(&programs, identities, options, &addresses))?;
    supervisor.state_mut().profile = Some(options.profile.display().to_string());
    if config.has_isolation() {
        supervisor.step("isolation", |s| {
            s.start(programs.isolation())?;
            s.wait_ready(Role::Isolation).map(drop)
        })?;
    }
    if let Some(database) = config.data_database(home)? {
        supervisor.step("data broker", |s| {
            s.start(programs.broker(&database))?;
            s.wait_ready(Role::Broker).map(drop)
        })?;
    }
    supervisor.step("builder", |s| {
        s.start(programs.builder(&toolchain, &dependencies)?)?;
        s.wait_ready(Role::Builder).map(drop)
    })?;
    supervisor.step("acquirer", |s| {
        s.start(programs.acquirer(&toolchain, &dependencies)?)?;
        s.wait_ready(Role::Acquirer).map(drop)
    })?;
    let ingress = supervisor.step("node", |s| start_node(s, &programs, identities, options, &addresses))?;
    supervisor.step("serving set", |s| wait_until_serving(s, config, options, &addresses, &ingress))
}

/// Where the server listens.
struct ServerAddresses {
    http: String,
    nodes: String,
}

fn database(
    supervisor: &mut Supervisor<'_>,
    programs: &Programs<'_>,
    identities: &Identities,
) -> Result<(), SupervisorError> {
    let (home, config) = (programs.home, programs.config);
    database_server(supervisor, home, identities, config)?;
    supervisor.step("database roles and schema", |_| {
        database_roles(home, config)?;
        data_database(home, config)?;
        programs.server_command(OWNER_ROLE)?.arg("migrate").run(home, identities).map(drop)
    })
}

/// Where the site has a private cluster: made if it is missing, started, and with a database that may be empty.
pub(crate) fn database_server(
    supervisor: &mut Supervisor<'_>,
    home: &Home,
    identities: &Identities,
    config: &UpConfig,
) -> Result<(), SupervisorError> {
    if config.external_database.is_some() {
        return Ok(());
    }
    let cluster = Cluster::of(home, identities)?;
    supervisor.step("database cluster", |_| cluster.initialise(config))?;
    supervisor.step("database", |s| {
        s.start(cluster.launch(config))?;
        cluster.wait_ready(config, || s.is_alive(Role::Postgres))?;
        cluster.create_database(config)
    })
}

/// The login roles of the programs, with their passwords.
pub(crate) fn database_roles(home: &Home, config: &UpConfig) -> Result<(), SupervisorError> {
    let owner = config.database(home, OWNER_ROLE)?;
    postgres::create_roles(&postgres::find_postgres()?, config, &owner)
}

/// The database of functions' data, where it is ours to make.
fn data_database(home: &Home, config: &UpConfig) -> Result<(), SupervisorError> {
    if config.external_database.is_some() || config.data_database.is_some() {
        return Ok(());
    }
    let owner = config.database(home, OWNER_ROLE)?;
    postgres::create_data_database(&postgres::find_postgres()?, config, &owner)
}

/// Root and online key on the first run. The root key stays in a directory that no program can
/// enter; the signer gets the online key alone.
fn keys(programs: &Programs<'_>, identities: &Identities) -> Result<(), SupervisorError> {
    let home = programs.home;
    let (root_dir, keys_dir) = (home.join("root-key"), home.join("signer/keys"));
    let list = root_dir.join("keylist.json");
    if !list.is_file() {
        let arguments = [
            "init".as_ref(),
            "--root-dir".as_ref(),
            root_dir.as_os_str(),
            "--keys-dir".as_ref(),
            keys_dir.as_os_str(),
        ];
        run_as_self(&programs.siblings.path("mfaas-signer"), arguments.map(std::ffi::OsStr::to_owned))?;
    }
    for path in files_below(&keys_dir)? {
        files::give(&path, identities.of(Role::Signer), 0o600)?;
    }
    publish_copy(&root_dir.join("root.pub"), &home.join("root.pub"))?;
    // Those that were superseded too: one that was never published is published first.
    for path in files_below(&root_dir)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("keylist-") && name.ends_with(".json") {
            publish_copy(&path, &home.join(name))?;
        }
    }
    publish_copy(&list, &home.join("keylist.json"))?;
    programs.signer()?.arg("publish-keylist").arg(home.join("keylist.json")).run(home, identities).map(drop)
}

/// Keeps a copy of the configuration and of the client's secret that it names, which the server can read and
/// nobody else. What is in it is checked by the server when it starts.
fn identity_provider(home: &Home, identities: &Identities, file: &Path) -> Result<(), SupervisorError> {
    let damaged = |why: String| SupervisorError::Usage(format!("{}: {why}", file.display()));
    let bytes = files::read(file, PUBLIC_BYTES_MAX)?;
    let mut config: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    let secret = config.get("client_secret_file").and_then(serde_json::Value::as_str);
    let secret = secret.ok_or_else(|| damaged("there is no `client_secret_file`".to_owned()))?;
    let secret = files::read(&file.parent().unwrap_or(Path::new("")).join(secret), PUBLIC_BYTES_MAX)?;
    config["client_secret_file"] = "secret".into();
    for (name, bytes) in [("secret", secret.as_slice()), ("config.json", config.to_string().as_bytes())] {
        let path = home.join("server/oidc").join(name);
        write_atomically(&path, bytes, 0o600)?;
        files::give(&path, identities.of(Role::Server), 0o600)?;
    }
    Ok(())
}

/// The private certificate authority, which is the signer's, and the server's certificate, on the first run. A home of release
/// 0.2 has the authority's key with the server: it moves to the signer.
fn certificates(programs: &Programs<'_>, identities: &Identities) -> Result<(), SupervisorError> {
    let home = programs.home;
    let signer = programs.siblings.path("mfaas-signer");
    let (ca_dir, tls_dir) = (home.join("signer/ca"), home.join("server/tls"));
    let old_key = tls_dir.join("ca.key");
    let mut init: Vec<OsString> = vec!["init-authority".into(), "--ca-dir".into(), ca_dir.clone().into()];
    if old_key.is_file() {
        init.extend(["--from".into(), tls_dir.clone().into()]);
    }
    run_as_self(&signer, init)?;
    let certify = ["certify-server".into(), "--ca-dir".into(), ca_dir.clone().into(), "--tls-dir".into()];
    let mut certify = Vec::from(certify);
    certify.push(OsString::from(&tls_dir));
    for name in programs.config.certificate_names() {
        certify.extend(["--name".into(), name.into()]);
    }
    run_as_self(&signer, certify)?;
    for path in files_below(&ca_dir)? {
        files::give(&path, identities.of(Role::Signer), 0o600)?;
    }
    for name in ["ca.pem", "server.pem", "server.key"] {
        files::give(&tls_dir.join(name), identities.of(Role::Server), 0o600)?;
    }
    if old_key.is_file() {
        std::fs::remove_file(&old_key).map_err(SupervisorError::io("cannot remove", &old_key))?;
    }
    publish_copy(&tls_dir.join("ca.pem"), &home.join("ca.pem"))
}

/// Starts the server; from then on it keeps the ports that it got, restarts included.
fn start_server(
    supervisor: &mut Supervisor<'_>,
    programs: &Programs<'_>,
) -> Result<ServerAddresses, SupervisorError> {
    let ports = programs.config.ports;
    let (listened, reached) = programs.config.node_addresses();
    let http = format!("127.0.0.1:{}", ports.http);
    supervisor.start(programs.server(&http, &SocketAddr::new(listened, ports.node).to_string())?)?;
    let ready = supervisor.wait_ready(Role::Server)?;
    let nodes: SocketAddr = text(&ready, "nodes")?.parse().map_err(|error| SupervisorError::Protocol {
        what: "the ready file".to_owned(),
        cause: format!("`nodes` is no address: {error}"),
    })?;
    let addresses = ServerAddresses {
        http: text(&ready, "http")?,
        nodes: SocketAddr::new(reached, nodes.port()).to_string(),
    };
    supervisor.relaunch_as(Role::Server, |launch| {
        let launch = with_env(launch, "MFAAS_LISTEN", &addresses.http);
        with_env(launch, "MFAAS_NODE_LISTEN", &nodes.to_string())
    });
    let told = &mut supervisor.state_mut().addresses;
    told.http = Some(addresses.http.clone());
    told.nodes = Some(addresses.nodes.clone());
    Ok(addresses)
}

/// The administrator's token, unless the profile's still opens this server and names its person.
fn first_token(
    programs: &Programs<'_>,
    identities: &Identities,
    options: &UpOptions,
    addresses: &ServerAddresses,
) -> Result<(), SupervisorError> {
    let home = programs.home;
    let mut profile = Profile::load(&options.profile)?;
    profile.server = Some(format!("http://{}", addresses.http));
    // Who pins a key list knows more than the file of the first root key says.
    if profile.root_list.is_none() {
        profile.root_key = Some(pinned_root_key(home)?);
    }
    let server = Server::at(&addresses.http)?;
    let works = profile.token.as_deref().is_some_and(|token| names_its_person(&server, token));
    if !works {
        let printed = programs
            .server_command(OWNER_ROLE)?
            .args([
                "token",
                "create",
                "--tenant",
                FIRST_TENANT,
                "--role",
                "admin",
                "--name",
                "first",
                "--person",
                options.person.as_str(),
            ])
            .run(home, identities)?;
        profile.token = Some(printed.lines().last().unwrap_or("").trim().to_owned());
        profile.tenant = mfaas_ident::TenantName::parse(FIRST_TENANT).ok();
    }
    profile.save(&options.profile, options.profile_owner)
}

/// Whether the token opens this server and, where it is an admin's, says whose it is.
fn names_its_person(server: &Server, token: &str) -> bool {
    let who: Result<WhoAmI, String> = server.get(token, "/v1/whoami");
    who.is_ok_and(|who| who.identity_source != IdentitySource::Nobody || !who.scopes.contains(&Scope::Admin))
}

/// The root key of this installation as a profile pins it.
fn pinned_root_key(home: &Home) -> Result<String, SupervisorError> {
    let path = home.join("root.pub");
    let pem = std::fs::read_to_string(&path).map_err(SupervisorError::io("cannot read", &path))?;
    mfaas_attest::PublicKey::from_pem(&pem)
        .map(|key| key.to_hex())
        .map_err(|e| SupervisorError::Unverified(format!("{}: {e}", path.display())))
}

fn start_node(
    supervisor: &mut Supervisor<'_>,
    programs: &Programs<'_>,
    identities: &Identities,
    options: &UpOptions,
    addresses: &ServerAddresses,
) -> Result<String, SupervisorError> {
    let home = programs.home;
    let node = programs.node(&addresses.nodes, &format!("127.0.0.1:{}", programs.config.ports.ingress))?;
    if !home.join("node/state/node.pem").is_file() {
        join(&node, programs, identities, options, addresses)?;
    }
    supervisor.start(node)?;
    let ready = supervisor.wait_ready(Role::Node)?;
    let ingress = text(&ready, "ingress")?;
    supervisor.relaunch_as(Role::Node, |launch| with_env(launch, "MFAAS_INGRESS_LISTEN", &ingress));
    supervisor.state_mut().addresses.ingress = Some(ingress.clone());
    Ok(ingress)
}

/// Gets a token for our node and lets it join, also in the place of one that has lost its state.
fn join(
    node: &Launch,
    programs: &Programs<'_>,
    identities: &Identities,
    options: &UpOptions,
    addresses: &ServerAddresses,
) -> Result<(), SupervisorError> {
    let home = programs.home;
    let name = programs.config.node_name.parse().map_err(|error| {
        SupervisorError::Local(format!(
            "up.json: `{}` is no name of a node: {error}",
            programs.config.node_name
        ))
    })?;
    let token = Profile::load(&options.profile)?.token.unwrap_or_default();
    let wanted = CreateJoinToken { uses: 1, hours: 1, node: Some(name) };
    let made: JoinTokenCreated = Server::at(&addresses.http)?
        .post(&token, "/v1/join-tokens", &wanted)
        .map_err(|why| SupervisorError::Local(format!("the server gives no join token: {why}")))?;
    let file = home.join("node/join-token");
    write_atomically(&file, made.token.as_bytes(), 0o600)?;
    files::give(&file, identities.of(Role::Node), 0o600)?;
    let joined = node.clone().args(["join", "--token-file"]).arg(&file).run(home, identities);
    // It was good for one node, which has joined, or is made again.
    std::fs::remove_file(&file).map_err(SupervisorError::io("cannot remove", &file))?;
    joined.map(drop)
}

/// Waits until our node serves what is desired. What the server knows of it may be of an earlier run, so the node is asked too.
fn wait_until_serving(
    supervisor: &mut Supervisor<'_>,
    config: &UpConfig,
    options: &UpOptions,
    addresses: &ServerAddresses,
    ingress: &str,
) -> Result<(), SupervisorError> {
    let token = Profile::load(&options.profile)?.token.unwrap_or_default();
    let server = Server::at(&addresses.http)?;
    let (mut progress, mut loaded) = (Instant::now(), 0);
    loop {
        let nodes = server.get(&token, "/v1/nodes");
        let serving = reported(&nodes, &config.node_name).and_then(|node| match node.availability {
            // It says that it is not ready, and is not meant to be.
            Availability::Draining => Ok(()),
            Availability::Active | Availability::Cordoned => server.ask(ingress).map(drop),
        });
        let Err(why) = serving else { return Ok(()) };
        // A large site takes minutes to load, and is loading as long as there is more of it.
        let ours =
            nodes.iter().flat_map(|page| &page.items).find(|node| node.name.as_str() == config.node_name);
        let more = ours.map_or(loaded, |node| node.loaded);
        if more != loaded {
            (progress, loaded) = (Instant::now(), more);
        }
        if progress.elapsed() >= SERVING_LIMIT {
            return Err(SupervisorError::Local(format!("the node does not serve: {why}")));
        }
        supervisor.pause(Duration::from_millis(50))?;
        supervisor.tend();
    }
}

/// The node that the server counts on, or why it does not.
fn reported<'a>(nodes: &'a Result<Page<NodeView>, String>, name: &str) -> Result<&'a NodeView, String> {
    let page = nodes.as_ref().map_err(Clone::clone)?;
    let node = page.items.iter().find(|node| node.name.as_str() == name);
    let node = node.ok_or("the server does not know it")?;
    if node.state == NodeState::Ready && node.reported_epoch.is_some() {
        Ok(node)
    } else {
        Err(format!("it is {} {}", node.state.as_str(), node.problems.join("; ")))
    }
}

fn text(ready: &serde_json::Value, field: &str) -> Result<String, SupervisorError> {
    ready.get(field).and_then(serde_json::Value::as_str).map(str::to_owned).ok_or_else(|| {
        SupervisorError::Protocol { what: "the ready file".to_owned(), cause: format!("it has no `{field}`") }
    })
}

/// Copies something public out of a closed directory.
fn publish_copy(from: &Path, to: &Path) -> Result<(), SupervisorError> {
    let bytes = files::read(from, PUBLIC_BYTES_MAX)?;
    write_atomically(to, &bytes, 0o644)
}

fn files_below(dir: &Path) -> Result<Vec<PathBuf>, SupervisorError> {
    std::fs::read_dir(dir)
        .map_err(SupervisorError::io("cannot read", dir))?
        .map(|entry| entry.map(|entry| entry.path()).map_err(SupervisorError::io("cannot read", dir)))
        .collect()
}

#[cfg(test)]
mod tests;
