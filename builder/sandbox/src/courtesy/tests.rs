use std::process::Command;

use super::*;

const STAT: &str = "4242 (rustc ) 7 S 1) R 4241 4240 4239 0 -1 4194304 100 0 0 0 150 30 7 3 20 0 5 0 9 1 2";

#[test]
fn a_line_about_a_process_is_read_behind_its_name() {
    assert_eq!(member(STAT, 4239), Some(Member { process_group: 4240, ticks: 190 }));
    assert_eq!(member(STAT, 4240), None, "another session");
    for cut in 0..STAT.len() - 20 {
        let _ = member(&STAT[..cut], 4239);
    }
}

/// A session of its own, as a sandbox's helper opens one: the session of the test itself may have its
/// leader in another process namespace, where it has no number here.
#[test]
fn what_opened_a_session_is_a_member_of_it() {
    let mut leader = Command::new("setsid").args(["sleep", "600"]).spawn().expect("setsid starts");
    let session = leader.id();
    let group = i32::try_from(session).expect("a process number");
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut found = Vec::new();
    while found.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
        found = members(session);
    }
    leader.kill().expect("it can be ended");
    leader.wait().expect("it is waited for");
    assert_eq!(found.iter().map(|member| member.process_group).collect::<Vec<_>>(), [group]);
    assert_eq!(members(session), [], "what has ended is no member");
}
