//! Games with bits.
use std::num::ParseIntError;

const fn gray(n: u64) -> u64 {
    n ^ (n >> 1)
}

const fn ungray(mut g: u64) -> u64 {
    let mut shift = 1;
    while shift < u64::BITS {
        g ^= g >> shift;
        shift <<= 1;
    }
    g
}

/// Every bit at twice its place.
const fn spread(n: u64) -> u128 {
    const MASKS: [(u32, u128); 6] = [
        (32, 0x0000_0000_ffff_ffff_0000_0000_ffff_ffff),
        (16, 0x0000_ffff_0000_ffff_0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333_3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555_5555_5555_5555_5555),
    ];
    let mut wide = n as u128;
    let mut i = 0;
    while i < MASKS.len() {
        let (shift, mask) = MASKS[i];
        wide = (wide | (wide << shift)) & mask;
        i += 1;
    }
    wide
}

const _: () = assert!(ungray(gray(0xdead_beef)) == 0xdead_beef);
const _: () = assert!(spread(0b1011) == 0b1000101);

fn parse(text: &str) -> Result<u64, ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

fn answer(n: u64) -> String {
    assert_eq!(n.swap_bytes().swap_bytes().rotate_left(13).rotate_right(13), n);
    assert_eq!(n.wrapping_neg().wrapping_add(n), 0);
    assert_eq!(n.saturating_sub(u64::MAX), 0);
    assert_eq!(i128::from(n) - i128::from(n.overflowing_add(1).0), if n == u64::MAX { n.into() } else { -1 });
    format!(
        "gray {:b}, back {}, ones {}, zeros {}/{}, reversed {:x}, morton {}, parity {}",
        gray(n),
        ungray(gray(n)),
        n.count_ones(),
        n.leading_zeros(),
        n.trailing_zeros(),
        n.reverse_bits(),
        spread(n),
        if n.count_ones().is_multiple_of(2) { "even" } else { "odd" }
    )
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    parse(&text).map_or_else(|error| error.to_string(), answer).into_bytes()
}
