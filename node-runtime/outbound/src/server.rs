//! A server, and connections to it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use mfaas_ident::TenantName;
use reqwest::{Certificate, Client, redirect, retry};
use url::{Host, Url};

use crate::addresses::Addresses;
use crate::error::SendError;
use crate::file::ServerEntry;
use crate::resolver::Resolver;

/// How long a connection may take, its name's lookup included.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Connections of one tenant that wait for the next request, and how long they do.
const IDLE_MAX: usize = 8;
const IDLE_TIME_MAX: Duration = Duration::from_secs(30);
/// Tenants that have connections; of those the one that has sent nothing for longest loses its own.
const TENANTS_MAX: NonZeroUsize = NonZeroUsize::new(32).expect("more than none");

/// A server, and connections to it.
#[derive(Debug)]
pub(crate) struct Server {
    origin: Url,
    resolver: Resolver,
    authorities: Option<Vec<Certificate>>,
    /// Each tenant has its own: what one has sent never stands before what another one sends or hears.
    clients: Mutex<LruCache<TenantName, Client>>,
}

impl Server {
    /// One that the operator names; or what is wrong with that.
    pub(crate) fn open(entry: ServerEntry) -> Result<Self, String> {
        let ServerEntry { origin, cleartext, networks, ca_file } = entry;
        let url = Url::parse(&origin).map_err(|error| format!("the origin `{origin}` is no URL: {error}"))?;
        let is_origin = url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        match url.scheme() {
            "https" | "http" if !is_origin => {
                return Err(format!("the origin `{origin}` has more than a scheme, a host and a port"));
            }
            "http" if !cleartext => {
                return Err(format!(
                    "`{origin}` is plain HTTP: say `cleartext = true` if the network is trusted"
                ));
            }
            "https" | "http" => {}
            other => return Err(format!("`{other}:` is no scheme of a server: use https")),
        }
        let addresses = Addresses::with(networks);
        // It is connected to without looking it up.
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(address.into()),
            Some(Host::Ipv6(address)) => Some(address.into()),
            Some(Host::Domain(_)) | None => None,
        };
        if literal.is_some_and(|address| !addresses.may_be_reached(address)) {
            return Err(format!("`{origin}` is no public address: name its network in `networks`"));
        }
        let authorities = match ca_file {
            None => None,
            Some(file) => {
                let authorities = std::fs::read(&file)
                    .map_err(|error| error.to_string())
                    .and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string()))
                    .map_err(|error| format!("the authorities in {}: {error}", file.display()))?;
                if authorities.is_empty() {
                    return Err(format!("{} holds no certificate", file.display()));
                }
                Some(authorities)
            }
        };
        let (resolver, clients) = (Resolver::within(addresses), Mutex::new(LruCache::new(TENANTS_MAX)));
        let server = Self { origin: url, resolver, authorities, clients };
        server.new_client().map_err(|error| format!("no client can be made: {error}"))?;
        Ok(server)
    }

    /// What a tenant reaches it by.
    pub(crate) fn client(&self, tenant: &TenantName) -> reqwest::Result<Client> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(tenant) {
            return Ok(client.clone());
        }
        let client = self.new_client()?;
        clients.push(tenant.clone(), client.clone());
        Ok(client)
    }

    fn new_client(&self) -> reqwest::Result<Client> {
        let builder = Client::builder()
            .dns_resolver(Arc::new(self.resolver.clone()))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .referer(false)
            .http1_only()
            .user_agent("mfaas")
            .connect_timeout(CONNECT_MAX)
            .pool_max_idle_per_host(IDLE_MAX)
            .pool_idle_timeout(IDLE_TIME_MAX);
        match &self.authorities {
            Some(authorities) => builder.tls_certs_only(authorities.clone()),
            None => builder,
        }
        .build()
    }

    /// A path of this origin, and of no other.
    pub(crate) fn url(&self, path: &str) -> Result<Url, SendError> {
        let wrong = || SendError::Request("the path is no path of a URL, with its query".to_owned());
        if !path.starts_with('/') || path.contains(['#', '\\']) {
            return Err(wrong());
        }
        let url = Url::parse(&format!("{}{path}", self.origin.origin().ascii_serialization()));
        let url = url.map_err(|_| wrong())?;
        if url.origin() == self.origin.origin() { Ok(url) } else { Err(wrong()) }
    }
}
