//! The place of a deployment in a trace: below that of the caller, or a trace of its own.

use std::time::{Duration, SystemTime};

use mfaas_ident::TraceParent;
use mfaas_trace::Work;

use crate::failure::Failure;

/// By which a script or a CI job hands its own place on.
const VARIABLE: &str = "TRACEPARENT";
/// How long the span may take on its way to a collector, which must not keep anybody waiting.
const TELL_WITHIN: Duration = Duration::from_secs(2);

/// A deployment under way.
#[derive(Debug)]
pub(super) struct Traced {
    /// What server, builder, signer and node hang their spans under.
    pub(super) place: TraceParent,
    above: Option<TraceParent>,
    began: SystemTime,
}

impl Traced {
    /// Begins one. What is no place in a trace is passed over, as the standard asks.
    pub(super) fn begin() -> Result<Self, Failure> {
        mfaas_trace::start("mfaas").map_err(|error| Failure::Usage(error.to_string()))?;
        let above = std::env::var(VARIABLE).ok().and_then(|text| TraceParent::parse(&text).ok());
        let place = above.as_ref().map_or_else(mfaas_trace::new_trace, mfaas_trace::below);
        Ok(Self { place, above, began: SystemTime::now() })
    }

    /// Tells of it, however it ended.
    pub(super) fn end(self) {
        let work = Work { name: "deploy", began: self.began, ended: SystemTime::now(), attributes: &[] };
        mfaas_trace::record_root(&self.place, self.above.as_ref(), work);
        mfaas_trace::finish(TELL_WITHIN);
    }
}
