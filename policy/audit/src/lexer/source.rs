//! The files of the crate, cut into tokens.

use mfaas_rules::facts::SourceFact;
use mfaas_rules::limits::LEXER;
use mfaas_unpack::SourceTree;

use super::collector::Collector;
use crate::text::{Text, start_of};
use crate::token::{Cut, cut};

/// One file, cut into tokens.
pub(super) struct Source<'a> {
    pub(super) text: Text<'a>,
    pub(super) cut: Cut<'a>,
}

/// Cuts every file, as far as the limits on size and tokens go.
pub(super) fn sources<'a>(tree: &'a SourceTree, facts: &mut Collector) -> Vec<Source<'a>> {
    let mut sources = Vec::new();
    for (file, bytes) in tree.crate_files().filter(|(file, _)| file.ends_with(".rs")) {
        facts.facts.files += 1;
        facts.facts.bytes += bytes.len();
        if bytes.len() > LEXER.file_bytes_max {
            facts.push(SourceFact::Measure { what: "file_bytes_max", value: bytes.len() }, || start_of(file));
            continue;
        }
        if facts.facts.bytes > LEXER.total_bytes_max || facts.facts.tokens > LEXER.tokens_max {
            // Both totals are refused; reading on would only cost time.
            continue;
        }
        match std::str::from_utf8(bytes) {
            Err(_) => facts.push(SourceFact::Unreadable("not UTF-8".to_owned()), || start_of(file)),
            Ok(content) => {
                let text = Text::new(file, content);
                // One more than the limit, so that the total shows that it was passed.
                let left = LEXER.tokens_max + 1 - facts.facts.tokens;
                let cut = cut(content, left, false);
                facts.facts.tokens += cut.tokens.len();
                for fault in &cut.faults {
                    let fact = SourceFact::Unreadable(fault.reason.to_owned());
                    facts.push(fact, || text.span(fault.at, fault.length));
                }
                sources.push(Source { text, cut });
            }
        }
    }
    sources
}
