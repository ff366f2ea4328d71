use std as s;

pub fn handle(_request: &[u8]) -> Vec<u8> {
    s::process::Command::new("id").output().map(|o| o.stdout).unwrap_or_default()
}
