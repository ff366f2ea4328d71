const fn spin() -> u8 {
    let mut n = 0u64;
    while n < u64::MAX {
        n += 1;
    }
    0
}
const BYTE: u8 = spin();

pub fn handle(_request: &[u8]) -> Vec<u8> {
    vec![BYTE]
}
