pub fn handle(request: &[u8]) -> Vec<u8> {
    request.iter().rev().copied().collect()
}
