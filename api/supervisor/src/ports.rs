//! The ports of an installation, and whether they are free before any program wants one.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use serde::{Deserialize, Serialize};

use crate::error::SupervisorError;

/// The ports: on 127.0.0.1, those of nodes where `mfaas up --node-listen` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// REST and console.
    pub http: u16,
    /// The nodes' mTLS listener.
    pub node: u16,
    /// The node's ingress.
    pub ingress: u16,
}

impl Ports {
    /// Fails where another program listens on one of them, or where two of them are the same: who wants which, and
    /// how to say another. A port that is taken a moment later is named by the program that does not get it.
    pub(crate) fn demand_free(&self, node_listen: IpAddr) -> Result<(), SupervisorError> {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let wanted = [
            (here, self.http, "mfaas-server", "REST and the console", "--http-port"),
            (node_listen, self.node, "mfaas-server", "nodes", "--node-port"),
            (here, self.ingress, "mfaas-node", "invocations", "--ingress-port"),
        ];
        // Held until all are known to be free, so that the same port twice is noticed.
        let mut held = Vec::new();
        for (address, port, program, purpose, flag) in wanted.into_iter().filter(|(_, port, ..)| *port != 0) {
            let wanted = SocketAddr::new(address, port);
            let listener = TcpListener::bind(wanted).map_err(|error| {
                let why = match error.kind() {
                    ErrorKind::AddrInUse if held.iter().any(|(_, taken)| *taken == port) => {
                        "is asked for twice".to_owned()
                    }
                    ErrorKind::AddrInUse => "is taken by another program".to_owned(),
                    _ => format!("cannot be listened on ({error})"),
                };
                SupervisorError::Local(format!(
                    "{wanted} {why}: {program} wants it for {purpose}; \
                     `mfaas up {flag} PORT` takes another one, 0 any that is free"
                ))
            })?;
            held.push((listener, port));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
