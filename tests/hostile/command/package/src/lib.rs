use std::process::Command;

pub fn handle(_request: &[u8]) -> Vec<u8> {
    Command::new("id").output().map(|o| o.stdout).unwrap_or_default()
}
