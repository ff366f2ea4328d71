//! A table in a module of its own.
mod names {
    pub(super) fn of(n: usize) -> &'static str {
        ["zero", "one", "two"].get(n).copied().unwrap_or("many")
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    names::of(request.len()).as_bytes().to_vec()
}
