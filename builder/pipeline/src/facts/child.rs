//! The child: geiger over numbered files, one line of JSON for each.
//!
//! Runs in the build sandbox alone, over hostile text, and may die at any of them: so it says which
//! file it begins before it begins. It decides nothing and reads nothing but the files of its range.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use geiger::{IncludeTests, RsFileMetrics, find_unsafe_in_string};
use mfaas_rules::crate_facts::{Count, GeigerCounts, GeigerReport};
use serde::{Deserialize, Serialize};

use crate::error::BuilderError;

/// One line of the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    /// This file is next.
    Begins(usize),
    /// This is what came of it.
    Ended {
        /// The file.
        file: usize,
        /// geiger's answer.
        report: GeigerReport,
    },
}

/// Reads the files `first` to `behind` (not included) of `directory`.
pub(crate) fn child(directory: &Path, first: usize, behind: usize) -> Result<ExitCode, BuilderError> {
    for file in first..behind {
        write_line(&Line::Begins(file))?;
        let path = directory.join(file.to_string());
        let text = std::fs::read_to_string(&path).map_err(BuilderError::io(&path))?;
        let report = match find_unsafe_in_string(&text, IncludeTests::Yes) {
            Ok(metrics) => counted(&metrics),
            Err(error) => GeigerReport::Unknown {
                reason: mfaas_ident::sanitise_line(&format!("it cannot parse the file: {error}"), 200),
            },
        };
        write_line(&Line::Ended { file, report })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_line(line: &Line) -> Result<(), BuilderError> {
    let failed = |error: std::io::Error| BuilderError::io("standard output")(error);
    let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&text).and_then(|()| out.flush()).map_err(failed)
}

fn counted(metrics: &RsFileMetrics) -> GeigerReport {
    let counters = &metrics.counters;
    let count = |safe, unsafe_| Count { safe, unsafe_ };
    GeigerReport::Counted {
        counts: GeigerCounts {
            functions: count(counters.functions.safe, counters.functions.unsafe_),
            exprs: count(counters.exprs.safe, counters.exprs.unsafe_),
            impls: count(counters.item_impls.safe, counters.item_impls.unsafe_),
            traits: count(counters.item_traits.safe, counters.item_traits.unsafe_),
            methods: count(counters.methods.safe, counters.methods.unsafe_),
        },
        forbids_unsafe: metrics.forbids_unsafe,
    }
}
