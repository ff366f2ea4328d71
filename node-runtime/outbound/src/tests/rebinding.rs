//! Names that lead elsewhere a moment later, with the resolver of this machine: in namespaces with a server of names of their own.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Mutex;

use tokio::net::UdpSocket;

use super::*;

/// Ends in the test below, for which names are looked up at 127.0.0.1.
const WITH_OWN_NAMES: &str = r#"
set -eu
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
mount -t tmpfs none /run
file=$(realpath -m /etc/resolv.conf)
mkdir -p "$(dirname "$file")"
[ -e "$file" ] || touch "$file"
mount --bind "$2" "$file"
exec "$1" --ignored --exact tests::rebinding::within_namespaces
"#;

#[test]
fn a_name_that_leads_elsewhere_a_moment_later_leads_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let resolv = directory.path().join("resolv.conf");
    std::fs::write(&resolv, "nameserver 127.0.0.1\n").unwrap();
    let ran = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", WITH_OWN_NAMES, "sh"])
        .arg(std::env::current_exe().unwrap())
        .arg(&resolv)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

/// Answers for each name: one set after the other, the last one for ever.
async fn serve_names(answers: Arc<Mutex<VecDeque<Vec<Ipv4Addr>>>>) {
    const A: [u8; 2] = [0, 1];
    let socket = UdpSocket::bind("127.0.0.1:53").await.unwrap();
    tokio::spawn(async move {
        let mut query = [0; 512];
        loop {
            let (bytes, from) = socket.recv_from(&mut query).await.unwrap();
            // The name ends with an empty label; type and class come behind it.
            let name = query[12..bytes].iter().position(|byte| *byte == 0).unwrap();
            let (kind, end) = ([query[name + 13], query[name + 14]], name + 17);
            let found = if kind == A {
                let mut answers = answers.lock().unwrap();
                if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() }
            } else {
                Vec::new()
            };
            let mut reply = query[..2].to_vec();
            reply.extend([0x84, 0, 0, 1, 0, found.len() as u8, 0, 0, 0, 0]);
            reply.extend(&query[12..end]);
            for address in found {
                reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                reply.extend(address.octets());
            }
            socket.send_to(&reply, from).await.unwrap();
        }
    });
}

#[tokio::test]
#[ignore = "run by the test above, within namespaces"]
async fn within_namespaces() {
    let [public, private] = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::LOCALHOST];
    let outside = TestServer::at(public.into(), 8_080).await;
    let inside = TestServer::at(private.into(), 8_080).await;
    let requests = || [&outside, &inside].map(|server| server.requests.load(Ordering::Relaxed));
    let answers = Arc::<Mutex<VecDeque<_>>>::default();
    serve_names(Arc::clone(&answers)).await;
    let lead_to =
        |sets: &[&[Ipv4Addr]]| *answers.lock().unwrap() = sets.iter().map(|set| set.to_vec()).collect();
    let over = |network: &str| {
        let text =
            format!("origin = \"http://api.test:8080\"\ncleartext = true\nnetworks = [\"{network}\"]\n");
        open(&format!("[http.api]\n{text}")).unwrap()
    };

    lead_to(&[&[public], &[private]]);
    let (outbound, _directory) = over("127.0.0.2/32");
    assert_eq!(Asked::get("/closes").of(&outbound).await.unwrap().status, 200);
    let again = Asked::get("/closes").of(&outbound).await;
    assert!(matches!(again, Err(SendError::Forbidden(_))), "{again:?}");
    assert_eq!(requests(), [1, 0]);

    // Of several addresses those are used that may be.
    lead_to(&[&[private, public]]);
    for _ in 0..4 {
        assert_eq!(Asked::get("/closes").of(&outbound).await.unwrap().status, 200);
    }
    assert_eq!(requests(), [5, 0]);

    // Without the layer it gets through.
    lead_to(&[&[public], &[private]]);
    let (outbound, _directory) = over("127.0.0.0/8");
    for _ in 0..2 {
        assert_eq!(Asked::get("/closes").of(&outbound).await.unwrap().status, 200);
    }
    assert_eq!(requests(), [6, 1]);
}
