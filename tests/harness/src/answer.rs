//! What a command or a request answered.

use std::collections::BTreeMap;

use serde_json::Value;

/// A finished command.
#[derive(Debug)]
pub struct Run {
    /// Exit code; 128 + n for a signal n.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// The same run, if it ended with exit code 0.
    ///
    /// # Panics
    /// When it ended otherwise; the message shows both outputs.
    #[must_use]
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// The same run, if it ended with this exit code.
    ///
    /// # Panics
    /// When it ended otherwise; the message shows both outputs.
    #[must_use]
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON ({error}):\n{}\n{}", self.stdout, self.stderr))
    }
}

/// An HTTP answer.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{} answer is not JSON ({error}): {}", self.status, self.text()))
    }

    /// The body as text, faulty UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The `code` of a problem.
    #[track_caller]
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}
