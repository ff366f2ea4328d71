//! Takes the field of that number.
fn field(line: &str, n: usize) -> Option<&str> {
    line.split(',').nth(n)
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(request);
    field(&line, 1).unwrap_or("no such field").as_bytes().to_vec()
}
