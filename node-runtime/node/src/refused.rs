//! Why a document or an image is not taken, as the report to the server names it.

use mfaas_rules::Code;

/// Why something is not taken: a stable code and one sentence, both for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn new(code: Code, message: impl AsRef<str>) -> Self {
        Self { code, message: mfaas_ident::sanitise_line(message.as_ref(), 400) }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.id(), self.message)
    }
}
