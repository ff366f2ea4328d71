use mfaas_rules::limits::COMPILE;

use super::*;

fn error(message: &str, rendered: &str) -> rustc_json::Diagnostic {
    rustc_json::Diagnostic {
        level: rustc_json::Level::Error,
        message: message.to_owned(),
        code: None,
        rendered: rendered.to_owned(),
        span: None,
        remarks: Vec::new(),
    }
}

#[test]
fn a_stack_overflow_is_distinguished_from_other_crashes() {
    let text = "error: rustc interrupted by SIGSEGV, printing backtrace\n\nnote: rustc unexpectedly overflowed its stack! this is a bug\n";
    assert!(stack(text).is_some_and(|text| text.contains("`stack_bytes_max` (64 MiB)")));
    assert_eq!(stack("error: rustc interrupted by SIGSEGV, printing backtrace"), None);
}

#[test]
fn each_limit_of_the_sandbox_is_reported_with_name_value_and_unit() {
    let limits = COMPILE;
    for (text, name) in [
        (cpu(&limits), "`cpu_seconds_max` (30 s)"),
        (wall(&limits), "`wall_seconds_max` (120 s)"),
        (memory(&limits), "`memory_bytes_max` (2 GiB)"),
        (output(&limits), "`output_bytes_max` (4 MiB)"),
        (file(&limits), "`file_bytes_max` (256 MiB)"),
    ] {
        assert!(text.contains(name), "{text}");
    }
    assert_eq!([bytes(1), bytes(1_536), bytes(64 << 10)], ["1 bytes", "1536 bytes", "64 KiB"]);
}

#[test]
fn the_compilers_own_limits_get_their_names() {
    let rows = [
        ("recursion limit reached while expanding `f!`", "`recursion_limit` (128 levels)"),
        ("overflow evaluating the requirement `W<u8>: T`", "`recursion_limit` (128 levels)"),
        ("reached the recursion limit while instantiating `go`", "`recursion_limit` (128 levels)"),
        ("constant evaluation is taking a long time", "`long_running_const_eval`"),
        ("values of the type `[u64; 9]` are too big for the target architecture", "`obj_size_bound`"),
    ];
    for (message, name) in rows {
        let found = compiler_limits(&[error("mismatched types", ""), error(message, "")]);
        assert_eq!(found.len(), 1, "{message}");
        assert!(found[0].message.contains(name) && !found[0].hint.is_empty(), "{found:?}");
        assert_eq!(found[0].code, codes::MF0401);
    }
}

#[test]
fn a_note_below_an_error_counts_and_ordinary_errors_do_not() {
    let noted = error("evaluation failed", "note: tried to allocate more memory than available to compiler");
    let found = constant_memory(&[noted], &COMPILE).expect("the note is read");
    assert_eq!(found.code, codes::MF0404);
    let ordinary = [error("mismatched types", "expected `u8`")];
    assert_eq!((compiler_limits(&ordinary), constant_memory(&ordinary, &COMPILE)), (vec![], None));
}
