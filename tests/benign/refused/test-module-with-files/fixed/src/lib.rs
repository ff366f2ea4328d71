//! Counts lines.
pub fn handle(request: &[u8]) -> Vec<u8> {
    request.split(|b| *b == b'\n').count().to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        assert_eq!(handle(b"1\n2\n3"), b"3");
    }
}
