//! Following a deployment's events to their end, over broken connections.

use std::time::Duration;

use mfaas_supervisor::innermost;
use mfaas_wire::{Event, EventKind};

use super::Outcome;
use super::outcome::{WAITS_FOR_A_BUILDER, WAITS_FOR_THE_SERVICE};
use crate::client::Client;
use crate::events::Parser;
use crate::failure::Failure;
use crate::screen::Spinner;
use crate::settings::Context;

/// How often a broken stream is opened again before it counts as unreachable.
const RECONNECTS_MAX: u32 = 60;

/// A stream that is silent for this long is opened again: the server sends comments more often.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// Shows events until the state that ends the stream, and collects them in `outcome`.
pub(crate) async fn follow(
    context: &Context,
    client: &Client,
    path: &str,
    spinner: &Spinner,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let mut parser = Parser::default();
    let mut broken = 0;
    loop {
        let failure = match one_connection(context, client, path, spinner, &mut parser, outcome).await {
            Ok(true) => return Ok(()),
            // The server ended the stream early, for example because it restarts.
            Ok(false) => None,
            Err(failure @ Failure::Unreachable { .. }) => Some(failure),
            Err(failure) => return Err(failure),
        };
        broken += 1;
        if broken > RECONNECTS_MAX {
            return Err(failure.unwrap_or_else(|| Failure::Protocol {
                what: "the event stream".to_owned(),
                cause: "it ends again and again without a verdict".to_owned(),
            }));
        }
        parser.reconnect();
        tokio::time::sleep(Duration::from_millis(if broken < 5 { 100 } else { 1000 })).await;
    }
}

/// Reads one connection to its end; true when the deployment reached a state that ends it.
async fn one_connection(
    context: &Context,
    client: &Client,
    path: &str,
    spinner: &Spinner,
    parser: &mut Parser,
    outcome: &mut Outcome,
) -> Result<bool, Failure> {
    let after = parser.last_id().map(str::to_owned);
    let mut response = client.events(path, after.as_deref()).await?;
    loop {
        let chunk = match tokio::time::timeout(SILENCE_LIMIT, response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) | Err(_) => return Ok(false),
            Ok(Err(error)) => {
                return Err(Failure::Unreachable {
                    what: client.server().to_owned(),
                    cause: innermost(&error),
                });
            }
        };
        for event in parser.push(&chunk)? {
            show(context, spinner, &event);
            if outcome.take(event) {
                return Ok(true);
            }
        }
    }
}

/// One line for each finished stage; what runs now is the spinner's text.
fn show(context: &Context, spinner: &Spinner, event: &Event) {
    match event.kind {
        EventKind::Started => spinner.message(&event.stage),
        EventKind::Finished => spinner.above(&context.screen, &stage_line(event)),
        EventKind::State => {
            if let Some(state) = event.state {
                spinner.message(state.as_str());
            }
        }
        // Shown once and together, at the end, but for what is over by then.
        EventKind::Diagnostic => {
            if event.diagnostics.iter().any(|diagnostic| diagnostic.code == WAITS_FOR_THE_SERVICE) {
                spinner.message("waiting for the build service");
            }
            // Said at once: it may take until somebody starts a builder.
            for waits in event.diagnostics.iter().filter(|diagnostic| diagnostic.code == WAITS_FOR_A_BUILDER)
            {
                spinner.above(&context.screen, &format!("{}: {}", waits.code, waits.message));
            }
        }
    }
}

fn stage_line(event: &Event) -> String {
    let time =
        |value: Option<f64>, what: &str| value.map_or(String::new(), |ms| format!("  {ms:8.1} ms {what}"));
    format!("  {:12}{}{}", event.stage, time(event.wall_ms, "wall"), time(event.cpu_ms, "cpu"))
}
