#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::{Arc, Mutex};

use super::*;

#[derive(Debug, Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What stands in the log after `says`.
fn logged(json: bool, says: impl FnOnce()) -> String {
    let written = Written::default();
    let makes = written.clone();
    let log = tracing_subscriber::fmt().with_writer(Lines(move || makes.clone()));
    if json {
        tracing::subscriber::with_default(log.json().finish(), says);
    } else {
        tracing::subscriber::with_default(log.with_ansi(false).finish(), says);
    }
    String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
}

/// Every way in which a value stands in an event, with every end of a line and what steers a terminal.
#[test]
fn no_value_ends_a_line_or_steers_a_terminal() {
    let hostile = "x\nFORGED\r\n\u{85}\u{2028}\u{2029}\u{b}\u{c}\u{1b}[2J\u{9b}31m\u{7f}\0end";
    for json in [false, true] {
        let text = logged(json, || {
            tracing::info!(shown = %hostile, debugged = ?hostile, plain = hostile, "{hostile}");
        });
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        assert!(text.ends_with('\n') && text.contains("FORGED") && text.contains("end"), "{text:?}");
        let steers = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'));
        assert!(!text.contains(steers), "{text:?}");
    }
}

#[test]
fn what_is_harmless_stays_as_it_is() {
    let text = logged(false, || tracing::info!(path = "C:\\größe", "an event"));
    assert!(text.contains("an event path=\"C:\\\\größe\"") && text.lines().count() == 1, "{text:?}");
    assert!(matches!(escaped("größe\\n"), Cow::Borrowed("größe\\n")));
}
