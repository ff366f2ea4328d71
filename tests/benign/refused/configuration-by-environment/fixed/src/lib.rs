//! Greets in the language that the request names: `fr:Ada`.
pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    match text.split_once(':').unwrap_or(("en", &text)) {
        ("fr", name) => format!("Bonjour {name}"),
        ("en", name) => format!("Hello {name}"),
        (other, _) => format!("no greeting in {other}"),
    }
    .into_bytes()
}
