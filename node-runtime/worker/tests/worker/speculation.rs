//! The kernel's controls over speculation: what a worker says holds is what the kernel says about it, and no
//! function can change it.

use std::io::Write as _;

use mfaas_abi::Status;
use mfaas_ring::preload::{ControlLine, Preload, SpeculationControls, SpeculationLine, StartLine};
use rustix::process::Pid;
use rustix::thread::{CoreSchedulingScope, core_scheduling_cookie};

use crate::{Node, preload, toolchain};

/// PR_SET_SPECULATION_CTRL and PR_SCHED_CORE come by this call.
const PRCTL: u64 = 157;

fn started(speculation: SpeculationControls) -> (Node, SpeculationLine) {
    let node = Node::start_as(&[toolchain::hostile()], &Preload { speculation, ..preload() });
    let [StartLine::Mapped { speculation, .. }] = &node.report[..] else { panic!("{:?}", node.report) };
    let line = speculation.clone();
    (node, line)
}

/// What the kernel says about a process's misfeature, in its own words.
fn kernels_word(node: &Node, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.child.id())).expect("our own child");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_else(|| panic!("no {field} in {status}")).trim().to_owned()
}

#[test]
fn what_a_worker_says_holds_is_what_the_kernel_says() {
    let (node, line) = started(SpeculationControls::ALL);
    for (control, field) in [
        (&line.indirect_branches, "SpeculationIndirectBranch:"),
        (&line.store_bypass, "Speculation_Store_Bypass:"),
    ] {
        let word = kernels_word(&node, field);
        let holds = [
            "force mitigated",
            "force disabled",
            "not vulnerable",
            "not affected",
            "globally mitigated",
            "always disabled",
        ]
        .iter()
        .any(|held| word.contains(held));
        assert_eq!(control.holds, holds, "{control:?}, and the kernel says {word:?}");
        said(field, control, &word);
    }
    let pid = Pid::from_child(&node.child);
    let cookie = core_scheduling_cookie(pid, CoreSchedulingScope::Thread);
    let siblings = std::fs::read_to_string("/sys/devices/system/cpu/smt/active").unwrap_or_default();
    let holds = siblings.trim() == "0" || cookie.is_ok_and(|cookie| cookie != 0);
    assert_eq!(
        line.core_scheduling.holds, holds,
        "{:?}, and the kernel says {cookie:?}",
        line.core_scheduling
    );
    said("core scheduling:", &line.core_scheduling, &format!("{cookie:?}, siblings {:?}", siblings.trim()));
    assert!(node.stop().success());
}

fn said(name: &str, control: &ControlLine, word: &str) {
    writeln!(std::io::stderr(), "{name} {control:?}; the kernel: {word}").expect("somebody listens");
}

/// The ablation: each control is a setting, and without it the worker does not claim it.
#[test]
fn what_is_turned_off_is_not_claimed() {
    let (node, line) = started(SpeculationControls::NONE);
    for control in [&line.indirect_branches, &line.store_bypass, &line.core_scheduling] {
        assert_eq!((control.holds, &*control.reason), (false, "turned off by a setting"));
    }
    for field in ["SpeculationIndirectBranch:", "Speculation_Store_Bypass:"] {
        let word = kernels_word(&node, field);
        assert!(!word.contains("force"), "{field} {word}");
    }
    assert!(node.stop().success());
}

#[test]
fn no_function_changes_its_controls() {
    let (mut node, _) = started(SpeculationControls::NONE);
    for words in [[53u64, 0, 2], [53, 1, 2], [62, 1, 0], [62, 2, 1]] {
        let mut body = vec![b'S', b'n'];
        for word in [PRCTL].into_iter().chain(words).chain([0; 3]) {
            body.extend_from_slice(&word.to_le_bytes());
        }
        assert_eq!(node.call_with(0, &body).status, Status::Denied, "{words:?}");
    }
    assert!(node.stop().success());
}
