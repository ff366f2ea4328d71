#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const ANY: Ports = Ports { http: 0, node: 0, ingress: 0 };

#[test]
fn a_taken_port_is_named_with_who_wants_it_and_what_changes_it() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let taken = other.local_addr().unwrap().port();
    let said = |ports: Ports| ports.demand_free(HERE).unwrap_err().to_string();
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
    free.demand_free(HERE).unwrap();
    let twice = said(Ports { http: taken, ..free });
    assert!(twice.contains("is asked for twice: mfaas-node"), "{twice}");
    let (other, elsewhere) = (TcpListener::bind(("127.0.0.2", 0)).unwrap(), "127.0.0.2".parse().unwrap());
    let taken = other.local_addr().unwrap().port();
    let nodes = Ports { node: taken, ..ANY };
    nodes.demand_free(HERE).unwrap();
    let said = nodes.demand_free(elsewhere).unwrap_err().to_string();
    assert!(said.contains(&format!("127.0.0.2:{taken} is taken")), "{said}");
}
