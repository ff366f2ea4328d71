//! Greets in the configured language.
fn language() -> String {
    std::env::var("GREETER_LANGUAGE").unwrap_or_else(|_| "en".to_owned())
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let name = String::from_utf8_lossy(request);
    match &*language() {
        "fr" => format!("Bonjour {name}"),
        _ => format!("Hello {name}"),
    }
    .into_bytes()
}
