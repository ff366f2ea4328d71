pub fn handle(request: &[u8]) -> Vec<u8> {
    // ‮ } ⁦ if admin⁩ ⁦
    request.to_vec()
}
