//! What is counted for each call. Handles are kept: naming a counter anew for each call costs more than
//! answering it.

use http::StatusCode;
use metrics::{Counter, Histogram, counter, histogram};

use super::body::Response;
use super::problem::Shown;

const CALLS: &str = "mfaas_calls_total";

/// Made after the recorder is installed; what was made before it counts nowhere.
pub(crate) struct Meters {
    well: Counter,
    run: Histogram,
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

impl Default for Meters {
    fn default() -> Self {
        Self { well: counter!(CALLS, "status" => "200", "code" => ""), run: histogram!("mfaas_run_seconds") }
    }
}

impl Meters {
    /// Counts an answer about a function.
    pub(super) fn answered(&self, response: &Response) {
        match response.extensions().get::<Shown>() {
            None if response.status() == StatusCode::OK => self.well.increment(1),
            shown => {
                let code = shown.map_or("", |shown| shown.0.id());
                let status = response.status().as_str().to_owned();
                counter!(CALLS, "status" => status, "code" => code).increment(1);
            }
        }
    }

    /// How long a call ran, in seconds.
    pub(super) fn ran(&self, seconds: f64) {
        self.run.record(seconds);
    }
}
