//! Counts lines.
pub fn handle(request: &[u8]) -> Vec<u8> {
    request.split(|b| *b == b'\n').count().to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_a_file() {
        let path = "tests/three.txt";
        assert!(path.ends_with(".txt"));
        let text = std::fs::read(path).unwrap();
        assert_eq!(handle(&text), b"3");
    }
}
