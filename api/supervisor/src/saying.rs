//! What the supervisor says: on the terminal in the foreground, in its log when it has none.

use std::io::Write as _;
use std::sync::{Mutex, OnceLock};

use crate::layout::Home;
use crate::logs::{self, Form, Log};

/// The log of a supervisor that has no terminal.
static OWN_LOG: OnceLock<Mutex<Log>> = OnceLock::new();

/// From now on [`say`] writes into the log of this home's supervisor.
pub(crate) fn say_into_log(home: &Home) {
    let _ = OWN_LOG.set(Mutex::new(Log::at(home.log("supervisor"), Form::Text)));
}

/// One line for whoever watches: the terminal in the foreground, the log when detached.
pub(crate) fn say(line: &str) {
    let Some(log) = OWN_LOG.get() else {
        let _ = writeln!(anstream::stderr(), "{line}");
        return;
    };
    let time = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let mut log = logs::lock(log);
    log.append(format!("{time} {line}\n").as_bytes());
    // What gets to standard error on other ways belongs into the present file, too.
    if let Some(file) = log.file() {
        let _ = rustix::stdio::dup2_stderr(file);
        let _ = rustix::stdio::dup2_stdout(file);
    }
}
