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
