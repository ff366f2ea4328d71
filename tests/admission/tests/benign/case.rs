//! One call of a program and what must come of it, as `cases.json` has it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// A case. What is not named must be as usual: status `ok`, any log.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The body of the request.
    #[serde(rename = "in")]
    pub(crate) input: Bytes,
    /// The body of the answer. Left out only where there is none, as after a panic.
    out: Option<Bytes>,
    /// How the call ends, in the words of the interface.
    #[serde(default = "ok")]
    status: String,
    /// The status of the response.
    http_status: Option<u16>,
    /// The message of a call that did not answer.
    message: Option<String>,
    /// Every log line, in order.
    logs: Option<Vec<String>>,
}

/// A text, or bytes in base64.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Bytes {
    Text(String),
    Binary { b64: String },
}

fn ok() -> String {
    "ok".to_owned()
}

impl Bytes {
    /// # Panics
    /// When the base64 of a case is none.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Binary { b64 } => STANDARD.decode(b64).unwrap(),
        }
    }
}

impl Case {
    /// Whether anything is demanded of the answer.
    pub(crate) fn demands_something(&self) -> bool {
        self.out.is_some() || self.status != ok()
    }

    /// Compares with the worker's line; an error says what differs.
    pub(crate) fn compare(&self, answer: &Value) -> Result<(), String> {
        let text = |key: &str| answer[key].as_str().unwrap_or_default();
        if text("status") != self.status {
            return Err(format!(
                "ended as {} instead of {}: {}",
                answer["status"],
                self.status,
                text("message")
            ));
        }
        if let Some(wanted) = &self.out {
            let found = STANDARD.decode(text("body_base64")).map_err(|error| error.to_string())?;
            same("body", &found, &wanted.to_vec())?;
        }
        if let Some(wanted) = self.http_status
            && answer["http_status"] != wanted
        {
            return Err(format!("response status {} instead of {wanted}", answer["http_status"]));
        }
        if let Some(wanted) = &self.message
            && !text("message").contains(wanted.as_str())
        {
            return Err(format!("message {:?} without {wanted:?}", text("message")));
        }
        if let Some(wanted) = &self.logs {
            let found: Vec<&str> = answer["logs"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|log| log["text"].as_str())
                .collect();
            if found != *wanted {
                return Err(format!("log lines {found:?} instead of {wanted:?}"));
            }
        }
        Ok(())
    }
}

fn same(what: &str, found: &[u8], wanted: &[u8]) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    let show = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
    Err(format!("{what}\n  found  {}\n  wanted {}", show(found), show(wanted)))
}
