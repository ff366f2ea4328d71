//! The ports of an installation, and whether they are free before any program wants one.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};

use serde::{Deserialize, Serialize};

use crate::error::SupervisorError;

/// The ports on 127.0.0.1.
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
    pub(crate) fn demand_free(&self) -> Result<(), SupervisorError> {
        let wanted = [
            (self.http, "mfaas-server", "REST and the console", "--http-port"),
            (self.node, "mfaas-server", "nodes", "--node-port"),
            (self.ingress, "mfaas-node", "invocations", "--ingress-port"),
        ];
        // Held until all are known to be free, so that the same port twice is noticed.
        let mut held = Vec::new();
        for (port, program, purpose, flag) in wanted.into_iter().filter(|(port, ..)| *port != 0) {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
                let why = match error.kind() {
                    ErrorKind::AddrInUse if held.iter().any(|(_, taken)| *taken == port) => {
                        "is asked for twice".to_owned()
                    }
                    ErrorKind::AddrInUse => "is taken by another program".to_owned(),
                    _ => format!("cannot be listened on ({error})"),
                };
                SupervisorError::Local(format!(
                    "127.0.0.1:{port} {why}: {program} wants it for {purpose}; \
                     `mfaas up {flag} PORT` takes another one, 0 any that is free"
                ))
            })?;
            held.push((listener, port));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    const ANY: Ports = Ports { http: 0, node: 0, ingress: 0 };

    #[test]
    fn a_taken_port_is_named_with_who_wants_it_and_what_changes_it() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = other.local_addr().unwrap().port();
        let said = |ports: Ports| ports.demand_free().unwrap_err().to_string();
        let cases = [
            (Ports { http: taken, ..ANY }, "mfaas-server", "--http-port"),
            (Ports { node: taken, ..ANY }, "mfaas-server", "--node-port"),
            (Ports { ingress: taken, ..ANY }, "mfaas-node", "--ingress-port"),
        ];
        for (ports, program, flag) in cases {
            let said = said(ports);
            for part in [&format!("127.0.0.1:{taken} is taken"), program, flag] {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
        drop(other);
        let free = Ports { ingress: taken, ..ANY };
        free.demand_free().unwrap();
        let twice = said(Ports { http: taken, ..free });
        assert!(twice.contains("is asked for twice: mfaas-node"), "{twice}");
    }
}
