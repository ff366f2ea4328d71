pub fn handle(_request: &[u8]) -> Vec<u8> {
    std::fs::read("/etc/passwd").unwrap_or_default()
}
