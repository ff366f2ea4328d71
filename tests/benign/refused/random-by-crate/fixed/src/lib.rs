//! Rolls a die: with the request as the seed, or with one of the host.
fn seed(request: &[u8]) -> Option<u64> {
    if request.is_empty() {
        return Some(u64::from_le_bytes(mfaas::random()));
    }
    std::str::from_utf8(request).ok()?.parse().ok()
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    match seed(request).map(|seed| fastrand::Rng::with_seed(seed).u8(1..=6)) {
        Some(1..=6) => b"between 1 and 6".to_vec(),
        Some(other) => format!("no die shows {other}").into_bytes(),
        None => b"a seed is a number".to_vec(),
    }
}
