//! Functions and structs stay small enough to be read at once; what is wider stands in a list with its reason.

use std::collections::BTreeSet;

use mfaas_architecture::{read, tracked_files};
use syn::{Fields, Item};

/// Lines of a function, from its first to its last.
const FUNCTION_LINES_MAX: usize = 70;
/// Fields of a struct.
const FIELDS_MAX: usize = 12;

/// Structs with more fields, and why they have them.
const WIDE: &[(&str, &str, &str)] = &[
    ("api/cli/src/commands/up.rs", "Up", "the options of a command, flat as clap reads them"),
    ("api/cli/src/commands/verify.rs", "Proof", "what is printed, flat as it is in JSON"),
    ("api/server/src/config.rs", "ServeConfig", "the variables of the program, flat as they are named"),
    ("api/server/src/console/allowlist.rs", "AllowlistPage", "what a template prints"),
    ("api/server/src/console/allowlist.rs", "AllowlistRow", "what a template prints"),
    ("api/server/src/console/file.rs", "FilePage", "what a template prints"),
    ("api/server/src/console/pages.rs", "DeploymentPage", "what a template prints"),
    ("api/server/src/console/queue.rs", "QueueRow", "what a template prints"),
    ("api/server/src/console/review.rs", "ReviewPage", "what a template prints"),
    ("api/server/src/console/rows.rs", "VersionRow", "what a template prints"),
    ("api/server/src/state.rs", "Shared", "what every request shares; each field is a type of its own"),
    ("api/supervisor/src/config.rs", "UpConfig", "the file of `mfaas up`, flat as it is stored"),
    ("api/supervisor/src/options.rs", "UpOptions", "the options of `mfaas up`, flat as they are given"),
    ("api/wire/src/reviews.rs", "DeltaView", "a body of the API"),
    ("api/wire/src/reviews.rs", "RequestView", "a body of the API"),
    ("api/wire/src/reviews.rs", "ReviewView", "a body of the API"),
    ("api/wire/src/triggers.rs", "TriggerView", "a body of the API"),
    ("api/wire/src/views.rs", "DeploymentView", "a body of the API"),
    ("api/wire/src/views.rs", "NodeView", "a body of the API"),
    ("api/wire/src/views.rs", "VersionView", "a body of the API"),
    (
        "builder/sandbox/src/sandbox.rs",
        "Running",
        "the ends of one process, its output so far and its limits",
    ),
    ("node-runtime/broker/src/broker.rs", "Broker", "what every connection shares"),
    ("node-runtime/dispatch/src/functions.rs", "Function", "one cache line, which nesting would pad"),
    ("node-runtime/dispatch/src/jobs.rs", "Job", "one cache line, which nesting would pad"),
    ("node-runtime/dispatch/src/limits.rs", "Limits", "a table of named limits"),
    ("node-runtime/dispatch/src/scheduler.rs", "Scheduler", "its tables, each a type of its own"),
    ("node-runtime/dispatch/src/worker.rs", "Worker", "read at every call; nesting would pad it"),
    ("policy/rules/src/crate_facts/delta.rs", "FactsDelta", "a stored document"),
    ("policy/rules/src/crate_facts/report.rs", "CrateReport", "a stored document"),
    ("policy/rules/src/facts.rs", "BinaryFacts", "facts of an image, one for each rule that asks"),
    ("registry/attest/src/claim.rs", "BuildClaim", "a stored document"),
    ("registry/attest/src/statement.rs", "Admission", "a signed document"),
    ("registry/catalog/src/functions.rs", "Version", "a row of the database"),
    ("registry/catalog/src/requests.rs", "Request", "a row of the database"),
    ("registry/catalog/src/reviews.rs", "ReviewRow", "a row of the database"),
    ("registry/delivery/src/node.rs", "Report", "a message between two releases"),
    ("registry/signer/src/ledger.rs", "BuiltRow", "a row of the database"),
];

/// The code of programs and libraries; tests and what people write for us are as long as they need.
fn sources() -> impl Iterator<Item = (String, String)> {
    let is_code = |file: &String| {
        let is_test = file.ends_with("/tests.rs") || file.contains("/tests/") || file.starts_with("tests/");
        file.ends_with(".rs") && file.contains("/src/") && !is_test && !file.starts_with("examples/")
    };
    tracked_files().into_iter().filter(is_code).map(|file| {
        let text = read(&file);
        (file, text)
    })
}

/// Functions with more lines than may be; rustfmt puts the end of each below its beginning. Naked functions are
/// assembler, which has no parts.
fn long_functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let bare = line.trim_start();
        let Some(name) = name_of_function(bare) else { continue };
        let end = format!("{}}}", &line[..line.len() - bare.len()]);
        let length = lines[at..].iter().position(|line| *line == end).map_or(1, |last| last + 1);
        let is_naked = lines[at.saturating_sub(4)..at].iter().any(|line| line.contains("unsafe(naked)"));
        if length > FUNCTION_LINES_MAX && !is_naked && !line.ends_with('}') {
            found.push((name.to_owned(), length));
        }
    }
    found
}

fn name_of_function(line: &str) -> Option<&str> {
    let (before, behind) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        word.starts_with("pub")
            || ["async", "const", "unsafe", "extern", "\"C\""].contains(&word)
            || word.ends_with(')')
    };
    let name = behind.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    (before.split_whitespace().all(is_qualifier) && !name.is_empty()).then_some(name)
}

/// Structs with more fields than may be.
fn wide_structs(file: &str, text: &str) -> Vec<String> {
    let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let wide = parsed.items.iter().filter_map(|item| match item {
        Item::Struct(item) if matches!(item.fields, Fields::Named(_)) && item.fields.len() > FIELDS_MAX => {
            Some(item.ident.to_string())
        }
        _ => None,
    });
    wide.collect()
}

#[test]
fn no_function_is_longer_than_a_screen() {
    let long = sources().flat_map(|(file, text)| {
        long_functions(&text)
            .into_iter()
            .map(move |(name, lines)| format!("{file}: `{name}` has {lines} lines"))
    });
    let long: Vec<String> = long.collect();
    assert!(long.is_empty(), "more than {FUNCTION_LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn every_wide_struct_has_its_reason() {
    let found: BTreeSet<(String, String)> = sources()
        .flat_map(|(file, text)| {
            wide_structs(&file, &text).into_iter().map(move |name| (file.clone(), name)).collect::<Vec<_>>()
        })
        .collect();
    let listed: BTreeSet<(String, String)> =
        WIDE.iter().map(|(file, name, _)| ((*file).to_owned(), (*name).to_owned())).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(new.is_empty(), "more than {FIELDS_MAX} fields, and no reason in the list: {new:?}");
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "not wide any more, take them from the list: {gone:?}");
}

#[test]
fn what_is_too_large_is_found() {
    let body = "    let a = 1;\n".repeat(FUNCTION_LINES_MAX);
    let long = format!("impl A {{\n    pub(crate) async fn b(\n        c: u8,\n    ) {{\n{body}    }}\n}}\n");
    assert_eq!(long_functions(&long), [("b".to_owned(), FUNCTION_LINES_MAX + 4)]);
    assert_eq!(long_functions(&format!("fn short() {{\n    a();\n}}\n{body}")), []);
    assert_eq!(long_functions(&format!("#[unsafe(naked)]\nextern \"C\" fn asm() {{\n{body}}}\n")), []);
    let fields = |count: usize| (0..count).map(|at| format!("f{at}: u8, ")).collect::<String>();
    assert_eq!(wide_structs("a.rs", &format!("struct A {{ {} }}", fields(FIELDS_MAX))), [""; 0]);
    assert_eq!(wide_structs("a.rs", &format!("struct A {{ {} }}", fields(FIELDS_MAX + 1))), ["A"]);
}
