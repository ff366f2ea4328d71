//! A mail's body, decoded.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quoted_printable::{ParseMode, decode};
use std::collections::HashMap;

fn headers(text: &str) -> HashMap<String, String> {
    let mut found: HashMap<String, String> = HashMap::new();
    let mut last: Option<String> = None;
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            // A folded line belongs to the header before it.
            if let Some(value) = last.as_ref().and_then(|name| found.get_mut(name)) {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            let name = name.to_ascii_lowercase();
            found.insert(name.clone(), value.trim().to_owned());
            last = Some(name);
        }
    }
    found
}

fn body(encoding: &str, raw: &str) -> Result<Vec<u8>, String> {
    match encoding.to_ascii_lowercase().as_str() {
        "7bit" | "8bit" | "binary" => Ok(raw.as_bytes().to_vec()),
        "quoted-printable" => decode(raw, ParseMode::Strict).map_err(|error| error.to_string()),
        "base64" => {
            let dense: String = raw.split_whitespace().collect();
            STANDARD.decode(dense).map_err(|error| error.to_string())
        }
        other => Err(format!("encoding {other}")),
    }
}

fn answer(message: &str) -> Result<String, String> {
    let split = if message.starts_with("\r\n") { Some(("", &message[2..])) } else { message.split_once("\r\n\r\n") };
    let (head, raw) = split.ok_or("a message is header, blank line, body")?;
    let headers = headers(head);
    let header = |name: &str, default: &'static str| headers.get(name).map_or(default, String::as_str).to_owned();
    let body = body(&header("content-transfer-encoding", "7bit"), raw)?;
    let text = String::from_utf8_lossy(&body);
    Ok(format!("subject {}, {} bytes\n{text}", header("subject", "-"), body.len()))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let message = String::from_utf8_lossy(request);
    answer(&message).unwrap_or_else(|error| format!("refused: {error}")).into_bytes()
}
