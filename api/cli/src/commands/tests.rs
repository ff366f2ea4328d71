#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use clap::{CommandFactory as _, Parser as _};

use super::Arguments;

#[test]
fn the_definitions_are_consistent_and_every_argument_has_help() {
    let mut command = Arguments::command();
    command.build();
    command.clone().debug_assert();
    let mut stack = vec![command];
    while let Some(command) = stack.pop() {
        assert!(command.get_about().is_some(), "{} has no help", command.get_name());
        for argument in command.get_arguments() {
            assert!(
                argument.get_help().is_some(),
                "{} {} has no help",
                command.get_name(),
                argument.get_id()
            );
        }
        stack.extend(command.get_subcommands().filter(|sub| sub.get_name() != "help").cloned());
    }
}

/// Every command that people see has an example in its long help, and the example is a line of that command.
#[test]
fn every_command_has_an_example_that_is_understood() {
    let mut root = Arguments::command();
    root.build();
    let (mut stack, mut seen) = (vec![("mfaas".to_owned(), root)], 0);
    while let Some((path, command)) = stack.pop() {
        let visible: Vec<_> =
            command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help").collect();
        if visible.is_empty() {
            let help = command.get_long_about().map(ToString::to_string).unwrap_or_default();
            let example = help.rsplit_once("For example: `").and_then(|(_, rest)| rest.split('`').next());
            let example = example.unwrap_or_else(|| panic!("{path} has no example"));
            assert!(example == path || example.starts_with(&format!("{path} ")), "{path}: {example}");
            let words = shell_words(example);
            Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{example}: {error}"));
            seen += 1;
        }
        stack.extend(visible.into_iter().map(|sub| (format!("{path} {}", sub.get_name()), sub.clone())));
    }
    assert!(seen > 40, "only {seen} commands were seen");
}

/// A line as a shell takes it, with quotation marks and nothing else.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        let mut pieces = part.split(' ');
        words.last_mut().unwrap().push_str(pieces.next().unwrap());
        words.extend(pieces.map(str::to_owned));
    }
    words
}

/// Names of the release before are still taken, and not shown.
#[test]
fn former_names_are_taken_and_hidden() {
    for line in
        ["mfaas allow list", "mfaas allow queue", "mfaas unban 7", "mfaas crate request regex --takeover"]
    {
        assert!(Arguments::try_parse_from(line.split(' ')).is_ok(), "{line}");
    }
    let help = Arguments::command().render_long_help().to_string();
    for former in ["  allow ", "  unban "] {
        assert!(!help.contains(former), "{former} is shown");
    }
    assert!(help.contains("  crate ") && help.contains("  review "), "{help}");
}

#[test]
fn options_of_the_release_before_are_accepted_and_not_shown() {
    for option in ["--sandbox-minimum", "--cage-minimum"] {
        let parsed = Arguments::try_parse_from(["mfaas", "up", option, "landlock"]).unwrap();
        assert!(format!("{parsed:?}").contains("sandbox_minimum: Some(\"landlock\")"), "{option}");
    }
    let help = Arguments::command().find_subcommand_mut("up").unwrap().render_long_help().to_string();
    assert!(help.contains("--sandbox-minimum") && !help.contains("--cage-minimum"), "{help}");
}

#[test]
fn nonsense_is_a_usage_error() {
    for line in [
        "mfaas frobnicate",
        "mfaas invoke",
        "mfaas invoke Hello",
        "mfaas rollback a --to 0",
        "mfaas list --color",
    ] {
        let error = Arguments::try_parse_from(line.split(' ')).unwrap_err();
        assert!(error.use_stderr(), "{line}");
    }
}
