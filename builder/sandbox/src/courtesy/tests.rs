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

#[test]
fn this_very_process_is_a_member_of_its_session() {
    let session = rustix::process::getsid(None).expect("every process has a session");
    let session = session.as_raw_nonzero().get().unsigned_abs();
    let group = rustix::process::getpgrp().as_raw_nonzero().get();
    assert!(members(session).iter().any(|member| member.process_group == group));
}
