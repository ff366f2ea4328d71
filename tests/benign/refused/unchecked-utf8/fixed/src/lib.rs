//! Counts characters of what should be UTF-8.
pub fn handle(request: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(request) {
        Ok(text) => text.chars().count().to_string(),
        Err(error) => error.to_string(),
    }
    .into_bytes()
}
