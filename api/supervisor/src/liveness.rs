//! Whether programs that listen still answer: a process can be there and do nothing.
//!
//! Any answer is a sign of life, whatever it says. Must never take readiness for liveness: `/healthz` needs neither database nor
//! store, and a program that waits for those is not helped by a start from the beginning.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::error::SupervisorError;
use crate::health;
use crate::server::runtime;

/// What is asked for.
pub(crate) const ROUTE: &str = "/healthz";
/// How often each program is asked.
pub(crate) const PERIOD: Duration = Duration::from_secs(5);
/// A program that does not answer so many times in a row hangs: about 45 s, longer than any pause of a machine that is only busy.
pub(crate) const SILENCES_MAX: u32 = 9;

/// A process, and nothing or why it gave no sign of life.
type Answer = (i32, Result<(), String>);

/// Asks one program after another, in a thread of its own: whoever supervises waits for nobody.
#[derive(Debug)]
pub(crate) struct Liveness {
    questions: Sender<(i32, String)>,
    answers: Receiver<Answer>,
}

impl Liveness {
    /// Starts the thread, which ends with the value.
    pub(crate) fn start() -> Result<Self, SupervisorError> {
        let (questions, asked) = channel::<(i32, String)>();
        let (tell, answers) = channel();
        let http = health::client()?;
        let runtime = runtime()?;
        let ask_each = move || {
            for (pid, address) in asked {
                let answer =
                    runtime.block_on(health::get(&http, &format!("http://{address}"), ROUTE)).map(drop);
                if tell.send((pid, answer)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("liveness".to_owned())
            .spawn(ask_each)
            .map_err(|error| SupervisorError::Local(format!("cannot start a thread: {error}")))?;
        Ok(Self { questions, answers })
    }

    /// Asks the program that runs as `pid` and listens at `address`.
    pub(crate) fn ask(&self, pid: i32, address: &str) {
        // The thread ends only with us.
        let _ = self.questions.send((pid, address.to_owned()));
    }

    /// The next answer that has come.
    pub(crate) fn next_answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

#[cfg(test)]
mod tests;
