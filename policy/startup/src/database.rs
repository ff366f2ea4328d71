//! The address of the site's database, read in one way by every program that has one.
//!
//! The two client libraries that read such addresses each know other parameters, pass over what they do not
//! know, and take an unencrypted connection where no encrypted one is offered. Here what is not known is
//! refused, and a connection that leaves the machine is encrypted to a server whose certificate names it,
//! unless the address says `sslmode=disable`.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use url::{Url, form_urlencoded};

const PORT: u16 = 5432;
/// As many servers as an address may name.
const HOSTS_MAX: usize = 8;
/// The authorities of the machine, for a libpq that has no word for them yet.
const MACHINE_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Why an address cannot be used. The text never holds the password.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DatabaseAddressError {
    /// It is no URL, or another kind.
    #[error(
        "the address of a database looks like postgres://user:password@host:5432/database?sslmode=verify-full: {0}"
    )]
    Malformed(String),
    /// It leaves something out.
    #[error("the address of the database names no {0}")]
    Missing(&'static str),
    /// A parameter that no program here obeys.
    #[error(
        "the address of the database has the parameter `{0}`: known are host, port, user, password, dbname, sslmode, \
         sslrootcert, sslcert, sslkey and target_session_attrs"
    )]
    Unknown(String),
    /// A mode that leaves open who answers.
    #[error(
        "sslmode={0} does not make sure who answers: say verify-full, with sslrootcert=/path/to/ca.pem if the \
         authority is the site's own, or disable where nobody else is on the way to the database"
    )]
    SslMode(String),
    /// Only a server that takes writes is of use.
    #[error("target_session_attrs={0} is not supported: programs look for the server that takes writes")]
    SessionAttributes(String),
}

/// Why a program does not work with a server that let it in.
#[derive(Debug, Clone, Copy, thiserror::Error, PartialEq, Eq)]
pub enum UnusableDatabase {
    /// It takes no writes.
    #[error("the server of the database is a standby, which takes no writes")]
    Standby,
    /// The settings of a connection do not reach it.
    #[error(
        "a connection pooler such as PgBouncer stands before the database: programs listen for notifications and set \
         limits of their own, so give them the address of PostgreSQL itself"
    )]
    Pooler,
}

impl UnusableDatabase {
    /// Asked on each new connection, which has set its `statement_timeout` when it was opened; what the answer means is
    /// for [`Self::unless`].
    pub const QUESTION: &str =
        "SELECT pg_is_in_recovery(), setting FROM pg_settings WHERE name = 'statement_timeout'";

    /// Fine, if the server is no standby and has the `asked` limit, in ms.
    pub fn unless(is_standby: bool, limit: &str, asked: &str) -> Result<(), Self> {
        match (is_standby, limit == asked) {
            (true, _) => Err(Self::Standby),
            (false, false) => Err(Self::Pooler),
            (false, true) => Ok(()),
        }
    }

    /// What an error of a connection attempt means, if it is PgBouncer's for a setting that it does not pass on.
    pub fn of_refusal(text: &str) -> Option<Self> {
        text.contains("unsupported startup parameter").then_some(Self::Pooler)
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseHost {
    /// A name or an IP address, and a port.
    Tcp(String, u16),
    /// The directory of its Unix socket, and the port in the socket's name.
    Socket(PathBuf, u16),
}

impl DatabaseHost {
    fn of(host: &str, port: u16) -> Self {
        if host.starts_with('/') {
            return Self::Socket(PathBuf::from(host), port);
        }
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Self::Tcp(address.to_owned(), port)
    }

    /// Name, address or directory, and port.
    pub fn parts(&self) -> (String, String) {
        match self {
            Self::Tcp(host, port) => (host.clone(), port.to_string()),
            Self::Socket(directory, port) => (directory.display().to_string(), port.to_string()),
        }
    }

    /// Whether what goes there stays on this machine.
    fn is_local(&self) -> bool {
        match self {
            Self::Socket(..) => true,
            Self::Tcp(host, _) => {
                host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

impl fmt::Display for DatabaseHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Socket(directory, port) => write!(f, "{}/.s.PGSQL.{port}", directory.display()),
        }
    }
}

/// How a connection is encrypted: always to a server whose certificate is valid and names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatabaseTls {
    /// Certificate authorities that count besides those of the machine, in PEM.
    pub roots: Option<PathBuf>,
    /// Certificate and key of the client, in PEM.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// A database with the role that a program has there.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseAddress {
    /// Servers in the order in which they are tried; programs look for the one that takes writes.
    pub hosts: Vec<DatabaseHost>,
    /// The role.
    pub user: String,
    /// Its password.
    pub password: Option<String>,
    /// The name of the database.
    pub database: String,
    /// `None`: connections are not encrypted.
    pub tls: Option<DatabaseTls>,
}

impl DatabaseAddress {
    /// The text of it, which holds the password.
    pub fn to_url(&self) -> String {
        let (hosts, ports): (Vec<String>, Vec<String>) = self.hosts.iter().map(DatabaseHost::parts).unzip();
        let mut url = form_urlencoded::Serializer::new(String::new());
        url.append_pair("host", &hosts.join(","))
            .append_pair("port", &ports.join(","))
            .append_pair("user", &self.user);
        let mut append = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                url.append_pair(key, value);
            }
        };
        append("password", self.password.as_deref());
        append("sslmode", Some(if self.tls.is_some() { "verify-full" } else { "disable" }));
        let DatabaseTls { roots, client } = self.tls.clone().unwrap_or_default();
        append("sslrootcert", roots.as_deref().and_then(Path::to_str));
        append("sslcert", client.as_ref().and_then(|(certificate, _)| certificate.to_str()));
        append("sslkey", client.as_ref().and_then(|(_, key)| key.to_str()));
        append("dbname", Some(&self.database));
        format!("postgres:///?{}", url.finish())
    }

    /// The variables of libpq that say the same, for PostgreSQL's own programs: their arguments are visible to everybody,
    /// and an address may hold a password.
    pub fn libpq_variables(&self) -> Vec<(&'static str, String)> {
        let (hosts, ports): (Vec<String>, Vec<String>) = self.hosts.iter().map(DatabaseHost::parts).unzip();
        let mut variables = vec![
            ("PGHOST", hosts.join(",")),
            ("PGPORT", ports.join(",")),
            ("PGUSER", self.user.clone()),
            ("PGDATABASE", self.database.clone()),
            ("PGTARGETSESSIONATTRS", "read-write".to_owned()),
            ("PGSSLMODE", if self.tls.is_some() { "verify-full" } else { "disable" }.to_owned()),
        ];
        variables.extend(self.password.clone().map(|password| ("PGPASSWORD", password)));
        if let Some(tls) = &self.tls {
            let file = |path: &Path| path.display().to_string();
            variables.push(("PGSSLROOTCERT", tls.roots.as_deref().map_or(MACHINE_ROOTS.to_owned(), file)));
            if let Some((certificate, key)) = &tls.client {
                variables.extend([("PGSSLCERT", file(certificate)), ("PGSSLKEY", file(key))]);
            }
        }
        variables
    }
}

/// Without the password.
impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hosts, user, database, tls, .. } = self;
        write!(f, "DatabaseAddress {{ {user}@{hosts:?}/{database}, tls: {tls:?} }}")
    }
}

impl FromStr for DatabaseAddress {
    type Err = DatabaseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (authority, url) = split(text)?;
        let mut parts = Parts::of(&url)?;
        if !authority.is_empty() {
            parts.hosts.replace(authority);
        }
        for (key, value) in url.query_pairs() {
            parts.take(&key, value.into_owned())?;
        }
        parts.address()
    }
}

/// The servers of an address as they are written, and the address with none instead: a URL has one host, and an
/// address of PostgreSQL several, with commas between them.
fn split(text: &str) -> Result<(String, Url), DatabaseAddressError> {
    let malformed = |reason: &dyn fmt::Display| DatabaseAddressError::Malformed(reason.to_string());
    let (scheme, rest) = text.split_once("://").ok_or_else(|| malformed(&"it has no scheme"))?;
    if !["postgres", "postgresql"].contains(&scheme) {
        return Err(malformed(&"it begins with neither postgres:// nor postgresql://"));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    // A host that stands for all of them: a URL with credentials has to have one.
    let url = Url::parse(&format!("{scheme}://{credentials}@localhost{path}")).map_err(|e| malformed(&e))?;
    if url.fragment().is_some() {
        return Err(malformed(&"it holds a `#`, which a password has to write as %23"));
    }
    Ok((hosts.to_owned(), url))
}

/// What an address says, piece by piece.
#[derive(Default)]
struct Parts {
    hosts: Option<String>,
    ports: Option<String>,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    mode: Option<String>,
    roots: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Parts {
    fn of(url: &Url) -> Result<Self, DatabaseAddressError> {
        Ok(Self {
            user: decoded(url.username())?,
            password: url.password().map(decoded).transpose()?.flatten(),
            database: decoded(url.path().trim_start_matches('/'))?,
            ..Self::default()
        })
    }

    fn take(&mut self, key: &str, value: String) -> Result<(), DatabaseAddressError> {
        match key {
            "host" => self.hosts = Some(value),
            "port" => self.ports = Some(value),
            "user" => self.user = Some(value),
            "password" => self.password = Some(value),
            "dbname" => self.database = Some(value),
            "sslmode" => self.mode = Some(value),
            // `system` is the word of PostgreSQL for the authorities of the machine, which count anyway.
            "sslrootcert" => self.roots = Some(value).filter(|value| value != "system").map(PathBuf::from),
            "sslcert" => self.certificate = Some(value.into()),
            "sslkey" => self.key = Some(value.into()),
            "target_session_attrs" if ["read-write", "primary", "any"].contains(&&*value) => {}
            "target_session_attrs" => return Err(DatabaseAddressError::SessionAttributes(value)),
            _ => return Err(DatabaseAddressError::Unknown(key.to_owned())),
        }
        Ok(())
    }

    fn address(self) -> Result<DatabaseAddress, DatabaseAddressError> {
        let hosts = self.hosts()?;
        let is_local = hosts.iter().all(DatabaseHost::is_local);
        let is_encrypted = match self.mode.as_deref() {
            None => !is_local,
            Some("disable") => false,
            Some("verify-full") => true,
            Some(mode) => return Err(DatabaseAddressError::SslMode(mode.to_owned())),
        };
        let client = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(DatabaseAddressError::Missing("sslkey for its sslcert")),
            (None, Some(_)) => return Err(DatabaseAddressError::Missing("sslcert for its sslkey")),
        };
        Ok(DatabaseAddress {
            hosts,
            user: self.user.ok_or(DatabaseAddressError::Missing("user"))?,
            password: self.password,
            database: self.database.ok_or(DatabaseAddressError::Missing("database"))?,
            tls: is_encrypted.then_some(DatabaseTls { roots: self.roots, client }),
        })
    }

    /// Each host with its own port, else with the one that all have, else with the usual one.
    fn hosts(&self) -> Result<Vec<DatabaseHost>, DatabaseAddressError> {
        let malformed = |reason: String| DatabaseAddressError::Malformed(reason);
        let port = |text: &str| text.parse::<u16>().map_err(|_| malformed(format!("`{text}` is no port")));
        let ports: Vec<u16> =
            self.ports.iter().flat_map(|ports| ports.split(',')).map(port).collect::<Result<_, _>>()?;
        let named = self.hosts.as_deref().filter(|hosts| !hosts.is_empty());
        let named: Vec<&str> = named.ok_or(DatabaseAddressError::Missing("host"))?.split(',').collect();
        if named.len() > HOSTS_MAX {
            return Err(malformed(format!("it names more than {HOSTS_MAX} hosts")));
        }
        if ports.len() > 1 && ports.len() != named.len() {
            return Err(malformed(format!("it has {} hosts and {} ports", named.len(), ports.len())));
        }
        let host = |(number, text): (usize, &&str)| {
            let usual = ports.get(number).or(ports.first()).copied().unwrap_or(PORT);
            let (host, port) = match text.rsplit_once(':') {
                // The colons of an IPv6 address stand in brackets, or it has no port beside it.
                Some((host, own))
                    if !own.contains(']') && !text.starts_with('/') && text.parse::<IpAddr>().is_err() =>
                {
                    (host, port(own)?)
                }
                _ => (*text, usual),
            };
            let host = decoded(host)?.ok_or(DatabaseAddressError::Missing("host"))?;
            Ok(DatabaseHost::of(&host, port))
        };
        named.iter().enumerate().map(host).collect()
    }
}

/// Text without percent signs; `None` if there is none.
fn decoded(text: &str) -> Result<Option<String>, DatabaseAddressError> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| DatabaseAddressError::Malformed("it is not UTF-8".to_owned()))?;
    Ok(Some(decoded.into_owned()).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests;
