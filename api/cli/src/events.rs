//! Server-sent events: bytes in, events out, with the id to resume behind.
//!
//! The stream comes from a server that we chose but bytes are bytes: a line may be cut anywhere,
//! and one that never ends is refused.

use mfaas_wire::Event;

use crate::failure::Failure;

/// The longest event, in bytes: diagnostics of one stage, drawn.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// Collects bytes until events are complete (WHATWG HTML, 9.2.6).
#[derive(Debug, Default)]
pub(crate) struct Parser {
    pending: Vec<u8>,
    data: String,
    /// The id of the event that is being read; counts once the event is complete.
    id: Option<String>,
    last_id: Option<String>,
}

impl Parser {
    /// The id of the newest complete event, for `Last-Event-ID`.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Forgets a half-read event; the next connection sends it again.
    pub(crate) fn reconnect(&mut self) {
        self.pending.clear();
        self.data.clear();
        self.id = None;
    }

    /// Takes more bytes and returns the events that are complete now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Failure> {
        self.pending.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            events.extend(self.line(line.trim_end_matches(['\n', '\r']))?);
        }
        if self.pending.len() + self.data.len() > EVENT_BYTES_MAX {
            return Err(malformed(format!("an event is larger than {EVENT_BYTES_MAX} bytes")));
        }
        Ok(events)
    }

    fn line(&mut self, line: &str) -> Result<Option<Event>, Failure> {
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        // Comments (empty field), `event` and `retry` carry nothing that the data does not say.
        match field {
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            _ => {}
        }
        Ok(None)
    }

    fn dispatch(&mut self) -> Result<Option<Event>, Failure> {
        let data = std::mem::take(&mut self.data);
        if let Some(id) = self.id.take() {
            self.last_id = Some(id);
        }
        if data.is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&data).map(Some).map_err(|e| malformed(e.to_string()))
    }
}

fn malformed(cause: String) -> Failure {
    Failure::Protocol { what: "the event stream".to_owned(), cause }
}

#[cfg(test)]
mod tests;
