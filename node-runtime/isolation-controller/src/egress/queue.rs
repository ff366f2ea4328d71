//! The queueing discipline of an interface, by `tc` of iproute2. The kernel refuses to install ours where somebody has chosen another
//! one, and to remove one that has another handle; with ours removed it takes its default again.

use std::io;
use std::process::{Command, Stdio};

use crate::config::EgressConfig;

/// Sets queueing disciplines, from iproute2.
const TC: &str = "tc";
/// The handle of our discipline, which nobody else is likely to use.
const HANDLE: u32 = 0x6d66_0000;
/// Its one class, and the priority of packets that belong there.
pub(super) const SECONDARY: u32 = HANDLE | 1;
/// Bytes that the class may send at a time, as many as the kernel takes without a warning for any rate.
const QUANTUM: &str = "60000";

/// Shapes an interface, or says in one sentence why not.
pub(super) fn install(egress: &EgressConfig) -> Result<(), String> {
    let EgressConfig { interface, bytes_per_s } = egress;
    let rate = format!("{bytes_per_s}bps");
    // `default 0`: what is not marked has no class, and goes first.
    tc(&["qdisc", "add", "dev", interface, "root", "handle", &handle(), "htb", "default", "0"])
        .map_err(|error| format!("{interface} keeps its queueing discipline: {error}"))?;
    let class = format!("{}{:x}", handle(), SECONDARY & 0xffff);
    let parent = handle();
    let classified = tc(&[
        "class", "add", "dev", interface, "parent", &parent, "classid", &class, "htb", "rate", &rate, "ceil",
        &rate, "quantum", QUANTUM,
    ]);
    classified.map(drop).map_err(|error| {
        let removed = remove(interface).err().map(|error| format!(", and {error}"));
        format!("{interface} takes no bound: {error}{}", removed.unwrap_or_default())
    })
}

/// Removes ours, if it is there.
pub(super) fn remove(interface: &str) -> io::Result<()> {
    match tc(&["qdisc", "del", "dev", interface, "root", "handle", &handle()]) {
        Err(error) if is_installed(interface)? => Err(error),
        // It was not there, or the interface is not.
        _ => Ok(()),
    }
}

fn is_installed(interface: &str) -> io::Result<bool> {
    let of_all = tc(&["qdisc", "show"])?;
    let ours = format!("qdisc htb {} dev {interface} ", handle());
    Ok(of_all.lines().any(|line| line.starts_with(&ours)))
}

/// As `tc` writes it.
fn handle() -> String {
    format!("{:x}:", HANDLE >> 16)
}

fn tc(arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(TC).args(arguments).stdin(Stdio::null()).output().map_err(|error| {
        io::Error::new(error.kind(), format!("starting {TC} of the package iproute2: {error}"))
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = mfaas_ident::sanitise_line(&String::from_utf8_lossy(&output.stderr), 200);
    Err(io::Error::other(format!("{TC} said: {said}")))
}
