//! What is counted for each call and each connection. Handles are kept: naming a counter anew for each call costs more than
//! answering it.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use http::StatusCode;
use metrics::{Counter, Histogram, counter, histogram};
use mfaas_ident::{FunctionName, TenantName};

use super::problem::Shown;
use super::response::Response;
use crate::serving::Served;

const CALLS: &str = "mfaas_calls_total";
/// From a request's head to its answer, in seconds.
pub(crate) const REQUEST_SECONDS: &str = "mfaas_request_seconds";
/// Functions with a series of their own in [`REQUEST_SECONDS`]: the first ones that answer, as in the series of usage. All further ones
/// are `other`, so that whoever deploys cannot make the scrape grow without an end.
const FUNCTIONS_SHOWN_MAX: usize = 200;
const OTHER: &str = "other";

/// Made after the recorder is installed; what was made before it counts nowhere.
pub(crate) struct Meters {
    well: Counter,
    run: Histogram,
    whole: RwLock<Latencies>,
}

/// Histograms by function, and by the scheduler's numbers of its versions.
struct Latencies {
    by_name: HashMap<(TenantName, FunctionName), Histogram>,
    by_id: Vec<Option<Histogram>>,
    other: Histogram,
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

impl Default for Meters {
    fn default() -> Self {
        let other = histogram!(REQUEST_SECONDS, "function" => OTHER);
        Self {
            well: counter!(CALLS, "status" => "200", "code" => ""),
            run: histogram!("mfaas_run_seconds"),
            whole: RwLock::new(Latencies { by_name: HashMap::new(), by_id: Vec::new(), other }),
        }
    }
}

impl Meters {
    /// Counts an answer about a function.
    pub(super) fn answered(&self, response: &Response) {
        match response.extensions().get::<Shown>() {
            None if response.status() == StatusCode::OK => self.well.increment(1),
            shown => refused_or_odd(response.status(), shown.copied()),
        }
    }

    /// How long a call ran, in seconds.
    pub(super) fn ran(&self, seconds: f64) {
        self.run.record(seconds);
    }

    /// How long a request of this version took, from its head to its answer, in seconds.
    pub(super) fn took(&self, served: &Served, seconds: f64) {
        let id = served.id.0 as usize;
        {
            let known = self.whole.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(Some(histogram)) = known.by_id.get(id) {
                histogram.record(seconds);
                return;
            }
        }
        let mut known = self.whole.write().unwrap_or_else(PoisonError::into_inner);
        known.find_or_open(served).record(seconds);
    }
}

/// Counts an answer with another status than 200, or with a code.
fn refused_or_odd(status: StatusCode, shown: Option<Shown>) {
    let code = shown.map_or("", |shown| shown.0.id());
    counter!(CALLS, "status" => status.as_str().to_owned(), "code" => code).increment(1);
}

impl Latencies {
    /// Whoever has a series keeps it: a count must not move from one label to another. The scheduler gives a number
    /// to one version for ever.
    fn find_or_open(&mut self, served: &Served) -> Histogram {
        let name = (served.key.tenant.clone(), served.key.function.clone());
        let found = match self.by_name.get(&name) {
            Some(found) => found.clone(),
            None if self.by_name.len() >= FUNCTIONS_SHOWN_MAX => self.other.clone(),
            None => {
                let label = format!("{}/{}", name.0, name.1);
                let opened = histogram!(REQUEST_SECONDS, "function" => label);
                self.by_name.insert(name, opened.clone());
                opened
            }
        };
        let id = served.id.0 as usize;
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, None);
        }
        self.by_id[id] = Some(found.clone());
        found
    }
}

#[cfg(test)]
mod tests;
