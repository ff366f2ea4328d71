#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::ffi::OsStr;

use super::*;

#[test]
fn the_program_is_asked_for_what_was_typed_and_nothing_else() {
    assert!(BenchNode::default().arguments(false).is_empty());
    assert_eq!(BenchNode::default().arguments(true), ["--json", "-"]);
    let measuring = || Measuring {
        rounds: Some(16),
        rows: Some("warm,cold".to_owned()),
        json_file: Some("j".into()),
        quick: true,
    };
    let full = BenchNode {
        measuring: measuring(),
        svg: Some("s".into()),
        tenants: Some("1,9".to_owned()),
        node_url: Some("u".to_owned()),
        node_pid: Some(7),
    };
    let typed =
        "--rounds 16 --rows warm,cold --json j --quick --svg s --tenants 1,9 --node-url u --node-pid 7";
    assert_eq!(full.arguments(true).join(OsStr::new(" ")), typed);
    let noisy = BenchNoisyNeighbour { measuring: measuring() };
    let typed = "noisy-neighbour --rounds 16 --rows warm,cold --json j --quick";
    assert_eq!(noisy.arguments(false).join(OsStr::new(" ")), typed);
    let data = BenchData { measuring: measuring(), workers: Some("polling".to_owned()) };
    let typed = "data --rounds 16 --rows warm,cold --json j --quick --workers polling";
    assert_eq!(data.arguments(false).join(OsStr::new(" ")), typed);
    assert_eq!(BenchNoisyNeighbour::default().arguments(true), ["noisy-neighbour", "--json", "-"]);
}
