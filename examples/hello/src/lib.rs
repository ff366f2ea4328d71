//! The smallest function that does something: it greets the person that the request names.
//!
//! Bytes come in, bytes go out; no macro and no dependency is needed.
//!
//! ```console
//! $ mfaas invoke hello --data Ada
//! Hello, Ada!
//! ```

/// Answers `Hello, <name>!`; an empty request greets the world.
pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let name = text.trim();
    let name = if name.is_empty() { "world" } else { name };
    format!("Hello, {name}!\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::handle;

    #[test]
    fn greets_by_name_or_the_world() {
        assert_eq!(handle(b"Ferris\n"), b"Hello, Ferris!\n");
        assert_eq!(handle(b""), b"Hello, world!\n");
    }
}
