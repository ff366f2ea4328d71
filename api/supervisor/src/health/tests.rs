use super::{Trouble, troubles};

#[test]
fn what_a_ready_program_goes_on_without_is_read() {
    let full = r#"{"status":"degraded","parts":[{"name":"builders","status":"ok"},
                   {"name":"blobs","status":"degraded","cause":"No space left\u001b[1m"}]}"#;
    let found = troubles(full);
    assert_eq!(found.len(), 1);
    assert!(!found[0].cause.contains('\u{1b}'), "{found:?}");
    assert!(found[0].to_string().starts_with("blobs: No space left"), "{found:?}");
    for whole in [r#"{"status":"ok"}"#, r#"{"status":"ok","parts":[]}"#, "ready\n", ""] {
        assert_eq!(troubles(whole), Vec::<Trouble>::new(), "{whole}");
    }
}
