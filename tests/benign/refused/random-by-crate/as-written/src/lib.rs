//! Rolls a die.
pub fn handle(_: &[u8]) -> Vec<u8> {
    rand::random_range(1..=6u8).to_string().into_bytes()
}
