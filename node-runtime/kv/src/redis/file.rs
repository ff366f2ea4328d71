//! What the operator says: which Redis servers there are, and which resources lie there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mfaas_ident::ResourceName;
use redis::{Client, ConnectionAddr, IntoConnectionInfo as _, TlsCertificates};
use serde::Deserialize;

use crate::KvError;

/// A file with a few servers.
const BYTES_MAX: u64 = 1 << 20;
/// More than anybody names.
const SERVERS_MAX: usize = 16;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    redis: BTreeMap<String, Entry>,
}

/// A server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Where it is, with the user and the password.
    url: String,
    /// What lies there.
    resources: BTreeSet<ResourceName>,
    /// Without TLS, through a network that is trusted.
    #[serde(default)]
    cleartext: bool,
    /// Certificate authorities, in PEM, in the place of those of the machine.
    ca_file: Option<PathBuf>,
}

/// A Redis server that the operator's file names.
#[derive(Debug)]
pub struct RedisServer {
    pub(crate) name: String,
    pub(crate) client: Client,
    pub(crate) resources: BTreeSet<ResourceName>,
}

impl RedisServer {
    /// Those that a file names, which holds their passwords: it belongs to root or this program's user, and nobody else reads it but its
    /// group. The process has a TLS provider by then.
    ///
    /// # Errors
    /// [`KvError::File`] if anything of it cannot be used.
    pub fn read(path: &Path) -> Result<Vec<Self>, KvError> {
        let wrong = |wrong: String| KvError::File { path: path.to_owned(), wrong };
        let text = text_of(path).map_err(wrong)?;
        let file: File = toml::from_str(&text).map_err(|error| wrong(mistake(&error, &text)))?;
        if file.redis.is_empty() || file.redis.len() > SERVERS_MAX {
            return Err(wrong(format!("it names 1 to {SERVERS_MAX} servers, as [redis.NAME]")));
        }
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut named = BTreeSet::new();
        let mut servers = Vec::new();
        for (name, entry) in file.redis {
            let of_entry = |what: String| wrong(format!("[redis.{name}]: {what}"));
            if let Some(twice) = entry.resources.iter().find(|resource| !named.insert((*resource).clone())) {
                return Err(of_entry(format!("`{twice}` lies at another server as well")));
            }
            let client = client(&entry, directory).map_err(of_entry)?;
            servers.push(Self { name, client, resources: entry.resources });
        }
        Ok(servers)
    }
}

/// Where a mistake is, and which one if that says nothing of values: one of them may be the address with the password.
fn mistake(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let named = ["unknown field", "missing field", "duplicate key"];
    let what = if named.iter().any(|begin| error.message().starts_with(begin)) {
        error.message()
    } else {
        "this is not how docs/operations.md shows it"
    };
    format!("line {line}: {what}")
}

/// What a file holds that others can neither read nor write.
fn text_of(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let own = std::fs::metadata("/proc/self").map_err(|error| error.to_string())?.uid();
    if metadata.mode() & 0o027 != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(format!(
            "others can read or write it (mode {mode:o}), and it holds passwords: chmod 640"
        ));
    }
    if metadata.uid() != own && metadata.uid() != 0 {
        return Err("it belongs neither to root nor to the broker's user".to_owned());
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn client(entry: &Entry, directory: &Path) -> Result<Client, String> {
    if entry.resources.is_empty() {
        return Err("it names no resources".to_owned());
    }
    let no_address = |_| "its url is none of a Redis server, as rediss://user:password@host:6379".to_owned();
    let info = entry.url.as_str().into_connection_info().map_err(no_address)?;
    match info.addr() {
        ConnectionAddr::Tcp(host, _) if !entry.cleartext && !is_local(host) => {
            Err("without TLS only where it says `cleartext = true`, or with rediss://".to_owned())
        }
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            Err("`#insecure` leaves open who answers: leave it out, and name a ca_file".to_owned())
        }
        ConnectionAddr::TcpTls { .. } => {
            let read = |file: &PathBuf| std::fs::read(directory.join(file));
            let root_cert = entry.ca_file.as_ref().map(read).transpose();
            let root_cert = root_cert.map_err(|error| format!("its ca_file: {error}"))?;
            let certificates = TlsCertificates { client_tls: None, root_cert };
            Client::build_with_tls(info, certificates).map_err(|error| format!("its TLS: {error}"))
        }
        _ if entry.ca_file.is_some() => Err("a ca_file is for rediss://".to_owned()),
        _ => Client::open(info).map_err(|error| error.to_string()),
    }
}

/// Whether what goes there stays on this machine.
fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
