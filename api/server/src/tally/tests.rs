use super::*;

#[test]
fn a_flood_is_counted_and_takes_no_line_of_others_nor_of_other_kinds() {
    let tally = Tally::default();
    let lines = (0..1_000).filter(|_| tally.has_line(About::Anybody, "MF0901")).count();
    assert_eq!(lines as u64, limits::ANONYMOUS_LINES_MAX);
    assert!(tally.has_line(About::Anybody, "handshake"), "another kind is hidden");
    assert!(tally.has_line(About::KnownCaller, "MF0903") && tally.has_line(About::Ourselves, "MF0910"));
    assert_eq!(tally.lock().without_line["MF0901"], 1_000 - limits::ANONYMOUS_LINES_MAX);
    tally.tell();
    assert!(tally.lock().without_line.is_empty() && tally.has_line(About::Anybody, "MF0901"));
}
