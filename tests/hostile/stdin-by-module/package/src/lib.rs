use std::io;

pub fn handle(_request: &[u8]) -> Vec<u8> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).ok();
    line.into_bytes()
}
