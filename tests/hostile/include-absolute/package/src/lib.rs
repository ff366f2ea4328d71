pub fn handle(_request: &[u8]) -> Vec<u8> {
    include_str!("/etc/passwd").as_bytes().to_vec()
}
