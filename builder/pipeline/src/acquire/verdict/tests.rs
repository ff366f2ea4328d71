#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn answer(compiled: bool, errors: &[(&str, &str)]) -> CompilerVerdict {
    let line = |(code, message): &(&str, &str)| {
        let code = if code.is_empty() { "null".to_owned() } else { format!("{{\"code\":\"{code}\"}}") };
        format!(
            "{{\"message\":\"{message}\",\"code\":{code},\"level\":\"error\",\"spans\":[{{\"file_name\":\"/crates/a-1.0.0/src/x.rs\",\
             \"line_start\":3,\"line_end\":3,\"column_start\":1,\"column_end\":2,\"is_primary\":true}}]}}"
        )
    };
    let errors = errors.iter().map(line).filter_map(|line| rustc_json::read(&line)).collect();
    let answer = Answer { compiled, ending: "Code(1)".to_owned(), errors };
    answer.verdict(&("a".parse().unwrap(), "1.0.0".parse().unwrap()))
}

#[test]
fn only_a_compiled_crate_without_an_error_is_clean() {
    assert_eq!(answer(true, &[]), CompilerVerdict::Clean);
    for (compiled, errors) in [
        (false, &[][..]),
        (true, &[("E0432", "unresolved import")][..]),
        (false, &[("E0432", "unresolved import")][..]),
        (false, &[("E0453", "allow(missing_docs) incompatible with previous forbid")][..]),
        (false, &[("unused", "a lint of its own")][..]),
    ] {
        assert!(matches!(answer(compiled, errors), CompilerVerdict::Failed { .. }), "{errors:?}");
    }
}

#[test]
fn every_error_of_the_lint_counts_wherever_it_comes_from() {
    let errors = [
        ("unsafe_code", "usage of an `unsafe` block"),
        ("E0453", "allow(unsafe_code) incompatible with previous forbid"),
        ("E0432", "unresolved import"),
    ];
    let CompilerVerdict::Unsafe { errors, hotspots } = answer(false, &errors) else { panic!("not unsafe") };
    assert_eq!((errors, hotspots.len(), hotspots[0].span.file.as_str()), (2, 2, "src/x.rs"));
}

#[test]
fn of_two_compilations_the_worse_one_counts() {
    let failed = || CompilerVerdict::Failed { reason: String::new() };
    let found = |errors| CompilerVerdict::Unsafe { errors, hotspots: Vec::new() };
    assert_eq!(worse(CompilerVerdict::Clean, failed()), failed());
    assert_eq!(worse(found(1), failed()), found(1));
    assert_eq!(worse(found(1), found(2)), found(2));
    assert_eq!(worse(CompilerVerdict::Clean, CompilerVerdict::Clean), CompilerVerdict::Clean);
}
