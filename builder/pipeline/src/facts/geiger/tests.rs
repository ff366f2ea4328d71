use super::*;

#[test]
fn batches_keep_their_limits_and_skip_what_is_unreadable() {
    let large = "x".repeat(CRATE_FACTS.geiger_bytes_max);
    let texts = [Some("a"), Some("b"), None, Some("c"), Some(large.as_str()), Some("d")];
    assert_eq!(batches(&texts), [0..2, 3..4, 4..5, 5..6]);
    let many = vec![Some("a"); CRATE_FACTS.geiger_files_max + 1];
    assert_eq!(batches(&many), [0..CRATE_FACTS.geiger_files_max, 64..65]);
}

#[test]
fn an_answer_counts_only_for_the_file_that_was_begun() {
    let mut reports = vec![None; 3];
    let lines = "{\"begins\":0}\n{\"ended\":{\"file\":1,\"report\":{\"unknown\":{\"reason\":\"x\"}}}}\n{\"begins\":7}\n";
    assert_eq!(take(lines.as_bytes(), &(0..3), &mut reports), Some(0));
    assert_eq!(reports, [None, None, None]);
}
