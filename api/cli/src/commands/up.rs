//! `mfaas up`: everything on this machine, set up and running.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mfaas_ident::{Access, PersonName};
use mfaas_supervisor::profile::{self, Owner};
use mfaas_supervisor::{
    Addresses, Home, Materials, Phase, Ports, State, Supervised, UpOptions, is_supervised,
    open_supervisor_log, options_that_differ, supervise, wait_while_starting, wal_archive_of,
};

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Where the parts listen when nobody says.
pub(crate) const DEFAULT_PORTS: Ports = Ports { http: 7700, node: 7701, ingress: 7800 };

/// How long `--detach` waits: the first run compiles the dependencies.
const READY_LIMIT: Duration = Duration::from_secs(1800);

/// Set up and run everything on this machine: database, signer, server, builder, node.
///
/// For example: `mfaas up --detach`
#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// Where everything lives; /var/lib/mfaas for root, ~/.local/share/mfaas for a user.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
    /// Return when everything runs, and leave it running.
    #[arg(long)]
    detach: bool,
    /// Port of REST and console on 127.0.0.1, 7700 when absent; 0 takes any.
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,
    /// Port for nodes, 7701 when absent; 0 takes any.
    #[arg(long, value_name = "PORT")]
    node_port: Option<u16>,
    /// IP address on which nodes are listened for, over mutual TLS, for example 10.0.0.5, or 0.0.0.0 for all of this machine;
    /// 127.0.0.1 at first, then as before. It is one of the names of the server's certificate.
    #[arg(long, value_name = "ADDRESS")]
    node_listen: Option<IpAddr>,
    /// A name or an address under which nodes of other machines reach the server, for its certificate; once for each. None but
    /// localhost at first, then as before.
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// Port for invocations on 127.0.0.1, 7800 when absent; 0 takes any.
    #[arg(long, value_name = "PORT")]
    ingress_port: Option<u16>,
    /// Connections that the node takes at once, at most 65536; its default at first, then as before.
    #[arg(long, value_name = "N", env = "MFAAS_INGRESS_CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ingress_connections: Option<u32>,
    /// Of these, of one peer; its default at first, then as before.
    #[arg(long, value_name = "N", env = "MFAAS_INGRESS_PEER_CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ingress_peer_connections: Option<u32>,
    /// Proxies before the node, for which no bound of one peer holds: addresses with commas between them,
    /// "" for none; none at first, then as before.
    #[arg(long, value_name = "LIST", env = "MFAAS_INGRESS_PROXIES", value_parser = addresses)]
    ingress_proxies: Option<String>,
    /// Worker processes of the node; one a core when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: Option<u32>,
    /// Whether tenants share worker processes: never, where protection keys keep each call from the
    /// others' memory too (at first), or with verified code alone.
    #[arg(long, value_name = "WHEN", value_parser = ["never", "with-protection-keys", "with-verified-code"])]
    share_workers: Option<String>,
    /// How builds are kept from being felt by calls: they run where no call wants to (idle-class, at first as root), or also beside
    /// cores that are kept idle for calls (blind), or under calls in the real-time class; off: not at all (at first as anybody else).
    #[arg(long, value_name = "MODE", value_parser = ["idle-class", "real-time", "blind", "off"])]
    isolation: Option<String>,
    /// Worker processes of the node at a time, sleeping ones too; as many as fit into a quarter of the
    /// machine's memory at first, then as before.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=4096))]
    worker_processes: Option<u32>,
    /// Worker processes of bulk functions at a time; one a core at first, as far as their memory goes, then as before. 0: none.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=128))]
    bulk_workers: Option<u32>,
    /// What they may have together, in MiB; half of the machine's memory at first, then as before.
    #[arg(long, value_name = "MIB")]
    bulk_memory_mib: Option<u32>,
    /// Has no effect any more.
    #[arg(long, value_name = "N", hide = true)]
    private_cordons: Option<u32>,
    /// The weakest build sandbox that is accepted.
    #[arg(long, alias = "cage-minimum", value_name = "LEVEL", value_parser = ["full", "landlock"])]
    sandbox_minimum: Option<String>,
    /// How many builders, each with a database role of its own, have to make the same from a source before it is signed; 1 at
    /// first, then as before. This machine runs one of them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=4))]
    builds_agreement: Option<u8>,
    /// Address and port on which the server shows its metrics, alone, for example 127.0.0.1:7702. Signer, builder, acquirer and
    /// node show theirs on the same address, 2, 3, 4 and 5 ports further. At first the server's are with the REST interface, the
    /// node's with its ingress, and the others have none; then as before. "" takes it back.
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// Whether the rules may admit a crate in which nothing was found, without a person; off at first,
    /// then as before.
    #[arg(long, value_name = "ON|OFF", value_parser = ["on", "off"])]
    automatic_admission: Option<String>,
    /// Who may call a function whose manifest does not say: public, tenant or token; its tenant at first, then as before.
    #[arg(long, value_name = "ACCESS")]
    default_access: Option<Access>,
    /// The seed workspace: the dependencies that are offered.
    #[arg(long, value_name = "DIR")]
    seed: Option<PathBuf>,
    /// The sysroot of Rust 1.95.0; asked of rustup when absent.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// Where imported toolchains are, when several homes share them.
    #[arg(long, value_name = "DIR")]
    toolchains: Option<PathBuf>,
    /// Where vendored sources are, when several homes share them.
    #[arg(long, value_name = "DIR")]
    vendor: Option<PathBuf>,
    /// Where compiled dependencies are, when several homes share them.
    #[arg(long, value_name = "DIR")]
    deps: Option<PathBuf>,
    /// An existing database (URL of its owner) instead of a private cluster.
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// An existing blob store, s3://BUCKET/PREFIX, instead of a directory of the home; kept from then on. What lets programs in
    /// there is in the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT and the like, at each start.
    #[arg(long, value_name = "URL", env = "MFAAS_BLOBS_URL")]
    blobs_url: Option<String>,
    /// Where the data of functions lies, a PostgreSQL URL; in the private database when absent. With `--database-url` and without
    /// this, functions reach no data.
    #[arg(long, value_name = "URL", env = "MFAAS_DATA_DATABASE_URL", hide_env_values = true)]
    data_database_url: Option<String>,
    /// Where objects of functions lie, s3://BUCKET/PREFIX or file:///DIRECTORY, instead of a directory of the home; kept from then on.
    #[arg(long, value_name = "URL", env = "MFAAS_OBJECTS_URL")]
    objects_url: Option<String>,
    /// Where files of volumes lie, file:///DIRECTORY or nfs://HOST/EXPORT, instead of a directory of the home; kept from then on.
    #[arg(long, value_name = "URL", env = "MFAAS_VOLUMES_URL")]
    volumes_url: Option<String>,
    /// Which servers functions may ask over HTTP, and with which secrets (docs/operations.md); none at first, then as before. The broker's
    /// user (mfaas-broker for root) has to be able to read it and what it names.
    #[arg(long, value_name = "FILE", env = "MFAAS_HTTP_FILE")]
    http_file: Option<PathBuf>,
    /// Which Redis servers hold resources of functions' data (docs/operations.md); none at first, then as before. It holds passwords: its
    /// owner is root or the broker's user (mfaas-broker for root), and nobody else but its group reads it.
    #[arg(long, value_name = "FILE", env = "MFAAS_REDIS_FILE")]
    redis_file: Option<PathBuf>,
    /// A directory in which the private database keeps its write-ahead log, which its user (mfaas-pg for root) has to be able to
    /// write; none at first, then as before, "" for none. With a base backup it leads to any moment in between.
    #[arg(long, value_name = "DIR", value_parser = wal_archive_of)]
    wal_archive: Option<String>,
    /// How people reach the console, where that is not this machine; a TLS proxy of yours stands there.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// The configuration of the OpenID provider that people sign in with; kept from then on.
    #[arg(long, value_name = "FILE")]
    oidc: Option<PathBuf>,
    /// Whom the first token names, an admin's; your login name if not given.
    #[arg(long, value_name = "PERSON")]
    person: Option<PersonName>,
    /// The log filter of the programs.
    #[arg(long, value_name = "FILTER", env = "MFAAS_LOG", default_value = "info")]
    log: String,
    /// We are the detached supervisor.
    #[arg(long, hide = true)]
    background: bool,
}

impl Up {
    /// Becomes the supervisor, or starts one and waits for it.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let home = home_of(self.home.as_deref())?;
        if !self.background && is_supervised(&home)? {
            return self.already_running(context, &home);
        }
        if self.detach {
            return self.start_detached(context, &home);
        }
        if self.background {
            // Our own session: the terminal's end must not be ours. Fails only for a group
            // leader, which a freshly started child is not.
            rustix::process::setsid().map_err(|e| Failure::Local(format!("cannot start a session: {e}")))?;
        }
        if self.private_cordons.is_some() {
            context.screen.note(
                "--private-cordons has no effect any more: --worker-processes bounds the node's workers",
            );
        }
        let ports = Ports {
            http: self.http_port.unwrap_or(DEFAULT_PORTS.http),
            node: self.node_port.unwrap_or(DEFAULT_PORTS.node),
            ingress: self.ingress_port.unwrap_or(DEFAULT_PORTS.ingress),
        };
        let loud = !self.background;
        match supervise(&home, ports, &self.options(context, &home)?, loud)? {
            Supervised::AlreadyRunning => self.already_running(context, &home),
            Supervised::Stopped(complaints) => {
                complaints.iter().for_each(|complaint| context.screen.note(complaint));
                Ok(Exit::Ok)
            }
        }
    }

    fn options(&self, context: &Context, home: &Home) -> Result<UpOptions, Failure> {
        let (profile, profile_owner) = profile_of(context, self.home.is_some(), home)?;
        let absolute = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
        Ok(UpOptions {
            workers: self.workers,
            share_workers: self.share_workers.clone(),
            isolation: self.isolation.clone(),
            worker_processes: self.worker_processes,
            bulk_workers: self.bulk_workers,
            bulk_memory_mib: self.bulk_memory_mib,
            ingress_connections: self.ingress_connections,
            ingress_peer_connections: self.ingress_peer_connections,
            ingress_proxies: self.ingress_proxies.clone(),
            sandbox_minimum: self.sandbox_minimum.clone(),
            builds_agreement: self.builds_agreement,
            metrics_listen: self.metrics_listen.clone(),
            node_listen: self.node_listen,
            names: self.names.clone(),
            automatic_admission: self.automatic_admission.as_deref().map(|word| word == "on"),
            default_access: self.default_access,
            public_url: self.public_url.clone(),
            oidc: absolute(&self.oidc)?,
            blobs_url: self.blobs_url.clone(),
            wal_archive: self.wal_archive.clone(),
            data_database_url: self.data_database_url.clone(),
            objects_url: self.objects_url.clone(),
            volumes_url: self.volumes_url.clone(),
            http_file: absolute(&self.http_file)?,
            redis_file: absolute(&self.redis_file)?,
            database_url: self.database_url.clone(),
            materials: Materials {
                seed: absolute(&self.seed)?,
                sysroot: absolute(&self.sysroot)?,
                toolchains: absolute(&self.toolchains)?.unwrap_or_else(|| home.join("toolchains")),
                vendor: absolute(&self.vendor)?.unwrap_or_else(|| home.join("vendor")),
                deps: absolute(&self.deps)?.unwrap_or_else(|| home.join("deps")),
            },
            profile,
            profile_owner,
            person: self.person.clone().map_or_else(login_of_caller, Ok)?,
            log: self.log.clone(),
        })
    }

    /// Starts ourselves again as a supervisor without a terminal, and shows its steps.
    fn start_detached(&self, context: &Context, home: &Home) -> Result<Exit, Failure> {
        let log = open_supervisor_log(home)?;
        let second = log.try_clone().map_err(Failure::io("cannot share", home.log("supervisor")))?;
        let own = std::env::current_exe().map_err(|e| Failure::Local(e.to_string()))?;
        let mut child = Command::new(&own)
            .args(std::env::args_os().skip(1).filter(|argument| argument != "--detach"))
            .arg("--background")
            .stdin(Stdio::null())
            .stdout(second)
            .stderr(log)
            .spawn()
            .map_err(Failure::io("cannot start", &own))?;
        let state = wait_for(context, home, &mut child)?;
        context.screen.result(&state, || summary(home, &state))?;
        Ok(Exit::Ok)
    }

    /// Says so; one that is still starting is waited for, so that "up" means up in any case.
    fn already_running(&self, context: &Context, home: &Home) -> Result<Exit, Failure> {
        if State::load(home)?.is_none_or(|state| state.phase == Phase::Starting) {
            context.screen.note("already being started");
        }
        let settled = wait_while_starting(home, READY_LIMIT)?;
        match State::load(home)? {
            _ if !settled => {
                Err(Failure::Pending(format!("not everything runs after {} s", READY_LIMIT.as_secs())))
            }
            Some(state) if state.phase == Phase::Ready => {
                self.demand_ports_of(&state.addresses)?;
                self.demand_settings_of(context, home)?;
                context.screen.note("already running");
                context.screen.result(&state, || summary(home, &state))?;
                Ok(Exit::Ok)
            }
            Some(State { failure: Some(failure), .. }) => Err(Failure::Local(failure)),
            Some(_) | None => Err(Failure::Local("it is being stopped".to_owned())),
        }
    }

    /// Fails where a setting was asked for that is not the one of what runs.
    fn demand_settings_of(&self, context: &Context, home: &Home) -> Result<(), Failure> {
        let other = options_that_differ(home, &self.options(context, home)?)?;
        if other.is_empty() {
            return Ok(());
        }
        Err(Failure::Local(format!(
            "already running with other settings, which were not changed: {}; stop it with `mfaas down` first",
            other.join(", ")
        )))
    }

    /// Fails where a port was asked for that is not the one of what runs.
    fn demand_ports_of(&self, running: &Addresses) -> Result<(), Failure> {
        let asked = [
            ("--http-port", self.http_port, &running.http),
            ("--node-port", self.node_port, &running.nodes),
            ("--ingress-port", self.ingress_port, &running.ingress),
        ];
        let other: Vec<String> = asked
            .into_iter()
            .filter_map(|(flag, port, running)| {
                let port = port.filter(|port| *port != 0)?;
                let is_same = running.as_ref()?.rsplit_once(':')?.1 == port.to_string();
                (!is_same).then(|| format!("{flag} {port}"))
            })
            .collect();
        if other.is_empty() {
            return Ok(());
        }
        let at = |address: &Option<String>| address.clone().unwrap_or_else(|| "-".to_owned());
        Err(Failure::Local(format!(
            "already running, console and REST at {}, nodes at {}, invocations at {}: the ports were not changed ({}); \
             stop it with `mfaas down` first",
            at(&running.http),
            at(&running.nodes),
            at(&running.ingress),
            other.join(", ")
        )))
    }
}

/// Shows the supervisor's steps as they come, until everything runs or it gave up.
fn wait_for(context: &Context, home: &Home, child: &mut std::process::Child) -> Result<State, Failure> {
    let begin = Instant::now();
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let spinner = context.screen.spinner("starting");
    let mut shown = 0;
    while begin.elapsed() < READY_LIMIT {
        let ended = child.try_wait().map_err(|e| Failure::Local(e.to_string()))?;
        // A state of an earlier run does not count.
        if let Some(state) = State::load(home)?.filter(|state| state.pid == pid) {
            for step in state.steps.iter().skip(shown) {
                let Some(seconds) = step.seconds else {
                    spinner.message(&step.name);
                    break;
                };
                spinner.above(&context.screen, &format!("  {:50} {seconds:6.1} s", step.name));
                shown += 1;
            }
            match (state.phase, ended) {
                (Phase::Ready, None) => return Ok(state),
                (Phase::Failed, _) => {
                    return Err(Failure::Local(
                        state.failure.unwrap_or_else(|| "the supervisor gave up".to_owned()),
                    ));
                }
                (Phase::Starting | Phase::Stopping | Phase::Ready, _) => {}
            }
        }
        if let Some(status) = ended {
            // Somebody else's supervisor took the lock between our look and our start.
            if let Some(state) =
                State::load(home)?.filter(|state| status.success() && state.phase == Phase::Ready)
            {
                return Ok(state);
            }
            let log = home.log("supervisor");
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").to_owned();
            return Err(Failure::Local(format!(
                "the supervisor ended ({status}): {last} ({})",
                log.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Failure::Pending(format!("not everything runs after {} s", READY_LIMIT.as_secs())))
}

fn summary(home: &Home, state: &State) -> String {
    let address = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let mut lines = vec![
        format!("console and REST  http://{}/", address(&state.addresses.http)),
        format!("invocations       http://{}/f/TENANT/NAME", address(&state.addresses.ingress)),
        format!("home              {}", home.root().display()),
    ];
    if let Some(profile) = &state.profile {
        lines.push(format!("token             in {profile}"));
        if profile::default_path().is_none_or(|default| default.as_os_str() != profile.as_str()) {
            lines.push(format!("                  (export MFAAS_PROFILE_FILE={profile})"));
        }
    }
    if state.one_uid {
        lines.push("one uid           every program runs as you; as root each gets its own user".to_owned());
    }
    lines.push(if Home::default_root().is_ok_and(|default| default == home.root()) {
        "stop              mfaas down".to_owned()
    } else {
        format!("stop              mfaas down --home {}", home.root().display())
    });
    lines.join("\n")
}

/// A list of addresses, as it was typed; how many there may be is the node's to say.
fn addresses(list: &str) -> Result<String, String> {
    let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
    for item in items {
        item.parse::<IpAddr>().map_err(|_| format!("`{item}` is no IP address"))?;
    }
    Ok(list.to_owned())
}

/// The home that is meant, absolute.
pub(crate) fn home_of(wanted: Option<&Path>) -> Result<Home, Failure> {
    let root = match wanted {
        Some(path) => absolute(path)?,
        None => Home::default_root()?,
    };
    Ok(Home::at(&root))
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path).map_err(Failure::io("cannot resolve", path))?;
    // A path that exists is taken without links, so that /proc shows it the same way.
    Ok(path.canonicalize().unwrap_or(path))
}

/// The login name of the person who typed the command, under sudo too. A name that no person can have has to be given.
fn login_of_caller() -> Result<PersonName, Failure> {
    let login = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let login = login.map_or_else(|| "admin".to_owned(), |login| login.to_ascii_lowercase());
    PersonName::parse(&login).map_err(|error| Failure::Usage(format!("give --person NAME: {error}")))
}

/// Where the first token goes and whose it is. An explicit home keeps its own profile, so that a
/// second installation does not replace the first one's token; under sudo it belongs to the
/// person, not to root.
fn profile_of(
    context: &Context,
    explicit_home: bool,
    home: &Home,
) -> Result<(PathBuf, Option<Owner>), Failure> {
    if let Some(path) = &context.global.profile_file {
        return Ok((absolute(path)?, None));
    }
    if explicit_home {
        return Ok((home.join(profile::HOME_PROFILE), None));
    }
    if let Some((path, owner)) = profile::of_sudo_caller()? {
        return Ok((path, Some(owner)));
    }
    let path = profile::default_path()
        .ok_or_else(|| Failure::Usage("HOME is not set; give --profile-file".to_owned()))?;
    Ok((path, None))
}
